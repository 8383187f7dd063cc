package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the commit handler to abort a job.
 *
 * <p>Nothing is deleted from here: an abort is a change of the job's state, so that it and a commit at
 * the same time never both succeed. Where that cannot be asked for, everything is kept.
 */
final class JobAbort {
    private static final Logger LOG = LoggerFactory.getLogger(JobAbort.class);

    private JobAbort() {}

    /** Raises nothing, since Spark reports the failure that led here. Idempotent. */
    static void run(JobDirectory job, JobRequest request, Configuration conf) {
        boolean wasInterrupted = Thread.interrupted(); // What is waited for would end at once.
        try {
            JobCommitHandler handler = Bridge.handlerFor(conf);
            if (handler == null) {
                throw new IOException(CommitHandlers.nobody());
            }
            JsonNode kept =
                    HandlerCall.run(handler::abortJob, request.text(), job, conf).get("kept");
            if (kept != null) {
                LOG.warn("ray_committer: the job was kept: " + kept.asText());
            }
        } catch (IOException | RuntimeException e) {
            LOG.warn(job.attemptDir() + ": could not be aborted, so everything was kept; this aborts"
                    + " it: " + job.command("abort"), e);
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
