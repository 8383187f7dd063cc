package io.raycommitter;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Knows where a job keeps its files below {@code _temporary}, and whether tasks can still join it.
 *
 * <p>It never removes a job: a change of the job's state decides whether that is possible, and only the
 * commit handler changes the state.
 */
final class JobDirectory {
    /** Spark starts each job only once: a retried job is a new job with another id. */
    static final int ATTEMPT = 0;

    private static final int BUFFER_BYTES = 64 * 1024;
    private static final int LOOKS = 900;
    private static final long LOOK_MILLIS = 1000;

    final Path dest;
    final String jobId;
    final Path attemptDir;

    JobDirectory(Path dest, String jobId) {
        this.dest = dest;
        this.jobId = jobId;
        Path jobDir = new Path(new Path(dest, "_temporary"), jobId);
        this.attemptDir = new Path(jobDir, String.format(Locale.ROOT, "%02d", ATTEMPT));
    }

    Path manifests() {
        return new Path(attemptDir, "manifests");
    }

    Path tasks() {
        return new Path(attemptDir, "tasks");
    }

    Path taskAttemptDir(String taskAttemptId) {
        return new Path(tasks(), taskAttemptId);
    }

    /** Returns the command that commits or aborts this job, to be pasted into a shell. */
    String command(String verb) {
        return "ray-committer " + verb + " " + quoted(dest.toUri().toString()) + " --job-id "
                + quoted(jobId);
    }

    /** Returns null if the job was never set up, or is cleaned up. */
    JobState state(FileSystem fs) throws IOException {
        return JobState.read(fs, stateDir());
    }

    private Path stateDir() {
        return new Path(attemptDir, "state");
    }

    /** Creates no parents if the store can do so: the job may be cleaned up at the same time. */
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
     * Refuses a store on which Hadoop does not see what the commit handler has set up.
     *
     * @param stamp the stamp that set-up gave the job
     */
    void requireVisible(FileSystem fs, String stamp) throws IOException {
        if (isOther(state(fs), stamp)) {
            throw new IOException("ray_committer: the handler set up the job, but Hadoop's file system"
                    + " does not see it in " + attemptDir + "; check that both use the same store and"
                    + " credentials");
        }
    }

    /**
     * Refuses tasks that outlived their job: their output could never be committed.
     *
     * @param stamp the stamp that set-up gave the task's job
     */
    void requireOpen(FileSystem fs, String stamp) throws IOException {
        JobState state = state(fs);
        if (state == null) {
            throw notOpen("the job was never set up, or it is already cleaned up");
        }
        if (!state.isOf(stamp)) {
            throw notOpen("is another job with the same id; the job that this task was started for is"
                    + " over");
        }
        if (!state.isOpen()) {
            throw tooLate(state);
        }
    }

    /**
     * Checks the job again after a task has saved its manifest, because the task may have slept before.
     * Returns true if the job's commit includes the manifest, false while the commit has not begun.
     *
     * <p>If the commit has begun, the manifest counts only if it was frozen unchanged or, on stores that
     * do not rename directories, if the commit record names it. While the job is declared, its committer
     * may still find the manifest, so this method waits.
     */
    boolean isCounted(FileSystem fs, String stamp, String manifest, byte[] bytes)
            throws IOException {
        for (int look = 0; look < LOOKS; look++) {
            if (look > 0) {
                JobState.pause(LOOK_MILLIS);
            }
            JobState state = state(fs);
            if (isOther(state, stamp)) {
                throw notKnown();
            }
            if (state.isOpen()) {
                return false;
            }
            if (counts(fs, state, manifest, bytes)) {
                return true;
            }
            if (!state.isDeclared()) {
                JobState now = state(fs); // the clean-up may have removed the manifest
                throw isOther(now, stamp) || now.isCommitted() ? notKnown() : tooLate(state);
            }
        }
        throw notOpen("a commit of this job is declared and has been undecided for long; it may still"
                + " include this task attempt, so keep the files of the attempt");
    }

    private static boolean isOther(JobState state, String stamp) {
        return state == null || !state.isOf(stamp);
    }

    private JobNotOpenException notKnown() {
        return notOpen("is over, and it is not known whether its commit included this task attempt or"
                + " another one of the task; ask what became of the job with: " + command("commit")
                + "; if it is committed, nothing is left to do, and if it was aborted, run its"
                + " application again");
    }

    private JobNotOpenException tooLate(JobState state) {
        return notOpen("the job is " + state.phase + ", so a task can no longer join it");
    }

    private JobNotOpenException notOpen(String what) {
        return new JobNotOpenException(attemptDir + ": " + what);
    }

    private boolean counts(FileSystem fs, JobState state, String manifest, byte[] bytes)
            throws IOException {
        try {
            if (!state.isObject) {
                Path frozen = new Path(new Path(attemptDir, "frozen"), manifest);
                return Arrays.equals(JobState.readAll(fs, frozen), bytes);
            }
            if (state.record == null) {
                return false;
            }
            Path record = new Path(stateDir(), state.record + ".json");
            String text = new String(JobState.readAll(fs, record), StandardCharsets.UTF_8);
            return text.contains(TaskManifestWriter.sha256(bytes));
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /** Removes the empty directories that a task has made after the job's clean-up. */
    void removeLeftovers(FileSystem fs) {
        removeIfEmpty(fs, new Path(tasks(), "in"));
        removeIfEmpty(fs, new Path(tasks(), "root"));
        for (Path path = tasks(); path.depth() > dest.depth(); path = path.getParent()) {
            removeIfEmpty(fs, path);
        }
    }

    /** Returns whether it was removed. Ignores errors: it may be another job's, or be gone already. */
    static boolean removeIfEmpty(FileSystem fs, Path directory) {
        try {
            return !fs.listStatusIterator(directory).hasNext() && fs.delete(directory, false);
        } catch (IOException e) {
            return false;
        }
    }

    private static String quoted(String word) {
        return word.matches("[\\w@%+=:,./-]+") ? word : "'" + word.replace("'", "'\"'\"'") + "'";
    }

    /** Thrown if another try cannot help. */
    static final class JobNotOpenException extends IOException {
        private static final long serialVersionUID = 1L;

        JobNotOpenException(String message) {
            super(message);
        }
    }
}
