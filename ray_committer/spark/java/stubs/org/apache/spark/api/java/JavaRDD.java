// Compile-only declaration, never in the jar.
package org.apache.spark.api.java;

public class JavaRDD<T> {
    public native long count();
}
