package io.raycommitter;

import java.io.IOException;
import java.util.LinkedHashMap;
import org.apache.hadoop.conf.Configuration;

/** Holds the driver's commit handler where the commit protocol, which Spark creates, finds it. */
public final class Bridge {
    /** Version of the request format; the Python side refuses a jar with another version. */
    public static final int PROTOCOL_VERSION = 8;

    private static final LinkedHashMap<String, JobCommitHandler> HANDLERS = new LinkedHashMap<>();

    private Bridge() {}

    /** Installs the Python handler of a session; each request to it carries the secret. */
    public static synchronized void setHandler(String session, PythonCallback python, String secret) {
        HANDLERS.remove(session); // the last one of all comes last
        HANDLERS.put(session, new PythonHandler(python, secret));
    }

    public static synchronized void removeHandler(String session) {
        HANDLERS.remove(session);
    }

    /** Returns the handler that commits jobs of this configuration, or null if there is none. */
    public static JobCommitHandler handlerFor(Configuration conf) throws IOException {
        return CommitHandlers.choose(installed(conf.getRaw(SettingNames.SESSION_TOKEN)), conf);
    }

    /**
     * Returns the handler of a session, which may have been removed; for a session that never had one, that
     * which was installed last. Null if there is none.
     */
    private static synchronized JobCommitHandler installed(String session) {
        JobCommitHandler last = null;
        for (JobCommitHandler handler : HANDLERS.values()) {
            last = handler;
        }
        return session == null ? last : HANDLERS.get(session);
    }

    /** Shows a line of the progress of a job's commit in Spark's UI, if the commit takes long. */
    public static void say(String jobId, String line) {
        CommitInUi.say(jobId, line);
    }

    public static int protocolVersion() {
        return PROTOCOL_VERSION;
    }
}
