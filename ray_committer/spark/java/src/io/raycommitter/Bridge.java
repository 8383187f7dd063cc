package io.raycommitter;

import org.apache.hadoop.conf.Configuration;

/** Holds the driver's commit handler where the commit protocol, which Spark creates, finds it. */
public final class Bridge {
    /** Version of the request format; the Python side refuses a jar with another version. */
    public static final int PROTOCOL_VERSION = 6;

    private static volatile JobCommitHandler handler;

    private Bridge() {}

    /** Installs the Python handler; each request to it carries the secret. */
    public static void setHandler(PythonCallback python, String secret) {
        handler = new PythonHandler(python, secret);
    }

    /** Returns the handler, or null when none is installed in this process. */
    public static JobCommitHandler handler() {
        return handler;
    }

    /** Returns the handler that commits jobs of this configuration, or null if there is none. */
    public static JobCommitHandler handlerFor(Configuration conf) {
        return CommitHandlers.choose(handler, conf);
    }

    /** Shows a line of the progress of a job's commit in Spark's UI, if the commit takes long. */
    public static void say(String jobId, String line) {
        CommitInUi.say(jobId, line);
    }

    public static void clearHandler() {
        handler = null;
    }

    public static int protocolVersion() {
        return PROTOCOL_VERSION;
    }
}
