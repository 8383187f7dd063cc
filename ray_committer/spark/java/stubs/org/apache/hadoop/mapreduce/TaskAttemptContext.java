// Compile-only declaration, never in the jar.
package org.apache.hadoop.mapreduce;

public interface TaskAttemptContext extends JobContext {
    TaskAttemptID getTaskAttemptID();
}
