// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

public class Path {
    public Path(String path) {}

    public Path(URI uri) {}

    public Path(String parent, String child) {}

    public Path(Path parent, String child) {}

    public Path(String scheme, String authority, String path) {}

    public native FileSystem getFileSystem(Configuration conf) throws IOException;

    public native Path getParent();

    public native String getName();

    public native int depth();

    public native URI toUri();
}
