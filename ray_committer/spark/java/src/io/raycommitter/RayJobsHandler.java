package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.zip.GZIPOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits in a job on a Ray cluster, which finishes the commit even if this driver dies.
 *
 * <p>A Ray job has a command line and no standard input. The request of a set-up or an abort is small
 * and is in the command line. The request of a commit names every task, so it is a file beside the job's
 * state: it stays there while manifests are frozen, and is removed with the job.
 */
final class RayJobsHandler implements JobCommitHandler {
    private static final Logger LOG = LoggerFactory.getLogger(RayJobsHandler.class);

    /** Linux takes 128 KiB in one argument, and Ray puts the command line inside other arguments. */
    private static final int MAX_INLINE_CHARACTERS = 48 * 1024;

    private final Settings settings;
    private final Configuration conf;
    private final RayJobsClient client;

    RayJobsHandler(Settings settings, Configuration conf) throws IOException {
        this.settings = settings;
        this.conf = conf;
        this.client = new RayJobsClient(settings);
    }

    @Override
    public String setupJob(String requestJson) throws IOException {
        String inline = compressed(withSettings(requestJson));
        if (inline.length() > MAX_INLINE_CHARACTERS) {
            throw new IOException("the write replaces more directories than a Ray job's command"
                    + " line can name; unset " + Settings.ADDRESS
                    + " to commit it in a child process");
        }
        return run("setup", jobOf(requestJson), "--inline " + inline);
    }

    @Override
    public String commitJob(String requestJson) throws IOException {
        JobDirectory job = jobOf(requestJson);
        Path file = job.commitRequest();
        FileSystem fs = file.getFileSystem(conf);
        try (OutputStream out = JobDirectory.create(fs, file)) {
            out.write(withSettings(requestJson).getBytes(StandardCharsets.UTF_8));
        }
        return run("commit", job, "--request " + quoted(file.toUri().toString()));
    }

    @Override
    public String abortJob(String requestJson) throws IOException {
        String inline = compressed(withSettings(requestJson));
        return run("abort", jobOf(requestJson), "--inline " + inline);
    }

    /** Leaves secrets out: others can read the file and the command line of a job. */
    private String withSettings(String requestJson) {
        return JobRequest.withSettings(requestJson, settings.toJsonWithoutSecrets());
    }

    private static JobDirectory jobOf(String requestJson) {
        JsonNode request = HandlerCall.objectOf(requestJson);
        Path dest = new Path(URI.create(request.get("dest").asText()));
        return new JobDirectory(dest, request.get("jobId").asText());
    }

    private String run(String action, JobDirectory job, String arguments) throws IOException {
        String name = "ray-committer-" + action + "-" + keyOf(job);
        String entrypoint = settings.command() + " spark-job " + action + " " + arguments;
        ObjectNode request = JsonNodeFactory.instance.objectNode()
                .put("submission_id", name)
                .put("entrypoint", entrypoint);
        String environment = settings.get(Settings.RUNTIME_ENV);
        if (environment != null) {
            request.putRawValue("runtime_env", new RawValue(environment));
        }
        LOG.info("ray_committer: " + action + " of job " + job.jobId() + " is Ray job " + name
                + " on " + client.address());
        try {
            client.submit(name, request.toString());
            return follow(name, job.jobId());
        } catch (NothingRunsException e) {
            throw e;
        } catch (IOException e) {
            throw action.equals("commit") ? unknown(name, job, e) : e;
        }
    }

    /** Follows a job to its end; only {@link NothingRunsException} means that it has ended. */
    private String follow(String name, String jobId) throws IOException {
        RayJobLog log = new RayJobLog(new ProgressLog(LOG, "Ray job " + name, jobId));
        while (true) {
            RayJobsClient.State state = client.requireState(name);
            boolean hasEnded = state.hasEnded();
            log.update(hasEnded ? client.lastLogs(name) : client.logs(name), hasEnded);
            if (state.status.equals("SUCCEEDED")) {
                return log.answer();
            }
            if (hasEnded) {
                throw ended(name, state, log);
            }
            RayJobsClient.pause();
        }
    }

    /** Trusts only a command that ended by itself; otherwise the cluster may have lost track of it. */
    private IOException ended(String name, RayJobsClient.State state, RayJobLog log) {
        if (!state.hasAnswered()) {
            return new IOException(client.address() + ": Ray job " + name + " is " + state.status
                    + ": " + state.message + log.tail());
        }
        String error = HandlerCall.errorOf(log.answer());
        String what = error != null ? error : "Ray job " + name + " gave no answer; check that "
                + "ray-committer of this jar's version is installed on all nodes, or set "
                + Settings.COMMAND + " or " + Settings.RUNTIME_ENV;
        String tail = log.tail().isEmpty() ? "\n" + state.message : log.tail();
        return new NothingRunsException(
                what + " (exit code " + state.exitCode + ")" + tail, null);
    }

    private IOException unknown(String name, JobDirectory job, IOException cause) {
        return new CommitStateUnknownException(cause.getMessage() + "\nThe commit of " + job.dest()
                + " may still go on, so everything was kept. After Ray job " + name + " on "
                + client.address() + " has ended, this command finishes the commit, or reports that"
                + " it is done: " + job.command("commit"), cause);
    }

    /** Returns the key of a job in the names of Ray jobs, which is the same for every driver. */
    private static String keyOf(JobDirectory job) {
        String key = job.dest().toUri() + "\n" + job.jobId();
        return TaskManifestWriter.sha256(key.getBytes(StandardCharsets.UTF_8)).substring(0, 32);
    }

    private static String compressed(String text) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (OutputStream out = new GZIPOutputStream(bytes)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    /** Quotes for the shell that starts a Ray job's command. */
    private static String quoted(String text) {
        return "'" + text.replace("'", "'\\''") + "'";
    }
}
