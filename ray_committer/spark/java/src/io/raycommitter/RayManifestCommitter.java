package io.raycommitter;

import java.io.IOException;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;

/**
 * Commits a task by saving a manifest of its files, which stay where the task wrote them.
 *
 * <p>It extends FileOutputCommitter because Spark writes into the work path, and Parquet accepts a
 * committer, only for that class. The parent gets no output path, so that it does no I/O.
 */
public final class RayManifestCommitter extends FileOutputCommitter {
    private final JobDirectory job;
    private final String stamp;
    private final TaskOutput output;
    private final TreeSet<String> absoluteRoots = new TreeSet<>();
    private final TreeSet<String> partitionPaths = new TreeSet<>();
    private long setupMillis;
    private TaskManifestWriter writer;
    private TaskCommit committed;

    RayManifestCommitter(JobDirectory job, String stamp, TaskAttemptContext context)
            throws IOException {
        super(null, context);
        this.job = job;
        this.stamp = stamp;
        FileSystem fs = fileSystem(context);
        TaskAttemptID attempt = context.getTaskAttemptID();
        this.output = TaskUploads.areNeeded(job.dest)
                ? new TaskUploads(fs, job, attempt.toString())
                : new TaskFiles(fs, job, attempt);
    }

    /** Remembers a partition whose old files a dynamic overwrite replaces. */
    void addPartitionPath(String relativePath) {
        partitionPaths.add(relativePath);
    }

    /** Remembers the location of a partition outside of the table. */
    void addAbsoluteRoot(Path directory) {
        absoluteRoots.add(directory.toUri().toString());
    }

    /** Returns where to write a file that the job's commit makes visible in a directory. */
    Path newFile(Path directory, String name) throws IOException {
        return output.newFile(directory, name);
    }

    /** Returns the result of {@link #commitTask}, or null before it. */
    TaskCommit committed() {
        return committed;
    }

    @Override
    public Path getWorkPath() {
        return output.workPath();
    }

    /** Does nothing: the driver's commit handler has set up the job. */
    @Override
    public void setupJob(JobContext context) {}

    @Override
    public void commitJob(JobContext context) throws IOException {
        throw new IOException("ray_committer: only RayCommitProtocol commits job " + job.jobId);
    }

    @Override
    public void abortJob(JobContext context, JobStatus.State state) throws IOException {
        throw new IOException("ray_committer: only RayCommitProtocol aborts job " + job.jobId);
    }

    /** Makes no directory: what is begun is known, and is there or missing at the commit. */
    @Override
    public void setupTask(TaskAttemptContext context) throws IOException {
        long began = System.nanoTime();
        job.requireOpen(fileSystem(context), stamp);
        TaskUploads.requireMagic(fileSystem(context), job.dest);
        setupMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }

    /** Always true: a task without output also has a manifest, so that all tasks can be counted. */
    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) {
        return true;
    }

    @Override
    public void commitTask(TaskAttemptContext context) throws IOException {
        writer = new TaskManifestWriter(
                fileSystem(context), job, stamp, context.getTaskAttemptID(), setupMillis);
        committed = output.save(writer).with(partitionPaths, absoluteRoots);
    }

    /** Removes the attempt's files, but no manifest: it may be another attempt's. Idempotent. */
    @Override
    public void abortTask(TaskAttemptContext context) throws IOException {
        boolean wasInterrupted = Thread.interrupted(); // Otherwise every request would end at once.
        try {
            abortTask(fileSystem(context));
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void abortTask(FileSystem fs) throws IOException {
        if (writer != null && writer.hasTried() && job.state(fs) != null) {
            return; // A commit of the job may need the files.
        }
        output.abort();
        if (job.state(fs) == null) {
            output.removeLeftovers();
            job.removeLeftovers(fs);
        }
    }

    private FileSystem fileSystem(JobContext context) throws IOException {
        return job.dest.getFileSystem(context.getConfiguration());
    }
}
