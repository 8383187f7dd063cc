// Compile-only declaration, never in the jar.
package org.slf4j;

public interface Logger {
    void debug(String message, Throwable cause);

    void info(String message);

    void warn(String message);

    void warn(String message, Throwable cause);
}
