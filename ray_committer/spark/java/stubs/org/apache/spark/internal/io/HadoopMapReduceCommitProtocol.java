// Compile-only declaration, never in the jar.
package org.apache.spark.internal.io;

import java.io.IOException;
import java.io.Serializable;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import scala.Option;

public class HadoopMapReduceCommitProtocol extends FileCommitProtocol implements Serializable {
    private static final long serialVersionUID = 1L;

    public HadoopMapReduceCommitProtocol(String jobId, String path, boolean dynamicOverwrite) {}

    public native OutputCommitter setupCommitter(TaskAttemptContext context) throws IOException;

    public native String getFilename(TaskAttemptContext context, FileNameSpec spec);

    public native void setupJob(JobContext context) throws IOException;

    // Scala 2.12 builds of Spark have this overload,
    public native void commitJob(
            JobContext context, scala.collection.Seq<TaskCommitMessage> messages)
            throws IOException;

    // Scala 2.13 builds this one.
    public native void commitJob(
            JobContext context, scala.collection.immutable.Seq<TaskCommitMessage> messages)
            throws IOException;

    public native void onTaskCommit(TaskCommitMessage message);

    public native void abortJob(JobContext context) throws IOException;

    public native boolean deleteWithJob(FileSystem fs, Path path, boolean recursive)
            throws IOException;

    public native void setupTask(TaskAttemptContext context) throws IOException;

    public native String newTaskTempFile(
            TaskAttemptContext context, Option<String> directory, FileNameSpec spec)
            throws IOException;

    public native String newTaskTempFileAbsPath(
            TaskAttemptContext context, String absoluteDirectory, FileNameSpec spec)
            throws IOException;

    public native TaskCommitMessage commitTask(TaskAttemptContext context) throws IOException;

    public native void abortTask(TaskAttemptContext context) throws IOException;
}
