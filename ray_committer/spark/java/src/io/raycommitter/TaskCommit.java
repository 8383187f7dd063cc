package io.raycommitter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Collection;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;

/**
 * The result of a task attempt's commit, for the driver.
 *
 * <p>It travels as arrays of strings: every serializer knows them, even Kryo with mandatory
 * registration, and no class of this jar is needed to read a task's result.
 */
final class TaskCommit {
    private static final int FILES = 4;
    private static final int TEXT = 5;
    private static final int MANIFEST_PARTS = 6;

    private final String[] manifest;
    final String[] partitionPaths;
    final String[] absoluteRoots;

    /** Takes a saved manifest, so that the driver commits exactly its bytes; no text if it is not small. */
    TaskCommit(String name, int size, String sha256, String taskAttemptId, int files, String text) {
        this.manifest = new String[] {
            name, Integer.toString(size), sha256, taskAttemptId, Integer.toString(files), text
        };
        this.partitionPaths = new String[0];
        this.absoluteRoots = new String[0];
    }

    private TaskCommit(String[] manifest, String[] partitionPaths, String[] absoluteRoots) {
        this.manifest = manifest;
        this.partitionPaths = partitionPaths;
        this.absoluteRoots = absoluteRoots;
    }

    /** Returns the same with the places that the task wrote to. */
    TaskCommit with(Collection<String> partitionPaths, Collection<String> absoluteRoots) {
        return new TaskCommit(
                manifest,
                partitionPaths.toArray(new String[0]),
                absoluteRoots.toArray(new String[0]));
    }

    static TaskCommit from(TaskCommitMessage message) throws IOException {
        Object value = message.obj();
        if (!(value instanceof String[][])
                || ((String[][]) value).length != 3
                || ((String[][]) value)[0].length != MANIFEST_PARTS) {
            throw new IOException("ray_committer: a task was committed by another protocol: "
                    + value + "; check that all executors have the driver's jar");
        }
        String[][] arrays = (String[][]) value;
        return new TaskCommit(arrays[0], arrays[1], arrays[2]);
    }

    TaskCommitMessage toMessage() {
        return new TaskCommitMessage(new String[][] {manifest, partitionPaths, absoluteRoots});
    }

    int files() {
        return Integer.parseInt(manifest[FILES]);
    }

    int textLength() {
        return manifest[TEXT] == null ? 0 : manifest[TEXT].length();
    }

    /** Forgets the text of the manifest, also in the message that this was made from; returns its length. */
    int forgetText() {
        int length = textLength();
        manifest[TEXT] = null;
        return length;
    }

    ObjectNode toJson() {
        ObjectNode json = JsonNodeFactory.instance.objectNode()
                .put("manifest", manifest[0])
                .put("size", Long.parseLong(manifest[1]))
                .put("sha256", manifest[2])
                .put("taskAttemptId", manifest[3])
                .put("files", files());
        return manifest[TEXT] == null ? json : json.put("text", manifest[TEXT]);
    }
}
