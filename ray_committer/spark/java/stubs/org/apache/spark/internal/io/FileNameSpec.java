// Compile-only declaration, never in the jar.
package org.apache.spark.internal.io;

public final class FileNameSpec {
    public FileNameSpec(String prefix, String suffix) {}

    public native String prefix();

    public native String suffix();
}
