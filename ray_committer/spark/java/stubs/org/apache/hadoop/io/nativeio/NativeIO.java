// Compile-only declaration, never in the jar.
package org.apache.hadoop.io.nativeio;

public final class NativeIO {
    private NativeIO() {}

    public static native boolean isAvailable();
}
