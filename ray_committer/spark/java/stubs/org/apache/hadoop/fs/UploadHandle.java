// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.Serializable;

public interface UploadHandle extends Serializable {}
