package io.raycommitter;

import java.io.IOException;

/** Says that a commit failed and that nothing of it goes on elsewhere. */
final class NothingRunsException extends IOException {
    private static final long serialVersionUID = 1L;

    NothingRunsException(String message, Throwable cause) {
        super(message, cause);
    }
}
