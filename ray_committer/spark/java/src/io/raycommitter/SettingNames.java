package io.raycommitter;

/** The names of our settings that are no options of a commit; a test writes them, from their table. */
final class SettingNames {
    static final String PREFIX = "spark.ray_committer.";
    static final String COMMIT = PREFIX + "commit";
    static final String EXECUTOR = PREFIX + "executor";
    static final String COMMAND = PREFIX + "command";
    static final String SESSION_TOKEN = PREFIX + "session_token";

    private SettingNames() {}
}
