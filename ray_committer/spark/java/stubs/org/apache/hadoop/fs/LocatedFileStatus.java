// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

public class LocatedFileStatus extends FileStatus {}
