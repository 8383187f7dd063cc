package io.raycommitter;

/** The handler of a driver that Python drives: passes requests on, with the secret. */
final class PythonHandler implements JobCommitHandler {
    private final PythonCallback python;
    private final String secret;

    PythonHandler(PythonCallback python, String secret) {
        this.python = python;
        this.secret = secret;
    }

    @Override
    public String setupJob(String requestJson) {
        return python.setupJob(secret, requestJson);
    }

    @Override
    public String startWorkers(String requestJson) {
        return python.startWorkers(secret, requestJson);
    }

    @Override
    public String loadTasks(String requestJson) {
        return python.loadTasks(secret, requestJson);
    }

    @Override
    public String commitJob(String requestJson) {
        return python.commitJob(secret, requestJson);
    }

    @Override
    public String abortJob(String requestJson) {
        return python.abortJob(secret, requestJson);
    }
}
