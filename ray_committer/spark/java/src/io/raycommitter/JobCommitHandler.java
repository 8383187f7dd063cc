package io.raycommitter;

import java.io.IOException;

/**
 * Sets up, commits and aborts jobs on behalf of Spark. Python does it through {@link PythonCallback};
 * without Python, a child process does.
 *
 * <p>Requests and answers are JSON text, so that nothing but strings crosses the language border.
 * An answer is a JSON object; the key {@code error} in it fails the write with that text.
 */
public interface JobCommitHandler {
    /** Sets up the job attempt; its tasks' manifests must contain the answer's {@code stamp}. */
    String setupJob(String requestJson) throws IOException;

    /**
     * Starts workers for the commit of a job whose tasks still run. It is called after the tasks have
     * committed as many files as {@code workersFrom} in the answer to the set-up. Idempotent.
     */
    default String startWorkers(String requestJson) throws IOException {
        return "{}";
    }

    /**
     * Loads tasks that have committed while others run. An error means that the commit will load them.
     * Each manifest that is small comes as {@code text} with its task, once: a commit has the texts of
     * those tasks that no call without an error has passed on.
     */
    default String loadTasks(String requestJson) throws IOException {
        throw new IOException("this handler loads tasks at the commit");
    }

    /** Makes the files of all tasks in the request visible, or records them for later. */
    String commitJob(String requestJson) throws IOException;

    /**
     * Removes the job attempt unless its commit is recorded. Idempotent.
     *
     * <p>The key {@code kept} in the answer explains why the job was kept and what finishes it.
     */
    String abortJob(String requestJson) throws IOException;
}
