package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the handler to start workers for a commit while the job's tasks still run, after the tasks have
 * committed as many files as the handler specified at set-up.
 *
 * <p>Spark reports committed tasks in the thread that schedules all others, so nothing waits here.
 */
final class WorkersAhead {
    private static final Logger LOG = LoggerFactory.getLogger(WorkersAhead.class);

    /** One thread for all jobs: Py4J keeps a connection for each thread that ever called Python. */
    private static final Executor ASKING =
            Executors.newSingleThreadExecutor(
                    task -> {
                        Thread thread = new Thread(task, "ray-committer workers");
                        thread.setDaemon(true);
                        return thread;
                    });

    private final JobCommitHandler handler;
    private final String requestJson;
    private long filesToGo;

    private WorkersAhead(JobCommitHandler handler, String requestJson, long files) {
        this.handler = handler;
        this.requestJson = requestJson;
        this.filesToGo = files;
    }

    /** Returns null if the answer to the set-up names no number of files. */
    static WorkersAhead of(JobCommitHandler handler, JobRequest request, JsonNode answer) {
        JsonNode files = answer.get("workersFrom");
        return files == null ? null : new WorkersAhead(handler, request.text(), files.asLong());
    }

    /** Counts the files of a task that has committed. */
    synchronized void add(TaskCommitMessage message) {
        if (filesToGo <= 0) {
            return;
        }
        try {
            filesToGo -= TaskCommit.from(message).files();
        } catch (IOException e) {
            return; // The commit of the job reports the error.
        }
        if (filesToGo <= 0) {
            ASKING.execute(this::ask);
        }
    }

    private void ask() {
        try {
            handler.startWorkers(requestJson);
        } catch (IOException | RuntimeException e) {
            LOG.info("workers were not started ahead; the commit goes on without them: " + e);
        }
    }
}
