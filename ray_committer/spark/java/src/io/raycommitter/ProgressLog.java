package io.raycommitter;

import java.util.ArrayDeque;
import org.slf4j.Logger;

/**
 * Writes the lines of a commit to the driver's log, shows some of them in Spark's UI, and keeps the last
 * ones for an error.
 */
final class ProgressLog {
    private static final int KEPT_LINES = 30;
    private static final int KEPT_COLUMNS = 2000;

    private final Logger log;
    private final String name;
    private final String jobId;
    private final ArrayDeque<String> last = new ArrayDeque<>();

    ProgressLog(Logger log, String name, String jobId) {
        this.log = log;
        this.name = name;
        this.jobId = jobId;
    }

    synchronized void line(String line) {
        log.info(name + ": " + line);
        CommitInUi.say(jobId, line);
        last.add(line.length() > KEPT_COLUMNS ? line.substring(0, KEPT_COLUMNS) + "..." : line);
        if (last.size() > KEPT_LINES) {
            last.remove();
        }
    }

    /** Returns the last lines, for the end of an error's text; empty if there were no lines. */
    synchronized String tail() {
        String lines = String.join("\n", last);
        return last.isEmpty() ? "" : "\nThe last lines of " + name + ":\n" + lines;
    }
}
