// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

public abstract class CatalogFileIndex implements FileIndex {}
