package io.raycommitter;

import java.io.IOException;

/** Says that a commit may still go on elsewhere, so that nothing of the job may be removed. */
final class CommitStateUnknownException extends IOException {
    private static final long serialVersionUID = 1L;

    CommitStateUnknownException(String message, Throwable cause) {
        super(message, cause);
    }
}
