package io.raycommitter;

import java.io.IOException;

/** Thrown if a commit may still go on elsewhere, so that nothing of the job can be removed. */
final class CommitStateUnknownException extends IOException {
    private static final long serialVersionUID = 1L;

    CommitStateUnknownException(String message, Throwable cause) {
        super(message, cause);
    }
}
