// Compile-only declaration, never in the jar.
package org.apache.hadoop.mapreduce;

public class TaskID {
    public native int getId();
}
