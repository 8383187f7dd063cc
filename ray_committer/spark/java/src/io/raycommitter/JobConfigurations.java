package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
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
        SettingNames.PREFIX,
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

    /**
     * Returns the settings that a commit may depend on, secrets included, and the names of those that are
     * not the driver's own. Only in the driver's own are variables expanded: they can stand for secrets.
     */
    static ObjectNode json(Configuration configuration) {
        DriverSettings driver = DriverSettings.read();
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        ObjectNode settings = json.putObject("conf");
        ArrayNode given = json.putArray("given");
        for (Map.Entry<String, String> entry : configuration) {
            String key = entry.getKey();
            if (!isWanted(key) || entry.getValue() == null) {
                continue;
            }
            if (driver.isOwn(key, entry.getValue())) {
                settings.put(key, driver.expanded(entry.getValue()));
            } else {
                settings.put(key, entry.getValue());
                given.add(key);
            }
        }
        return json;
    }

    /**
     * Returns the same as the text of a JSON object, gzip.
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
        return DriverSettings.read().password(key, configuration);
    }

    private static boolean isWanted(String key) {
        return Arrays.stream(PREFIXES).anyMatch(key::startsWith);
    }
}
