// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

public abstract class LocalFileSystem extends FileSystem {}
