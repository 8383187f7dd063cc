package io.raycommitter;

/** Identifies one manifest, so that the driver commits exactly the bytes that the task saved. */
final class SavedManifest {
    final String name;
    final long size;
    final String sha256;
    final String taskAttemptId;
    final int files;
    final String text; // null if it is not small

    SavedManifest(
            String name, long size, String sha256, String taskAttemptId, int files, String text) {
        this.name = name;
        this.size = size;
        this.sha256 = sha256;
        this.taskAttemptId = taskAttemptId;
        this.files = files;
        this.text = text;
    }
}
