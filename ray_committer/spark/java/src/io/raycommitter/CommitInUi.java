package io.raycommitter;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Shows a long commit in Spark's UI, by jobs without tasks whose descriptions are its progress.
 *
 * <p>While a commit runs, all tasks of the query have ended, and no public method of Spark changes what
 * its UI shows of them. A job without tasks needs no executor: Spark lists it, with its description,
 * and it has ended at once.
 */
final class CommitInUi {
    private static final Logger LOG = LoggerFactory.getLogger(CommitInUi.class);

    private static final String DESCRIPTION = "spark.job.description";

    /** With this property, the page of the query also lists the job. */
    private static final String QUERY = "spark.sql.execution.id";

    private static final long FIRST_MILLIS = 10_000;

    private static final Map<String, CommitInUi> BY_JOB = new ConcurrentHashMap<>();

    private final JavaSparkContext spark;
    private final String dest;
    private final String query;
    private final long begun = System.nanoTime();
    private long nextMillis = FIRST_MILLIS;

    private CommitInUi(JavaSparkContext spark, String dest) {
        this.spark = spark;
        this.dest = dest;
        this.query = spark.getLocalProperty(QUERY);
    }

    /** Called in the thread of the write, before the commit of its job. */
    static void begin(JobDirectory job) {
        try {
            JavaSparkContext spark = new JavaSparkContext(DriverContext.get());
            BY_JOB.put(job.jobId, new CommitInUi(spark, job.dest.toUri().toString()));
        } catch (RuntimeException e) {
            LOG.debug("a commit is not shown in Spark's UI", e);
        }
    }

    /**
     * Called with each line of progress: shows one after ten seconds, and then each time that the commit
     * has taken twice as long.
     */
    static void say(String jobId, String line) {
        CommitInUi commit = BY_JOB.get(jobId);
        if (commit != null && commit.isDue()) {
            commit.show(line.trim());
        }
    }

    /** Called when the commit has ended; shows the outcome if its progress was shown. */
    static void end(String jobId, String outcome) {
        CommitInUi commit = BY_JOB.remove(jobId);
        if (commit != null && commit.wasShown()) {
            commit.show(outcome + " after " + commit.millis() / 1000 + " s");
        }
    }

    private synchronized boolean isDue() {
        if (millis() < nextMillis) {
            return false;
        }
        nextMillis = 2 * millis();
        return true;
    }

    private synchronized boolean wasShown() {
        return nextMillis > FIRST_MILLIS;
    }

    private long millis() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
    }

    /** Throws nothing: the commit does not depend on what the UI shows. */
    private void show(String text) {
        String earlierDescription = spark.getLocalProperty(DESCRIPTION);
        String earlierQuery = spark.getLocalProperty(QUERY);
        try {
            spark.setLocalProperty(DESCRIPTION, "ray_committer: " + dest + ": " + text);
            spark.setLocalProperty(QUERY, query);
            spark.emptyRDD().count();
        } catch (Exception e) { // Scala throws checked exceptions without declaring them.
            LOG.debug("the progress of a commit is not shown in Spark's UI", e);
            if (e instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
        } finally {
            spark.setLocalProperty(DESCRIPTION, earlierDescription);
            spark.setLocalProperty(QUERY, earlierQuery);
        }
    }
}
