package io.raycommitter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.GZIPOutputStream;
import org.apache.hadoop.conf.Configuration;

/**
 * Lends the configuration of a job to the commit handler while a call for that job runs.
 *
 * <p>The configuration combines the session's settings, the write's options and the cluster's files, as
 * the tasks use them. It is not in the request, because it may contain secrets.
 */
public final class JobConfigurations {
    private static final String[] PREFIXES = {
        "fs.",
        "dfs.",
        "google.cloud.",
        "hadoop.security.",
        "mapreduce.",
        "parquet.enable.summary-metadata",
        "parquet.summary.metadata.level",
        "spark.ray_committer.",
    };

    private static final Map<String, Configuration> BY_JOB = new ConcurrentHashMap<>();

    private JobConfigurations() {}

    static void lend(String jobId, Configuration configuration) {
        BY_JOB.put(jobId, configuration);
    }

    static void takeBack(String jobId) {
        BY_JOB.remove(jobId);
    }

    /** Returns the configuration of a job while a call for that job runs, otherwise null. */
    public static Configuration of(String jobId) {
        return BY_JOB.get(jobId);
    }

    /** Returns the settings that a commit may depend on, secrets included, with variables expanded. */
    static ObjectNode json(Configuration configuration) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        for (Map.Entry<String, String> entry : configuration) {
            String value = isWanted(entry.getKey()) ? configuration.get(entry.getKey()) : null;
            if (value != null) {
                json.put(entry.getKey(), value);
            }
        }
        return json;
    }

    /**
     * Returns the same settings as the text of a JSON object, gzip.
     *
     * <p>Py4J sends more than 8 KiB in two parts, and the second part waits 40 ms for Python's delayed
     * acknowledgement of the first. Compressed settings fit into one part.
     */
    public static byte[] settings(Configuration configuration) throws IOException {
        ByteArrayOutputStream compressed = new ByteArrayOutputStream();
        try (OutputStream gzip = new GZIPOutputStream(compressed)) {
            gzip.write(json(configuration).toString().getBytes(StandardCharsets.UTF_8));
        }
        return compressed.toByteArray();
    }

    /** Returns a secret from Hadoop's credential providers or from the settings; null without either. */
    public static String password(Configuration configuration, String key) throws IOException {
        char[] found = configuration.getPassword(key);
        return found == null ? null : new String(found);
    }

    private static boolean isWanted(String key) {
        for (String prefix : PREFIXES) {
            if (key.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }
}
