// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.IOException;

public interface MultipartUploaderBuilder<
        S extends MultipartUploader, B extends MultipartUploaderBuilder<S, B>> {
    S build() throws IOException;
}
