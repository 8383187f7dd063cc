// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.nio.ByteBuffer;

public final class BBUploadHandle {
    private BBUploadHandle() {}

    public static native UploadHandle from(ByteBuffer bytes);
}
