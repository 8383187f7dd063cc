package io.raycommitter;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/** Saves the manifest of one task attempt, in the format that Hadoop's manifest committer reads. */
final class TaskManifestWriter {
    private static final String TYPE =
            "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1";
    private static final String STAMP = "ray_committer.stamp";
    private static final int TRIES = 5;
    private static final long PAUSE_MILLIS = 500;

    private final FileSystem fs;
    private final JobDirectory job;
    private final String stamp;
    private final String taskId;
    private final String taskAttemptId;

    TaskManifestWriter(FileSystem fs, JobDirectory job, String stamp, TaskAttemptID attempt) {
        this.fs = fs;
        this.job = job;
        this.stamp = stamp;
        this.taskId = attempt.getTaskID().toString();
        this.taskAttemptId = attempt.toString();
    }

    SavedManifest save(TaskScan scan) throws IOException {
        byte[] bytes = manifestOf(scan);
        Path target = new Path(job.manifests(), taskId + "-manifest.json");
        saveWithRetries(bytes, target);
        return new SavedManifest(
                target.getName(), bytes.length, sha256(bytes), taskAttemptId, scan.files().size());
    }

    private byte[] manifestOf(TaskScan scan) throws IOException {
        ObjectNode manifest = JsonNodeFactory.instance.objectNode()
                .put("type", TYPE)
                .put("version", 1)
                .put("jobId", job.jobId())
                .put("jobAttemptNumber", JobDirectory.ATTEMPT)
                .put("taskID", taskId)
                .put("taskAttemptID", taskAttemptId)
                .put("taskAttemptDir", job.taskAttemptDir(taskAttemptId).toUri().toString());
        manifest.set("files", scan.files());
        manifest.set("directories", scan.directories());
        manifest.putObject("extraData").put(STAMP, stamp);
        return new ObjectMapper().writeValueAsBytes(manifest);
    }

    private void saveWithRetries(byte[] bytes, Path target) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                if (attempt == 1) {
                    job.requireOpen(fs, stamp);
                } else if (job.isCounted(fs, stamp, target.getName(), bytes)) {
                    return; // Only the answer to an earlier try was lost.
                }
                saveOnce(bytes, target);
                return;
            } catch (JobDirectory.JobNotOpenException e) {
                throw e;
            } catch (IOException e) {
                if (attempt == TRIES) {
                    throw new IOException(
                            target + ": cannot save the manifest, tried " + TRIES + " times: " + e,
                            e);
                }
                pause(attempt * PAUSE_MILLIS);
            }
        }
    }

    /**
     * The last attempt of a task wins, as long as the job's commit has not begun.
     *
     * <p>This process may sleep between any two of these steps, so it checks the job again at the end.
     */
    private void saveOnce(byte[] bytes, Path target) throws IOException {
        Path temporary = new Path(job.manifests(), taskAttemptId + "-manifest.json.tmp");
        try (OutputStream out = JobDirectory.create(fs, temporary)) {
            out.write(bytes);
        }
        if (fs.exists(target)) {
            fs.delete(target, false);
        }
        if (!fs.rename(temporary, target)) {
            throw new IOException(temporary + ": cannot be renamed to " + target);
        }
        job.isCounted(fs, stamp, target.getName(), bytes);
    }

    static void pause(long millis) throws InterruptedIOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while saving a manifest");
        }
    }

    static String sha256(byte[] bytes) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return String.format("%064x", new BigInteger(1, digest));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // Every Java platform has SHA-256.
        }
    }
}
