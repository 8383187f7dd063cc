// Compile-only declaration, never in the jar.
package org.apache.hadoop.conf;

import java.io.IOException;
import java.util.Iterator;
import java.util.Map;

public class Configuration implements Iterable<Map.Entry<String, String>> {
    public native String get(String key);

    public native String get(String key, String fallback);

    public native boolean getBoolean(String key, boolean fallback);

    public native char[] getPassword(String key) throws IOException;

    @Override
    public native Iterator<Map.Entry<String, String>> iterator();
}
