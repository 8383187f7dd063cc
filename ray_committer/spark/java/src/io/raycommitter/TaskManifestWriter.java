package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.OutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/** Saves the manifest of one task attempt, in the format that Hadoop's manifest committer reads. */
final class TaskManifestWriter {
    private static final String TYPE =
            "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1";
    private static final String STAMP = "ray_committer.stamp";
    private static final String PASSED_OVER = "ray_committer.passed_over";
    private static final int SHOWN = 20;
    /** A manifest of at most so many bytes, and files, is sent to the driver with the task's result. */
    static final int TEXT_BYTES = 2048;
    private static final int TEXT_FILES = 16;
    /** A later attempt of the task replaces the manifest, but no copy: its name has the digest. */
    private static final String COPY_PREFIX = "manifest-";
    private static final int COPY_DIGITS = 16;
    private static final int TRIES = 5;
    private static final long PAUSE_MILLIS = 500;

    private final FileSystem fs;
    private final JobDirectory job;
    private final String stamp;
    private final String taskId;
    private final String taskAttemptId;
    private final long setupMillis;
    private final long began = System.nanoTime();
    private boolean hasTried;

    /** Call this before the files of the attempt are looked for: the commit of the task begins here. */
    TaskManifestWriter(
            FileSystem fs, JobDirectory job, String stamp, TaskAttemptID attempt, long setupMillis) {
        this.fs = fs;
        this.job = job;
        this.stamp = stamp;
        this.taskId = attempt.getTaskID().toString();
        this.taskAttemptId = attempt.toString();
        this.setupMillis = setupMillis;
    }

    /** Returns whether a commit of the job may have found, or may still find, this attempt's manifest. */
    boolean hasTried() {
        return hasTried;
    }

    /** Fails if the job has no room for a manifest any more, and says why. */
    void requireOpen() throws IOException {
        job.requireOpen(fs, stamp);
    }

    TaskCommit save(TaskScan scan) throws IOException {
        byte[] bytes = manifestOf(scan.files, scan.directories, scan.passedOver);
        return save(bytes, scan.files.size(), this::saveByRename);
    }

    /** Saves the manifest of uploads, after a copy; then they are described by these alone. */
    TaskCommit save(TaskUploads uploads) throws IOException {
        ArrayNode files = uploads.entries();
        byte[] bytes = manifestOf(
                files, JsonNodeFactory.instance.arrayNode(), Collections.emptyList());
        Path copy = new Path(
                job.taskAttemptDir(taskAttemptId), COPY_PREFIX + sha256(bytes).substring(0, COPY_DIGITS));
        TaskCommit saved = save(bytes, files.size(), (data, target) -> {
            try (OutputStream out = fs.create(copy, true)) { // there is no directory yet
                out.write(data);
            }
            write(data, target);
        });
        uploads.removeDescriptions();
        return saved;
    }

    private TaskCommit save(byte[] bytes, int files, Save once) throws IOException {
        Path target = new Path(job.manifests(), taskId + "-manifest.json");
        saveWithRetries(bytes, target, once);
        boolean isSmall = bytes.length <= TEXT_BYTES && files <= TEXT_FILES;
        String text = isSmall ? new String(bytes, StandardCharsets.UTF_8) : null;
        return new TaskCommit(
                target.getName(), bytes.length, sha256(bytes), taskAttemptId, files, text);
    }

    private byte[] manifestOf(ArrayNode files, ArrayNode directories, List<String> passedOver)
            throws IOException {
        ObjectNode manifest = JsonNodeFactory.instance.objectNode()
                .put("type", TYPE)
                .put("version", 1)
                .put("jobId", job.jobId)
                .put("jobAttemptNumber", JobDirectory.ATTEMPT)
                .put("taskID", taskId)
                .put("taskAttemptID", taskAttemptId)
                .put("taskAttemptDir", job.taskAttemptDir(taskAttemptId).toUri().toString());
        manifest.set("files", files);
        manifest.set("directories", directories);
        ObjectNode more = manifest.putObject("extraData").put(STAMP, stamp);
        if (!passedOver.isEmpty()) {
            more.put(PASSED_OVER, textOf(passedOver));
        }
        manifest.set("iostatistics", statisticsOf(files, directories));
        return new ObjectMapper().writeValueAsBytes(manifest);
    }

    /** As {@code PassedOver} of {@code protocol/passed_over.py}. */
    private static String textOf(List<String> passedOver) {
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("number", passedOver.size());
        ArrayNode names = json.putArray("names");
        passedOver.stream().sorted().limit(SHOWN).forEach(names::add);
        return json.toString();
    }

    /** As in Hadoop, a manifest cannot have the time of its own save. */
    private ObjectNode statisticsOf(ArrayNode files, ArrayNode directories) {
        long bytes = 0;
        for (JsonNode file : files) {
            bytes += file.path("z").asLong();
        }
        return new TaskStatistics()
                .stage("task_stage_setup", setupMillis)
                .stage("task_stage_commit", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began))
                .amount("committer_task_file_count", files.size())
                .amount("committer_task_file_size", bytes)
                .count("committer_task_directory_count", directories.size())
                .asJson();
    }

    /**
     * The last attempt of a task wins, as long as the job's commit has not begun.
     *
     * <p>This process may sleep between any two of these steps, so it checks the job again at the end.
     */
    private void saveWithRetries(byte[] bytes, Path target, Save once) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                if (attempt == 1) {
                    requireOpen();
                } else if (job.isCounted(fs, stamp, target.getName(), bytes)) {
                    return; // Only the answer to an earlier try was lost.
                }
                hasTried = true;
                once.save(bytes, target);
                job.isCounted(fs, stamp, target.getName(), bytes);
                return;
            } catch (JobDirectory.JobNotOpenException e) {
                throw e;
            } catch (IOException e) {
                if (attempt == TRIES) {
                    throw new IOException(
                            target + ": cannot save the manifest, tried " + TRIES + " times: " + e,
                            e);
                }
                JobState.pause(attempt * PAUSE_MILLIS);
            }
        }
    }

    private void saveByRename(byte[] bytes, Path target) throws IOException {
        Path temporary = new Path(job.manifests(), taskAttemptId + "-manifest.json.tmp");
        write(bytes, temporary);
        if (fs.exists(target)) {
            fs.delete(target, false);
        }
        if (!fs.rename(temporary, target)) {
            throw new IOException(temporary + ": cannot be renamed to " + target);
        }
    }

    /** On S3 this is one atomic request, which also replaces. */
    private void write(byte[] bytes, Path path) throws IOException {
        try (OutputStream out = JobDirectory.create(fs, path)) {
            out.write(bytes);
        }
    }

    static String sha256(String text) {
        return sha256(text.getBytes(StandardCharsets.UTF_8));
    }

    static String sha256(byte[] bytes) {
        return hexDigest("SHA-256", bytes);
    }

    /** Returns the digest of bytes by an algorithm that every Java platform has. */
    static String hexDigest(String algorithm, byte[] bytes) {
        byte[] digest = digester(algorithm).digest(bytes);
        BigInteger number = new BigInteger(1, digest);
        return String.format(Locale.ROOT, "%0" + 2 * digest.length + "x", number);
    }

    static MessageDigest digester(String algorithm) {
        try {
            return MessageDigest.getInstance(algorithm);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private interface Save {
        void save(byte[] bytes, Path target) throws IOException;
    }
}
