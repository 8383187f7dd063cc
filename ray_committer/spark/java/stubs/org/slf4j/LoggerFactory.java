// Compile-only declaration, never in the jar.
package org.slf4j;

public final class LoggerFactory {
    private LoggerFactory() {}

    public static native Logger getLogger(Class<?> owner);
}
