// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs.permission;

import org.apache.hadoop.conf.Configuration;

public class FsPermission {
    public static native FsPermission getDirDefault();

    public static native FsPermission getUMask(Configuration configuration);

    public native FsPermission applyUMask(FsPermission umask);

    public native short toShort();
}
