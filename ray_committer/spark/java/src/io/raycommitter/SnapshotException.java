package io.raycommitter;

/** A table cannot be read at one version; the text names it and what to do. */
final class SnapshotException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    SnapshotException(String message, Throwable cause) {
        super("ray_committer: " + message, cause);
    }
}
