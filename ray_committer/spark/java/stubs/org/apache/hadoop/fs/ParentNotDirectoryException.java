// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.IOException;

public class ParentNotDirectoryException extends IOException {
    private static final long serialVersionUID = 1L;
}
