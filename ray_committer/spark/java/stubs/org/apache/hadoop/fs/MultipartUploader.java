// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.Closeable;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;

public interface MultipartUploader extends Closeable {
    CompletableFuture<Void> abort(UploadHandle upload, Path path) throws IOException;
}
