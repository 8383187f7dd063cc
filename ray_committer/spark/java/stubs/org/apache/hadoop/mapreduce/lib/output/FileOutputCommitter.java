// Compile-only declaration, never in the jar.
package org.apache.hadoop.mapreduce.lib.output;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

public class FileOutputCommitter extends OutputCommitter {
    public FileOutputCommitter(Path outputPath, TaskAttemptContext context) throws IOException {}

    public native Path getWorkPath() throws IOException;

    public native void setupJob(JobContext context) throws IOException;

    public native void commitJob(JobContext context) throws IOException;

    public native void abortJob(JobContext context, JobStatus.State state) throws IOException;

    public native void setupTask(TaskAttemptContext context) throws IOException;

    public native boolean needsTaskCommit(TaskAttemptContext context) throws IOException;

    public native void commitTask(TaskAttemptContext context) throws IOException;

    public native void abortTask(TaskAttemptContext context) throws IOException;
}
