package io.raycommitter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;

/** The user's settings for this package and for the stores, which a commit elsewhere needs. */
final class Settings {
    static final String PREFIX = "spark.ray_committer.";
    static final String MODE = PREFIX + "commit";
    static final String COMMAND = PREFIX + "command";
    static final String ADDRESS = PREFIX + "jobs.address";
    static final String TOKEN = PREFIX + "jobs.token";
    static final String RUNTIME_ENV = PREFIX + "jobs.runtime_env";
    static final String UNREACHABLE_SECONDS = PREFIX + "jobs.unreachable_seconds";
    static final String DEFAULT_COMMAND = "ray-committer";

    /** These settings specify how to reach a commit, not how to do it. */
    private static final String JOBS_PREFIX = PREFIX + "jobs.";

    /** Keys whose values are secrets; more than in Spark's own spark.redaction.regex. */
    private static final Pattern SECRET =
            Pattern.compile("(?i)secret|password|passwd|token|key|credential|signature|sas");

    private final TreeMap<String, String> values = new TreeMap<>();

    private Settings() {}

    static Settings of(Configuration conf) {
        Settings settings = new Settings();
        for (Map.Entry<String, String> entry : conf) {
            String value = JobConfigurations.isWanted(entry.getKey()) ? conf.get(entry.getKey()) : null;
            if (value != null) {
                settings.values.put(entry.getKey(), value);
            }
        }
        return settings;
    }

    /** Returns null for a key that is not set, or is set to blanks. */
    String get(String key) {
        String value = values.getOrDefault(key, "").trim();
        return value.isEmpty() ? null : value;
    }

    long seconds(String key, long fallback) throws IOException {
        String value = get(key);
        try {
            return value == null ? fallback : Integer.parseUnsignedInt(value);
        } catch (NumberFormatException e) {
            throw new IOException("ray_committer: " + key + "=" + value
                    + " is not a number of seconds", e);
        }
    }

    /** Returns the command line, without the subcommand. */
    String command() {
        String command = get(COMMAND);
        return command == null ? DEFAULT_COMMAND : command;
    }

    /** Returns the settings for a commit, with secrets. */
    ObjectNode toJson() {
        return json(true);
    }

    /** Returns the settings for a commit, without secrets, for a place that others can read. */
    ObjectNode toJsonWithoutSecrets() {
        return json(false);
    }

    private ObjectNode json(boolean withSecrets) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        values.forEach((key, value) -> {
            if (!key.startsWith(JOBS_PREFIX) && (withSecrets || !isSecret(key))) {
                json.put(key, value);
            }
        });
        return json;
    }

    private static boolean isSecret(String key) {
        return SECRET.matcher(key.startsWith(PREFIX) ? key.substring(PREFIX.length()) : key).find();
    }

    /** Returns whether a program with this name is on the PATH and can be started. */
    static boolean isOnPath(String program) {
        String path = System.getenv("PATH");
        return path != null && Arrays.stream(path.split(File.pathSeparator))
                .map(directory -> new File(directory, program))
                .anyMatch(file -> file.isFile() && file.canExecute());
    }
}
