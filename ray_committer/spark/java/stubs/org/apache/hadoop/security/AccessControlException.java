// Compile-only declaration, never in the jar.
package org.apache.hadoop.security;

import java.io.IOException;

public class AccessControlException extends IOException {
    private static final long serialVersionUID = 1L;
}
