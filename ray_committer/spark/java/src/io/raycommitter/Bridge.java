package io.raycommitter;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/** Holds the driver's commit handler where the commit protocol, which Spark creates, finds it. */
public final class Bridge {
    /** Version of the requests; the Python side refuses a jar that speaks another one. */
    public static final int PROTOCOL_VERSION = 6;

    private static volatile JobCommitHandler handler;

    private Bridge() {}

    /** Lets Python commit; each request will bring the secret. */
    public static void setHandler(PythonCallback python, String secret) {
        handler = new PythonHandler(python, secret);
    }

    /** Returns the handler, or null when none is installed in this process. */
    public static JobCommitHandler handler() {
        return handler;
    }

    /** Returns who commits the jobs of this configuration, or null when nobody is there. */
    public static JobCommitHandler handlerFor(Configuration conf) throws IOException {
        return CommitHandlers.choose(handler, conf);
    }

    public static void clearHandler() {
        handler = null;
    }

    public static int protocolVersion() {
        return PROTOCOL_VERSION;
    }
}
