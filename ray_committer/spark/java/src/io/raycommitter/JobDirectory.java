package io.raycommitter;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Knows where a job keeps its files below {@code _temporary}, and whether tasks may still join it.
 *
 * <p>It never removes a job: whether that may be done only a change of the job's state decides, which
 * is the commit handler's.
 */
final class JobDirectory {
    /** Spark starts a job once only: a retried job is a new job with another id. */
    static final int ATTEMPT = 0;

    private static final int BUFFER_BYTES = 64 * 1024;
    private static final int LOOKS = 900;
    private static final long LOOK_MILLIS = 1000;

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

    /** Returns the command that commits or aborts this job, to be pasted into a shell. */
    String command(String verb) {
        return "ray-committer " + verb + " " + quoted(dest.toUri().toString()) + " --job-id "
                + quoted(jobId);
    }

    /** Returns where a commit's request is that does not fit into a command line. */
    Path commitRequest() {
        return new Path(stateDir(), "commit-request.json");
    }

    /** Returns null if the job was never set up, or is cleaned up. */
    JobState state(FileSystem fs) throws IOException {
        return JobState.read(fs, stateDir());
    }

    private Path stateDir() {
        return new Path(attemptDir, "state");
    }

    /** Creates no parents where the store can: the job may be cleaned up at this very moment. */
    static OutputStream create(FileSystem fs, Path path) throws IOException {
        try {
            return fs.createNonRecursive(
                    path,
                    true,
                    BUFFER_BYTES,
                    fs.getDefaultReplication(path),
                    fs.getDefaultBlockSize(path),
                    null);
        } catch (IOException e) {
            if (String.valueOf(e.getMessage()).startsWith("createNonRecursive unsupported")) {
                return fs.create(path, true);
            }
            throw e;
        }
    }

    /**
     * Refuses tasks that outlived their job: what they add could never be committed.
     *
     * @param stamp what set-up gave the job that the task is of
     */
    void requireOpen(FileSystem fs, String stamp) throws IOException {
        requireOurs(state(fs), stamp);
    }

    /**
     * Looks again once a task has saved its manifest, since it may have slept before: true if the job's
     * commit has it, false while that has not begun.
     *
     * <p>If the commit has begun meanwhile, the manifest counts only where it was frozen as it is or,
     * where directories are not renamed, if the commit record names it. While the job is declared its
     * committer may still find what was saved; that is waited for.
     */
    boolean isCounted(FileSystem fs, String stamp, String manifest, byte[] bytes)
            throws IOException {
        for (int look = 0; look < LOOKS; look++) {
            if (look > 0) {
                TaskManifestWriter.pause(LOOK_MILLIS);
            }
            JobState state = state(fs);
            try {
                requireOurs(state, stamp);
                return false;
            } catch (TooLateException e) {
                if (counts(fs, state, manifest, bytes)) {
                    return true;
                }
                if (!state.isDeclared()) {
                    requireKnown(state(fs), stamp);
                    throw e;
                }
            }
        }
        throw new JobNotOpenException(attemptDir + ": a commit of this job is declared and has decided"
                + " nothing for long; it may yet have this task attempt");
    }

    /** Refuses to say that a manifest did not count if the clean-up may have removed it meanwhile. */
    private void requireKnown(JobState state, String stamp) throws JobNotOpenException {
        if (state == null || !state.isOf(stamp) || state.isCommitted()) {
            throw new JobNotOpenException(attemptDir + ": is over; its commit may have had this task"
                    + " attempt or another one of the task, and nothing is left to do here");
        }
    }

    private void requireOurs(JobState state, String stamp) throws JobNotOpenException {
        if (state == null) {
            throw new JobNotOpenException(
                    attemptDir + ": the job was never set up, or it is already cleaned up");
        }
        if (!state.isOf(stamp)) {
            throw new JobNotOpenException(attemptDir + ": is another job of that id than the task was"
                    + " started for, which is over");
        }
        if (!state.isOpen()) {
            throw new TooLateException(attemptDir + ": the job is " + state.phase() + ", a task can"
                    + " no longer join it");
        }
    }

    private boolean counts(FileSystem fs, JobState state, String manifest, byte[] bytes)
            throws IOException {
        try {
            if (!state.isObject()) {
                Path frozen = new Path(new Path(attemptDir, "frozen"), manifest);
                return Arrays.equals(JobState.readAll(fs, frozen), bytes);
            }
            if (state.record() == null) {
                return false;
            }
            Path record = new Path(stateDir(), state.record() + ".json");
            String text = new String(JobState.readAll(fs, record), StandardCharsets.UTF_8);
            return text.contains(TaskManifestWriter.sha256(bytes));
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /** Removes the empty directories that a task leaves which ran on after the job's clean-up. */
    void removeLeftovers(FileSystem fs) throws IOException {
        if (state(fs) == null) {
            removeIfEmpty(fs, new Path(attemptDir, "tasks"));
            removeIfEmpty(fs, attemptDir);
            removeIfEmpty(fs, attemptDir.getParent());
            removeIfEmpty(fs, attemptDir.getParent().getParent());
        }
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

    private static String quoted(String word) {
        return word.matches("[\\w@%+=:,./-]+") ? word : "'" + word.replace("'", "'\"'\"'") + "'";
    }

    /** Says that trying again cannot help. */
    static class JobNotOpenException extends IOException {
        private static final long serialVersionUID = 1L;

        JobNotOpenException(String message) {
            super(message);
        }
    }

    /** Says that the commit of the task's own job has begun. */
    private static final class TooLateException extends JobNotOpenException {
        private static final long serialVersionUID = 1L;

        TooLateException(String message) {
            super(message);
        }
    }
}
