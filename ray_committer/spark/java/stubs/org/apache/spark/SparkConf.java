// Compile-only declaration, never in the jar.
package org.apache.spark;

public class SparkConf {
    public native String get(String key, String fallback);

    public native long getSizeAsBytes(String key, String defaultValue);
}
