// Compile-only declaration, never in the jar.
package org.apache.hadoop.conf;

public class Configuration {
    public native String get(String key, String fallback);

    public native boolean getBoolean(String key, boolean fallback);
}
