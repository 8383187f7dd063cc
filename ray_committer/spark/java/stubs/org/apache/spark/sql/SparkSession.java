// Compile-only declaration, never in the jar.
package org.apache.spark.sql;

public abstract class SparkSession {
    public native RuntimeConfig conf();
}
