// Compile-only declaration, never in the jar.
package org.apache.hadoop.conf;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Iterator;
import java.util.Map;

public class Configuration implements Iterable<Map.Entry<String, String>> {
    public Configuration(Configuration other) {}

    public Configuration(boolean loadDefaults) {}

    public native String get(String key);

    public native String get(String key, String fallback);

    public native String getRaw(String key);

    public native void set(String key, String value);

    public native boolean getBoolean(String key, boolean fallback);

    public native char[] getPassword(String key) throws IOException;

    public native char[] getPasswordFromCredentialProviders(String key) throws IOException;

    public native void readFields(DataInput in) throws IOException;

    public native void write(DataOutput out) throws IOException;

    @Override
    public native Iterator<Map.Entry<String, String>> iterator();
}
