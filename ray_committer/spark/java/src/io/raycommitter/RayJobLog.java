package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;

/** Passes on the new output of a Ray job, and finds the answer in it. */
final class RayJobLog {
    /** An answer's line has one of these keys; other JSON lines are ordinary output. */
    private static final String[] KEYS = {"error", "stamp", "kept"};

    private final ProgressLog progress;
    private int seen;
    private String answer = "{}";

    RayJobLog(ProgressLog progress) {
        this.progress = progress;
    }

    /** Takes all output so far, or null; an unfinished last line waits until the output is whole. */
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

    /** Returns the answer of the command; an empty object if the command only reported its end. */
    String answer() {
        return answer;
    }

    String tail() {
        return progress.tail();
    }

    private void take(String line) {
        if (isAnswer(line)) {
            answer = line;
        } else {
            progress.line(line);
        }
    }

    private static boolean isAnswer(String line) {
        JsonNode object = line.startsWith("{") ? HandlerCall.objectOf(line) : null;
        return object != null && Arrays.stream(KEYS).anyMatch(key -> object.get(key) != null);
    }
}
