package io.raycommitter;

import java.io.IOException;

/**
 * Sets up, commits and aborts jobs on behalf of Spark. Python does it through {@link PythonCallback};
 * without Python, a child process or a job on a Ray cluster does.
 *
 * <p>Requests and answers are JSON text, so that nothing but strings crosses the language border.
 * An answer is a JSON object; one with the key {@code error} fails the write with that text.
 */
public interface JobCommitHandler {
    /** Sets up the job attempt; the answer's {@code stamp} is what its tasks' manifests must bear. */
    String setupJob(String requestJson) throws IOException;

    /**
     * Starts workers for the commit of a job whose tasks still run; asked for once they have committed as
     * many files as the answer to its set-up names as {@code workersFrom}. Idempotent.
     */
    default String startWorkers(String requestJson) throws IOException {
        return "{}";
    }

    /** Makes the files of all tasks that the request names visible, or records them for later. */
    String commitJob(String requestJson) throws IOException;

    /**
     * Removes the job attempt unless its commit is recorded. Idempotent.
     *
     * <p>An answer with the key {@code kept} says why the job was kept and what finishes it.
     */
    String abortJob(String requestJson) throws IOException;
}
