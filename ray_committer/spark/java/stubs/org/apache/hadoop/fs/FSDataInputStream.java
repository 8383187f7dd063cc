// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.InputStream;

public abstract class FSDataInputStream extends InputStream {}
