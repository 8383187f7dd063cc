// Compile-only declaration, never in the jar.
package org.apache.spark.sql.types;

public class StructType {}
