package io.raycommitter;

/**
 * The interface that Python implements and Py4J calls through a port of this machine: a {@link
 * JobCommitHandler} that requires a secret with each request.
 */
public interface PythonCallback {
    /** See {@link JobCommitHandler#setupJob}. */
    String setupJob(String secret, String requestJson);

    /** See {@link JobCommitHandler#startWorkers}. */
    String startWorkers(String secret, String requestJson);

    /** See {@link JobCommitHandler#loadTasks}. */
    String loadTasks(String secret, String requestJson);

    /** See {@link JobCommitHandler#commitJob}. */
    String commitJob(String secret, String requestJson);

    /** See {@link JobCommitHandler#abortJob}. */
    String abortJob(String secret, String requestJson);
}
