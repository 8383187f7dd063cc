// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.OutputStream;

public abstract class FSDataOutputStream extends OutputStream {}
