// Compile-only declaration, never in the jar.
package org.apache.spark.internal.io;

public final class FileNameSpec {
    private FileNameSpec() {}
}
