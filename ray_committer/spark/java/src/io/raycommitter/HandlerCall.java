package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.function.UnaryOperator;

/** Calls the commit handler and turns every kind of failure into one IOException. */
final class HandlerCall {
    private HandlerCall() {}

    static void run(UnaryOperator<String> call, String requestJson) throws IOException {
        String answer;
        try {
            answer = call.apply(requestJson);
        } catch (RuntimeException e) {
            throw new IOException(
                    "ray_committer: the commit handler failed: " + e.getMessage(), e);
        }
        String error = errorOf(answer);
        if (error != null) {
            throw new IOException("ray_committer: " + error);
        }
    }

    /** Returns the error that the answer reports, or null on success. */
    private static String errorOf(String answer) {
        JsonNode reply = null;
        try {
            reply = answer == null ? null : new ObjectMapper().readTree(answer);
        } catch (IOException e) {
            // Not JSON at all: reported below.
        }
        if (reply == null || !reply.isObject()) {
            return "the commit handler did not answer with a JSON object, but with: " + answer;
        }
        JsonNode error = reply.get("error");
        return error == null || error.isNull() ? null : error.asText();
    }
}
