// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.DataOutputStream;
import java.io.OutputStream;

public class FSDataOutputStream extends DataOutputStream {
    public FSDataOutputStream(OutputStream out) {
        super(out);
    }
}
