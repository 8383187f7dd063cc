package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the commit handler to abort a job.
 *
 * <p>This class deletes nothing: an abort changes the job's state, so that an abort and a commit at the
 * same time never both succeed. If the handler cannot be asked, everything is kept.
 */
final class JobAbort {
    private static final Logger LOG = LoggerFactory.getLogger(JobAbort.class);

    private JobAbort() {}

    /** Throws nothing, because Spark reports the failure that led to the abort. Idempotent. */
    static void run(JobRequest request, Configuration conf) {
        boolean wasInterrupted = Thread.interrupted(); // Otherwise every wait would end at once.
        try {
            JobCommitHandler handler = Bridge.handlerFor(conf);
            if (handler == null) {
                throw new IOException(CommitHandlers.nobody());
            }
            JsonNode kept = HandlerCall.run(handler::abortJob, request, conf).get("kept");
            if (kept != null) {
                LOG.warn("ray_committer: the job was kept: " + kept.asText());
            }
        } catch (IOException | RuntimeException e) {
            LOG.warn(request.job.attemptDir + ": could not be aborted, so everything was kept; abort it"
                    + " with: " + request.job.command("abort"), e);
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
