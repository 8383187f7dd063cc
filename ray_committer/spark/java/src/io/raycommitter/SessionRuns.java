package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Knows which work a session has committed under run ids: a second write under one is a mistake, and a
 * write in a new session is a retry.
 *
 * <p>The session is the application. A batch of a stream is a session of its own, because a query that
 * was started again repeats its last batch; a run of a query does a batch once.
 */
final class SessionRuns {
    private static final Logger LOG = LoggerFactory.getLogger(SessionRuns.class);
    private static final String QUERY = "sql.streaming.queryId";
    private static final String BATCH = "streaming.sql.batchId";

    /** By application or run of a query: of that, only the last batch can still write. */
    private static final Map<String, SessionRuns> ALL = new HashMap<>();

    final String name;
    private final String batch;
    private final Map<String, Set<String>> committed = new ConcurrentHashMap<>();
    private final Set<String> atWork = ConcurrentHashMap.newKeySet();

    private SessionRuns(String name, String batch) {
        this.name = name;
        this.batch = batch;
    }

    /** Returns the session of the current thread, which is that of the write. */
    static SessionRuns current() {
        SparkContext context = DriverContext.get();
        String batch = batch();
        String run = batch.isEmpty() ? null : runOfQuery(property(QUERY));
        String name = run == null ? context.applicationId() : run;
        synchronized (ALL) {
            SessionRuns found = ALL.get(name);
            if (found == null || (run != null && !found.batch.equals(batch))) {
                found = new SessionRuns(name, batch);
                ALL.put(name, found);
            }
            return found;
        }
    }

    /** Returns the query and the batch that the current thread works on; empty outside of a stream. */
    static String batch() {
        String query = property(QUERY);
        String batch = property(BATCH);
        return query == null || batch == null ? "" : "query=" + query + " batch=" + batch;
    }

    /** Commits a job under a run id, whose request also names those that are committed under it. */
    void commit(String runId, JobRequest request, SideBySide.Request<JsonNode> commit)
            throws IOException {
        String key = runId + "\n" + request.job.dest;
        if (!atWork.add(key)) {
            throw new IOException("ray_committer: " + request.job.dest + ": another write of this"
                    + " session is being committed under run id " + runId
                    + "; give each write a run id of its own");
        }
        try {
            Set<String> jobs = committed.computeIfAbsent(key, ignored -> new TreeSet<>());
            request.withKnownJobs(jobs);
            JsonNode other = commit.make().get("committedBy");
            jobs.add(request.job.jobId);
            if (other != null) {
                jobs.add(other.asText());
            }
        } finally {
            atWork.remove(key);
        }
    }

    private static String property(String key) {
        return new JavaSparkContext(DriverContext.get()).getLocalProperty(key);
    }

    /** Returns null if this version of Spark does not show it. Uses reflection: the type differs. */
    private static String runOfQuery(String query) {
        try {
            Class<?> sessions = Class.forName("org.apache.spark.sql.SparkSession");
            Object session = sessions.getMethod("active").invoke(null);
            Object shared = session.getClass().getMethod("sharedState").invoke(session);
            Object queries = shared.getClass().getMethod("activeStreamingQueries").invoke(shared);
            Object found = ((Map<?, ?>) queries).get(UUID.fromString(query));
            return found == null ? null : found.getClass().getMethod("runId").invoke(found).toString();
        } catch (LinkageError | ReflectiveOperationException | RuntimeException e) {
            LOG.warn("ray_committer: this version of Spark does not show the run of a query, so a batch"
                    + " that is repeated in this application is refused", e);
            return null;
        }
    }
}
