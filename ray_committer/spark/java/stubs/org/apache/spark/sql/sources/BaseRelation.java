// Compile-only declaration, never in the jar.
package org.apache.spark.sql.sources;

public abstract class BaseRelation {}
