package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;

/** Passes on what is new in the output of a Ray job, and finds the answer in it. */
final class RayJobLog {
    /** What the line of an answer has one of; other lines that are JSON are not for here. */
    private static final String[] KEYS = {"error", "stamp", "kept"};

    private final ProgressLog progress;
    private int seen;
    private String answer = "{}";

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

    /** Returns what the command answered; an empty object if it said no more than that it is done. */
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
