package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;

/** Passes on what is new in the output of a Ray job, and finds the answer in it. */
final class RayJobLog {
    private final ProgressLog progress;
    private int seen;
    private String error;

    RayJobLog(ProgressLog progress) {
        this.progress = progress;
    }

    /** Takes all output so far, or null; a line without an end waits unless it is the last. */
    void update(String all, boolean isWhole) {
        if (all == null) {
            return;
        }
        int end = isWhole ? all.length() : all.lastIndexOf('\n') + 1;
        if (end > seen) {
            for (String line : all.substring(seen, end).split("\n")) {
                take(line);
            }
            seen = end;
        }
    }

    /** Returns the error that the command answered with, or null. */
    String error() {
        return error;
    }

    String tail() {
        return progress.tail();
    }

    private void take(String line) {
        JsonNode answer = line.startsWith("{") ? HandlerCall.objectOf(line) : null;
        if (answer != null && answer.get("error") != null) {
            error = answer.get("error").asText();
        } else {
            progress.line(line);
        }
    }
}
