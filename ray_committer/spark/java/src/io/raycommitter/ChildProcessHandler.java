package io.raycommitter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits in a child process, {@code ray-committer spark-job}.
 *
 * <p>The request goes to its standard input, which has no size limit and which no other process can
 * read. The answer comes from its standard output, the progress from its standard error.
 */
final class ChildProcessHandler implements JobCommitHandler {
    static final String DEFAULT_COMMAND = "ray-committer";

    private static final Logger LOG = LoggerFactory.getLogger(ChildProcessHandler.class);

    /** How long a cancelled commit can take to finish the requests in flight. */
    private static final long STOP_SECONDS = 60;

    /** How long to read the pipes after the child has ended: its own children may keep them open. */
    private static final long DRAIN_MILLIS = 5000;

    /** A process that was ended by a signal has this exit code, plus the number of the signal. */
    private static final int SIGNALS = 128;

    private static final int KILL = 9;
    private static final String BY_KERNEL = " (SIGKILL, by the kernel if memory was short)";

    private final String command;
    private final ObjectNode settings;

    /** Takes the command line without the subcommand, and the settings of the commit. */
    ChildProcessHandler(String command, ObjectNode settings) {
        this.command = command;
        this.settings = settings;
    }

    @Override
    public String setupJob(String requestJson) throws IOException {
        return run("setup", requestJson);
    }

    @Override
    public String commitJob(String requestJson) throws IOException {
        return run("commit", requestJson);
    }

    @Override
    public String abortJob(String requestJson) throws IOException {
        return run("abort", requestJson);
    }

    private String run(String action, String requestJson) throws IOException {
        List<String> line = new ArrayList<>(Arrays.asList(command.split("\\s+")));
        line.addAll(Arrays.asList("spark-job", action));
        String name = "`" + String.join(" ", line) + "`";
        Process child = start(line, name);
        JobDirectory job = jobOf(requestJson);
        ProgressLog progress = new ProgressLog(LOG, name, job.jobId);
        StringBuffer answer = new StringBuffer();
        Thread errors = reader(child.getErrorStream(), progress::line);
        Thread output = reader(child.getInputStream(), text -> answer.append(text).append('\n'));
        send(child, withSettings(requestJson), name);
        int code = waitFor(child, name);
        drain(errors, output);
        return checked(answer.toString(), code, name, job, progress);
    }

    private static JobDirectory jobOf(String requestJson) {
        ObjectNode request = HandlerCall.objectOf(requestJson);
        return new JobDirectory(
                new Path(request.get("dest").asText()), request.get("jobId").asText());
    }

    private String withSettings(String requestJson) {
        ObjectNode request = HandlerCall.objectOf(requestJson);
        request.setAll(settings);
        return request.toString();
    }

    private static Process start(List<String> line, String name) throws IOException {
        try {
            return new ProcessBuilder(line).start();
        } catch (IOException e) {
            throw new IOException(name + " cannot be started (" + e.getMessage() + "); install"
                    + " ray-committer on the driver's machine and set " + SettingNames.COMMAND
                    + " to the full path of its command", e);
        }
    }

    private static Thread reader(InputStream stream, Consumer<String> sink) {
        Thread thread = SideBySide.daemon(() -> {
            try (BufferedReader lines = new BufferedReader(
                    new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    sink.accept(line);
                }
            } catch (IOException e) {
                LOG.warn("ray_committer: the output of a commit could not be read to its end", e);
            }
        }, "ray-committer-output");
        thread.start();
        return thread;
    }

    /** Throws nothing: a child that ends before it has read everything reports the reason itself. */
    private static void send(Process child, String request, String name) {
        try (OutputStream input = child.getOutputStream()) {
            input.write(request.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            LOG.warn(name + " did not read its request: " + e.getMessage());
        }
    }

    /** If the driver is interrupted, cancels the commit and waits until no request is in flight. */
    private static int waitFor(Process child, String name) throws IOException {
        try {
            return child.waitFor();
        } catch (InterruptedException e) {
            stop(child, name, e);
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(name + " was cancelled, because its driver was"
                    + " interrupted; run `ray-committer status` to see how far the job got");
        }
    }

    private static void stop(Process child, String name, InterruptedException cause)
            throws IOException {
        child.destroy();
        try {
            if (child.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                return;
            }
        } catch (InterruptedException e) {
            // Interrupted again: do not wait any longer.
        }
        child.destroyForcibly();
        Thread.currentThread().interrupt();
        throw new CommitStateUnknownException(name + " did not end when it was cancelled, so it was"
                + " killed and everything was kept; run `ray-committer status` to see how far the"
                + " job got", cause);
    }

    private static void drain(Thread... readers) throws InterruptedIOException {
        try {
            for (Thread reader : readers) {
                reader.join(DRAIN_MILLIS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // The commit has ended, with or without an answer.
        }
    }

    private static String checked(
            String answer, int code, String name, JobDirectory job, ProgressLog progress)
            throws IOException {
        String error = HandlerCall.errorOf(answer);
        if (code == 0 && error == null) {
            return answer;
        }
        String what = HandlerCall.objectOf(answer) != null && error != null
                ? error
                : name + withoutAnswer(code, job);
        throw new IOException(what + " (exit code " + code + ")" + progress.tail());
    }

    private static String withoutAnswer(int code, JobDirectory job) {
        if (code > SIGNALS) {
            int signal = code - SIGNALS;
            return " was ended by signal " + signal + (signal == KILL ? BY_KERNEL : "") + " before it"
                    + " answered; a job whose commit it had recorded is kept, and then this command"
                    + " finishes it: " + job.command("commit");
        }
        return (code == 0 ? " gave no answer" : " ended without an answer") + "; check that " + SettingNames.COMMAND
                + " is a ray-committer command of this jar's version";
    }
}
