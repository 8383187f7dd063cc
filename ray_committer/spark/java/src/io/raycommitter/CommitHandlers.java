package io.raycommitter;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/**
 * Chooses who commits a job, when it is set up.
 *
 * <p>What was installed or set by name goes first. A driver with Python in it that has neither
 * forgot to install; to commit in another process than its user expects would hide that.
 */
final class CommitHandlers {
    private CommitHandlers() {}

    /** Returns null if nobody is there. */
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

    /** Says what to do where nobody is there. */
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
     * Tells whether Python drives this JVM: then Py4J's server waits in one of its threads,
     * whether Python started the JVM, or spark-submit Python, or a notebook server both.
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
