// Compile-only declaration, never in the jar.
package org.apache.hadoop.mapreduce;

public class TaskAttemptID {
    public native TaskID getTaskID();

    public native int getId();
}
