package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Passes committed tasks to the handler while others run, so that the job's commit reads little, and asks
 * for workers when there are as many files as the handler specified at set-up.
 *
 * <p>Spark reports committed tasks in the thread that schedules all others, so nothing waits there. The
 * commit itself does what fails here.
 */
final class TasksAhead {
    private static final Logger LOG = LoggerFactory.getLogger(TasksAhead.class);
    private static final int BATCH = 500;
    private static final long PAUSE_MILLIS = 1000;

    /** How much of the texts that no handler has taken the driver keeps, in characters. */
    private static final long MOST_TEXT = 32L << 20;

    /** One thread for all jobs: Py4J keeps a connection for each thread that ever called Python. */
    private static final ScheduledExecutorService ASKING =
            Executors.newSingleThreadScheduledExecutor(
                    task -> SideBySide.daemon(task, "ray-committer ahead"));

    private final JobCommitHandler handler;
    private final Configuration configuration;
    private final Supplier<JobRequest> request;
    private final Object calling = new Object();
    private final List<TaskCommit> waiting = new ArrayList<>();
    private long textKept;
    private long filesToGo;
    private boolean isOver;

    /** Takes what makes requests of the job, and the answer to its set-up. */
    TasksAhead(
            JobCommitHandler handler,
            Configuration configuration,
            Supplier<JobRequest> request,
            JsonNode answer) {
        this.handler = handler;
        this.configuration = configuration;
        this.request = request;
        JsonNode files = answer.get("workersFrom");
        this.filesToGo = files == null ? Long.MAX_VALUE : files.asLong();
    }

    synchronized void add(TaskCommit task) {
        if (filesToGo > 0) {
            filesToGo -= task.files();
            if (filesToGo <= 0) {
                ASKING.execute(this::startWorkers);
            }
        }
        textKept += task.textLength();
        if (textKept > MOST_TEXT) {
            textKept -= task.forgetText();
        }
        waiting.add(task);
        if (waiting.size() == 1) {
            ASKING.schedule(this::send, PAUSE_MILLIS, TimeUnit.MILLISECONDS);
        } else if (waiting.size() == BATCH) {
            ASKING.execute(this::send);
        }
    }

    /** Sends nothing from now on, after the call that is under way; the commit sends what is left. */
    void end() {
        synchronized (calling) {
            isOver = true;
        }
    }

    private void startWorkers() {
        try {
            handler.startWorkers(request.get().text());
        } catch (IOException | RuntimeException e) {
            LOG.info("workers were not started ahead; the commit goes on without them: " + e);
        }
    }

    private void send() {
        synchronized (calling) {
            List<TaskCommit> batch = take();
            if (isOver || batch.isEmpty()) {
                return;
            }
            try {
                HandlerCall.run(handler::loadTasks, request.get().withTasks(batch), configuration);
                forget(batch);
            } catch (IOException | RuntimeException e) {
                LOG.debug("tasks were not loaded ahead; the commit loads them", e);
            }
        }
    }

    private synchronized List<TaskCommit> take() {
        List<TaskCommit> taken = new ArrayList<>(waiting);
        waiting.clear();
        return taken;
    }

    private synchronized void forget(List<TaskCommit> sent) {
        for (TaskCommit task : sent) {
            textKept -= task.forgetText();
        }
    }
}
