package io.raycommitter;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Knows where a job keeps its files below {@code _temporary}, and removes them on abort. */
final class JobDirectory {
    private static final Logger LOG = LoggerFactory.getLogger(JobDirectory.class);

    /** Spark starts a job once only: a retried job is a new job with another id. */
    static final int ATTEMPT = 0;

    private final Path dest;
    private final String jobId;
    private final Path attemptDir;

    JobDirectory(Path dest, String jobId) {
        this.dest = dest;
        this.jobId = jobId;
        Path jobDir = new Path(new Path(dest, "_temporary"), jobId);
        this.attemptDir = new Path(jobDir, String.format("%02d", ATTEMPT));
    }

    Path dest() {
        return dest;
    }

    String jobId() {
        return jobId;
    }

    Path attemptDir() {
        return attemptDir;
    }

    Path manifests() {
        return new Path(attemptDir, "manifests");
    }

    Path taskAttemptDir(String taskAttemptId) {
        return new Path(new Path(attemptDir, "tasks"), taskAttemptId);
    }

    boolean isSetUp(FileSystem fs) throws IOException {
        try {
            return fs.getFileStatus(manifests()).isDirectory();
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /**
     * Tells whether the commit record or the commit point is there. The record comes first: it
     * becomes the commit point by a rename, which the other order could miss.
     */
    boolean commitHasBegun(FileSystem fs) throws IOException {
        return fs.exists(new Path(attemptDir, "_COMMIT.json"))
                || fs.exists(new Path(attemptDir, "_COMMITTED"));
    }

    /** Refuses tasks that outlived their job: what they add could never be committed. */
    void requireOpen(FileSystem fs) throws IOException {
        if (!isSetUp(fs)) {
            throw new JobNotOpenException(
                    manifests() + ": the job was never set up, or it is already cleaned up");
        }
        if (commitHasBegun(fs)) {
            throw new JobNotOpenException(
                    attemptDir + ": the job is being committed, a task can no longer join it");
        }
    }

    /** Removes the job, unless its commit has begun or that cannot be found out. Idempotent. */
    void abort(FileSystem fs) {
        try {
            if (commitHasBegun(fs)) {
                LOG.warn(attemptDir + ": kept, because the job's commit has begun; finish it with"
                        + " `ray-committer commit " + dest + " --job-id " + jobId + "`");
                return;
            }
            fs.delete(attemptDir, true);
        } catch (IOException e) {
            LOG.warn(attemptDir + ": kept by the abort, because the store failed", e);
            return;
        }
        removeEmptyParents(fs);
    }

    /** Removes the empty directories that a task leaves which ran on after the job's clean-up. */
    void removeLeftovers(FileSystem fs) throws IOException {
        if (!isSetUp(fs)) {
            removeIfEmpty(fs, new Path(attemptDir, "tasks"));
            removeIfEmpty(fs, attemptDir);
            removeEmptyParents(fs);
        }
    }

    private void removeEmptyParents(FileSystem fs) {
        removeIfEmpty(fs, attemptDir.getParent());
        removeIfEmpty(fs, attemptDir.getParent().getParent());
    }

    /** Other jobs may be at work in the directory: a lost race or an absent one is fine. */
    private static void removeIfEmpty(FileSystem fs, Path directory) {
        try {
            if (!fs.listStatusIterator(directory).hasNext()) {
                fs.delete(directory, false);
            }
        } catch (IOException e) {
            // An empty directory that stays does no harm.
        }
    }

    /** Says that trying again cannot help. */
    static final class JobNotOpenException extends IOException {
        private static final long serialVersionUID = 1L;

        JobNotOpenException(String message) {
            super(message);
        }
    }
}
