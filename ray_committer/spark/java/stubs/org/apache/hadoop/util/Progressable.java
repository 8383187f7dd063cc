// Compile-only declaration, never in the jar.
package org.apache.hadoop.util;

public interface Progressable {
    void progress();
}
