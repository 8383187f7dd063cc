package io.raycommitter;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/**
 * Chooses the handler that commits a job, when the job is set up.
 *
 * <p>A handler that is installed or named in the settings comes first. If Python drives the driver
 * and there is neither, the user forgot to install; a commit in another process would hide that.
 */
final class CommitHandlers {
    private CommitHandlers() {}

    /** Returns null if there is no handler. */
    static JobCommitHandler choose(JobCommitHandler installed, Configuration conf)
            throws IOException {
        if (installed != null) {
            return installed;
        }
        Settings settings = Settings.of(conf);
        if (settings.get(Settings.ADDRESS) != null) {
            return new RayJobsHandler(settings, conf);
        }
        boolean isDefault = !hasPython() && Settings.isOnPath(Settings.DEFAULT_COMMAND);
        if (settings.get(Settings.COMMAND) != null || isDefault) {
            return new ChildProcessHandler(settings);
        }
        return null;
    }

    /** Returns the error text for a driver without a handler, with what to do. */
    static String nobody() {
        String python = "call ray_committer.spark.install(spark) before writing";
        String here = "set " + Settings.COMMAND + " to the `ray-committer` command of this machine";
        String there = "set " + Settings.ADDRESS + " to the dashboard of a Ray cluster";
        return hasPython()
                ? "no commit handler is installed in this driver; " + python + ", or " + here
                        + ", or " + there
                : "no commit handler is installed in this driver and `ray-committer` is not on its"
                        + " PATH; " + here + ", or " + there + ", or, in Python, " + python;
    }

    /**
     * Returns whether Python drives this JVM: then Py4J's server waits in one of its threads. It does
     * so if Python started the JVM, if spark-submit started Python, or if a notebook server did both.
     */
    static boolean hasPython() {
        for (StackTraceElement[] stack : Thread.getAllStackTraces().values()) {
            for (StackTraceElement frame : stack) {
                if (frame.getClassName().startsWith("py4j.")) {
                    return true;
                }
            }
        }
        return false;
    }
}
