// Compile-only declaration, never in the jar.
package org.apache.spark;

public class SparkContext {
    public static native SparkContext getOrCreate();
}
