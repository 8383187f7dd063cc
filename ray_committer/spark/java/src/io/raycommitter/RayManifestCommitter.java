package io.raycommitter;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
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
    private final Path taskAttemptDir;
    private final Map<String, Path> destinations = new LinkedHashMap<>();
    private final TreeSet<String> askedNames = new TreeSet<>();
    private final TreeSet<String> absoluteRoots = new TreeSet<>();
    private final TreeSet<String> partitionPaths = new TreeSet<>();
    private final TaskUploads uploads; // null where the job's commit renames files
    private long setupMillis;
    private boolean mayCount;
    private TaskCommit committed;

    RayManifestCommitter(JobDirectory job, String stamp, TaskAttemptContext context)
            throws IOException {
        super(null, context);
        this.job = job;
        this.stamp = stamp;
        String attempt = context.getTaskAttemptID().toString();
        this.taskAttemptDir = job.taskAttemptDir(attempt);
        this.uploads = TaskUploads.areNeeded(job.dest())
                ? new TaskUploads(fileSystem(context), job, attempt)
                : null;
    }

    /** Remembers a partition whose old files a dynamic overwrite replaces. */
    void addPartitionPath(String relativePath) {
        partitionPaths.add(relativePath);
    }

    /** Remembers a file that was asked for where it is: it is output, whatever its name is. */
    void addFile(String path) {
        askedNames.add(path.substring(path.lastIndexOf('/') + 1));
    }

    /** Returns where to write a file that the job's commit moves to a partition's directory. */
    Path newPartitionFile(String partitionPath, String name) {
        return uploads != null
                ? uploads.begin(partitionPath + "/" + name)
                : stage(TaskScan.join(job.dest(), partitionPath + "/" + name));
    }

    /** Returns where to write a file that the job's commit moves to an absolute destination. */
    Path newAbsoluteFile(Path destination) throws IOException {
        if (uploads != null) {
            throw new IOException("ray_committer: " + destination.getParent() + ": is the location of a"
                    + " partition outside of its table, where no task can write uploads; write that"
                    + " partition as a table of its own");
        }
        absoluteRoots.add(destination.getParent().toUri().toString());
        return stage(destination);
    }

    /**
     * Remembers where a file goes, and returns a path for it beside the task's other files.
     *
     * <p>One directory per partition would have to be created, listed and removed in every task.
     */
    private Path stage(Path destination) {
        String name = destinations.size() + "-" + destination.getName();
        destinations.put(name, destination);
        return TaskScan.join(taskAttemptDir, name);
    }

    /** Returns the result of {@link #commitTask}, or null before it. */
    TaskCommit committed() {
        return committed;
    }

    /** Returns null while the parent's constructor runs, so that the constructor does no I/O. */
    @Override
    public Path getOutputPath() {
        return job == null ? null : job.dest();
    }

    @Override
    public Path getWorkPath() {
        return uploads != null ? uploads.workPath() : taskAttemptDir;
    }

    @Override
    public Path getJobAttemptPath(JobContext context) {
        return job.attemptDir();
    }

    @Override
    public Path getTaskAttemptPath(TaskAttemptContext context) {
        return job.taskAttemptDir(context.getTaskAttemptID().toString());
    }

    /** Does nothing: the driver's commit handler has set up the job. */
    @Override
    public void setupJob(JobContext context) {}

    @Override
    public void commitJob(JobContext context) throws IOException {
        throw new IOException("ray_committer: only RayCommitProtocol commits job " + job.jobId());
    }

    @Override
    public void abortJob(JobContext context, JobStatus.State state) throws IOException {
        throw new IOException("ray_committer: only RayCommitProtocol aborts job " + job.jobId());
    }

    /** Creates the work directory, so that its absence at commit means that it was removed. */
    @Override
    public void setupTask(TaskAttemptContext context) throws IOException {
        long began = System.nanoTime();
        FileSystem fs = fileSystem(context);
        job.requireOpen(fs, stamp);
        if (uploads != null) {
            TaskUploads.requireMagic(fs, job.dest());
        } else if (!fs.mkdirs(taskAttemptDir)) {
            throw new IOException(taskAttemptDir + ": cannot create the task's work directory");
        }
        setupMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }

    /** Always true: a task without output also has a manifest, so that all tasks can be counted. */
    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) {
        return true;
    }

    @Override
    public void commitTask(TaskAttemptContext context) throws IOException {
        FileSystem fs = fileSystem(context);
        TaskManifestWriter writer = new TaskManifestWriter(
                fs, job, stamp, context.getTaskAttemptID(), setupMillis);
        try {
            SavedManifest saved = uploads != null
                    ? writer.save(uploads)
                    : writer.save(scan(fs));
            committed = TaskCommit.of(saved, partitionPaths, absoluteRoots);
        } catch (JobDirectory.NotKnownException e) {
            mayCount = true;
            throw e;
        }
    }

    private TaskScan scan(FileSystem fs) throws IOException {
        return TaskScan.of(fs, job.dest(), taskAttemptDir, askedNames, destinations);
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
        if (mayCount && job.state(fs) != null) {
            return; // A commit of the job may still need the files.
        }
        if (uploads == null) {
            fs.delete(taskAttemptDir, true);
            job.removeLeftovers(fs);
            return;
        }
        uploads.abort();
        if (job.removeLeftovers(fs)) {
            uploads.removeLeftovers();
        }
    }

    @Override
    public boolean isRecoverySupported() {
        return false;
    }

    @Override
    public boolean isCommitJobRepeatable(JobContext context) {
        return false;
    }

    @Override
    public void recoverTask(TaskAttemptContext context) throws IOException {
        throw new IOException("ray_committer: a task cannot be recovered; run it again");
    }

    private FileSystem fileSystem(JobContext context) throws IOException {
        return job.dest().getFileSystem(context.getConfiguration());
    }
}
