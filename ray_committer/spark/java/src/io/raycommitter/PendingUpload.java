package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.Path;

/**
 * One upload that waits for its completion, as the S3A client describes it in a file {@code .pending}.
 *
 * <p>As {@code decode_pending} of {@code protocol/pendingsets.py}.
 */
final class PendingUpload {
    static final String SUFFIX = ".pending";

    private static final int VERSION = 2;
    private static final String MD5 = "[0-9a-f]{32}";

    private final Path destination;
    private final String id;
    private final long length;
    private final List<String> parts;

    private PendingUpload(Path destination, String id, long length, List<String> parts) {
        this.destination = destination;
        this.id = id;
        this.length = length;
        this.parts = parts;
    }

    /** Reads the file at {@code path}; it must describe the upload of {@code destination}. */
    static PendingUpload read(FileSystem fs, Path path, Path destination) throws IOException {
        JsonNode json =
                HandlerCall.objectOf(new String(JobState.readAll(fs, path), StandardCharsets.UTF_8));
        if (json == null || json.path("version").asLong() != VERSION) {
            throw new IOException(path + ": does not describe an upload in a version that is known ("
                    + VERSION + "); run the task again, with another release of Hadoop's S3A client");
        }
        String key = destination.toUri().getPath().substring(1);
        if (!json.path("bucket").asText().equals(destination.toUri().getAuthority())
                || !json.path("destinationKey").asText().equals(key)) {
            throw new IOException(path + ": is the upload of " + json.path("destinationKey").asText()
                    + ", not of " + destination + "; run the task again");
        }
        List<String> parts = new ArrayList<>();
        for (JsonNode etag : json.path("etags")) {
            parts.add(etag.isTextual() ? etag.asText().replace("\"", "") : "");
        }
        String id = json.path("uploadId").asText();
        if (id.isEmpty() || parts.isEmpty() || parts.contains("")) {
            throw new IOException(path + ": has no id of an upload, or no etag of a part; run the task"
                    + " again");
        }
        return new PendingUpload(destination, id, json.path("length").asLong(), parts);
    }

    /** Adds the entry of a manifest. */
    void addTo(ArrayNode entries) {
        ObjectNode entry = entries.addObject()
                .put("d", destination.toUri().toString())
                .put("z", length)
                .put("u", id);
        parts.forEach(entry.putArray("p")::add);
        String etag = predictedEtag();
        if (etag != null) {
            entry.put("e", etag);
        }
    }

    /** Aborts the upload, if it is still pending. */
    void abort(MultipartUploader uploader) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(id.getBytes(StandardCharsets.UTF_8));
        try {
            uploader.abort(BBUploadHandle.from(bytes), destination).get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof FileNotFoundException)) {
                throw new IOException(destination + ": its upload " + id + " cannot be aborted: "
                        + e.getCause(), e);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while uploads were aborted");
        }
    }

    /** Returns the etag of the completed object; null if those of its parts are no MD5 sums. */
    private String predictedEtag() {
        ByteArrayOutputStream sums = new ByteArrayOutputStream();
        for (String part : parts) {
            if (!part.matches(MD5)) {
                return null;
            }
            byte[] sum = new BigInteger("1" + part, 16).toByteArray(); // the 1 keeps leading zeros
            sums.write(sum, 1, sum.length - 1);
        }
        return TaskManifestWriter.hexDigest("MD5", sums.toByteArray()) + "-" + parts.size();
    }
}
