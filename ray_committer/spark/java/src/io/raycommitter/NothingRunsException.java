package io.raycommitter;

import java.io.IOException;

/** Thrown if a commit failed and nothing of it goes on elsewhere. */
final class NothingRunsException extends IOException {
    private static final long serialVersionUID = 1L;

    NothingRunsException(String message, Throwable cause) {
        super(message, cause);
    }
}
