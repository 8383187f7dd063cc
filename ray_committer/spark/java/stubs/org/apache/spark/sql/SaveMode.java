// Compile-only declaration, never in the jar.
package org.apache.spark.sql;

public enum SaveMode {
    Append,
    Overwrite,
    ErrorIfExists,
    Ignore
}
