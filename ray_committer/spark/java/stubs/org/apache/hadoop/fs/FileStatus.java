// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

public class FileStatus {
    public native Path getPath();

    public native boolean isDirectory();

    public native long getLen();

    public native long getModificationTime();
}
