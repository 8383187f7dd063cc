package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/** Calls the commit handler and turns every kind of failure into one IOException. */
final class HandlerCall {
    /** One of the methods of a handler. */
    interface Method {
        String call(String requestJson) throws IOException;
    }

    private HandlerCall() {}

    /**
     * Calls the handler for a job, and lends it the job's configuration during the call.
     *
     * @return the answer, which is an object without an error
     */
    static JsonNode run(Method method, JobRequest request, Configuration configuration)
            throws IOException {
        JobConfigurations.lend(request.job.jobId, configuration);
        try {
            return run(method, request.text());
        } finally {
            JobConfigurations.takeBack(request.job.jobId);
        }
    }

    private static JsonNode run(Method method, String requestJson) throws IOException {
        String answer;
        try {
            answer = method.call(requestJson);
        } catch (CommitStateUnknownException e) {
            throw new CommitStateUnknownException("ray_committer: " + e.getMessage(), e);
        } catch (IOException e) {
            throw new IOException("ray_committer: " + e.getMessage(), e);
        } catch (RuntimeException e) {
            throw new IOException(
                    "ray_committer: the commit handler failed: " + e.getMessage(), e);
        }
        String error = errorOf(answer);
        if (error != null) {
            throw new IOException("ray_committer: " + error);
        }
        return objectOf(answer);
    }

    /** Returns the error that the answer reports, or null on success. */
    static String errorOf(String answer) {
        JsonNode reply = objectOf(answer);
        if (reply == null) {
            return "the commit handler did not answer with a JSON object, but with: " + answer;
        }
        JsonNode error = reply.get("error");
        return error == null || error.isNull() ? null : error.asText();
    }

    /** Parses a text as a JSON object; returns null if it is not one. */
    static ObjectNode objectOf(String text) {
        try {
            JsonNode node = text == null ? null : new ObjectMapper().readTree(text);
            return node != null && node.isObject() ? (ObjectNode) node : null;
        } catch (IOException e) {
            return null;
        }
    }
}
