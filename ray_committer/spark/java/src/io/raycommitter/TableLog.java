package io.raycommitter;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;

/**
 * Reads the log of a table: entries, checkpoints and lists of files. Only Python writes it.
 *
 * <p>As {@code tables/log.py}, {@code tables/file_sets.py} and {@code protocol/table_paths.py}.
 */
final class TableLog {
    private static final String DIRECTORY = "_ray_committer";
    private static final String SUFFIX = ".entry";
    private static final String CONTENT = "\"content\":";
    private static final int FORMAT = 1;
    private static final int BLOCK = 1_000;
    private static final int BUFFER = 64 * 1024;

    private final FileSystem fs;
    private final Path directory;
    private final String tableId;

    private TableLog(FileSystem fs, Path directory, String tableId) {
        this.fs = fs;
        this.directory = directory;
        this.tableId = tableId;
    }

    /**
     * Opens the log of the table at a directory; null if there is none. If the user may not read it, the
     * read fails: without the log, the files of committed jobs cannot be told from others.
     */
    static TableLog at(FileSystem fs, Path dest) throws IOException {
        Path directory = TaskScan.join(dest, DIRECTORY);
        Path definition = TaskScan.join(directory, "table" + SUFFIX);
        try {
            JsonNode content = content(definition, JobState.readAll(fs, definition));
            return new TableLog(fs, directory, content.path("table_id").asText());
        } catch (FileNotFoundException | ParentNotDirectoryException e) {
            return null;
        } catch (AccessControlException e) {
            if (isThere(fs, directory)) {
                throw new IOException(definition + ": may not be read by this user, who needs permission"
                        + " to read " + directory, e);
            }
            return null;
        }
    }

    /** Returns whether the user sees a directory, which needs no permission for what is in it. */
    private static boolean isThere(FileSystem fs, Path directory) throws IOException {
        try {
            return fs.exists(directory);
        } catch (AccessControlException e) {
            return false;
        }
    }

    /** Returns the directory of the log. */
    Path path() {
        return TaskScan.join(directory, "log");
    }

    /** Identifies the table: one that is made again at the same place has another id. */
    String key() {
        return directory + " " + tableId;
    }

    /** Returns the last version of the log; {@code known} is a version that was seen before, or 0. */
    long head(long known) throws IOException {
        long block = known / BLOCK;
        long last = lastIn(block(block));
        if (last == BLOCK - 1) {
            block = Math.max(block, lastIn(path()));
            last = lastIn(block(block));
        }
        long head = last >= 0 ? block * BLOCK + last : Math.max(block * BLOCK - 1, 0);
        if (head < known || head == 0 && !fs.exists(block(0))) {
            throw new IOException(path() + ": the log of the table, or its end, is gone; restore it");
        }
        return head;
    }

    /** Reads the entries after a version, up to another one, in order. */
    List<JsonNode> entries(long since, long until) throws IOException {
        try {
            return LongStream.rangeClosed(since + 1, until)
                    .parallel()
                    .mapToObj(this::entry)
                    .collect(Collectors.toList());
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    /** Reads the last checkpoint up to a version; null if none can be read. */
    JsonNode checkpoint(long until) throws IOException {
        Path checkpoints = TaskScan.join(directory, "checkpoint");
        for (long version : numbersIn(checkpoints)) {
            JsonNode found = version <= until ? readable(TaskScan.join(checkpoints, version + SUFFIX)) : null;
            if (found != null
                    && found.path("table_id").asText().equals(tableId)
                    && found.path("state").path("version").asLong() == version) {
                return found;
            }
        }
        return null;
    }

    /** Reads the paths in a part of a checkpoint. */
    void readPart(JsonNode part, Consumer<String> path) throws IOException {
        String digest = part.path("digest").asText();
        readList(TaskScan.join(directory, "checkpoint/parts/" + digest + ".z"), digest, path);
    }

    /** Reads the paths that an entry adds or removes; {@code claim} is that of its job. */
    void readFileSet(JsonNode files, JsonNode claim, Consumer<String> path) throws IOException {
        files.path("inline").forEach(file -> path.accept(file.path("p").asText()));
        String prefix = claim.path("job_id").asText() + "-" + claim.path("job_attempt").asLong() + "-";
        for (JsonNode list : files.path("lists")) {
            Path place = TaskScan.join(directory, "files/" + prefix + list.path("name").asText());
            readList(place, list.path("digest").asText(), path);
        }
    }

    private Path block(long number) {
        return TaskScan.join(path(), String.format("%012d", number));
    }

    private JsonNode entry(long version) {
        Path path = TaskScan.join(
                block(version / BLOCK), String.format("%03d", version % BLOCK) + SUFFIX);
        try {
            return content(path, JobState.readAll(fs, path));
        } catch (FileNotFoundException e) {
            throw new UncheckedIOException(new IOException(
                    path + ": is missing, although later entries of the log are there; restore it", e));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private JsonNode readable(Path path) {
        try {
            return content(path, JobState.readAll(fs, path));
        } catch (IOException e) {
            return null; // A checkpoint decides nothing: the log alone is enough.
        }
    }

    private static JsonNode content(Path path, byte[] data) throws IOException {
        JsonNode envelope;
        try {
            envelope = new ObjectMapper().readTree(data);
        } catch (IOException e) {
            throw damaged(path, e);
        }
        if (envelope.path("format").asLong() > FORMAT) {
            throw new IOException(path + ": has format " + envelope.path("format").asLong() + ", but this"
                    + " jar reads only up to format " + FORMAT + "; install a newer ray_committer");
        }
        int begin = indexOf(data, CONTENT);
        byte[] raw = Arrays.copyOfRange(data, begin, Math.max(begin, data.length - 1));
        if (!TaskManifestWriter.sha256(raw).equals(envelope.path("sha256").asText())) {
            throw damaged(path, null);
        }
        return envelope.path("content");
    }

    /** What is before the content is ASCII. */
    private static int indexOf(byte[] data, String word) {
        int at = new String(data, StandardCharsets.ISO_8859_1).indexOf(word);
        return at < 0 ? data.length : at + word.length();
    }

    private void readList(Path path, String digest, Consumer<String> consumer) throws IOException {
        byte[] data;
        try {
            data = JobState.readAll(fs, path);
        } catch (FileNotFoundException e) {
            throw new IOException(path + ": is missing, although the log names it; restore it", e);
        }
        if (!TaskManifestWriter.sha256(data).equals(digest)) {
            throw damaged(path, null);
        }
        try (JsonParser parser = new JsonFactory().createParser(inflate(data))) {
            for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
                if (token == JsonToken.FIELD_NAME && parser.getText().equals("p")) {
                    parser.nextToken();
                    consumer.accept(parser.getText());
                }
            }
        } catch (DataFormatException e) {
            throw damaged(path, e);
        }
    }

    /** A list can be several compressed lists, one after the other. */
    private static byte[] inflate(byte[] data) throws DataFormatException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] buffer = new byte[BUFFER];
        Inflater inflater = new Inflater();
        try {
            for (int left = data.length; left > 0; left = inflater.getRemaining()) {
                inflater.reset();
                inflater.setInput(data, data.length - left, left);
                while (!inflater.finished()) {
                    int count = inflater.inflate(buffer);
                    if (count == 0 && !inflater.finished()) {
                        throw new DataFormatException("it is cut off");
                    }
                    all.write(buffer, 0, count);
                }
            }
        } finally {
            inflater.end();
        }
        return all.toByteArray();
    }

    private static IOException damaged(Path path, Exception cause) {
        return new IOException(path + ": is not a file of a table log that this jar can read; restore it"
                + " from soft delete or a snapshot", cause);
    }

    private long lastIn(Path parent) throws IOException {
        List<Long> numbers = numbersIn(parent);
        return numbers.isEmpty() ? -1 : numbers.get(0);
    }

    /** Returns the numbers that are names in a directory, the highest first. */
    private List<Long> numbersIn(Path parent) throws IOException {
        List<Long> numbers = new ArrayList<>();
        try {
            for (FileStatus status : fs.listStatus(parent)) {
                String name = status.getPath().getName();
                String digits = name.endsWith(SUFFIX)
                        ? name.substring(0, name.length() - SUFFIX.length())
                        : name;
                if (digits.matches("[0-9]{1,18}")) {
                    numbers.add(Long.parseLong(digits));
                }
            }
        } catch (FileNotFoundException e) {
            return numbers;
        }
        numbers.sort(Collections.reverseOrder());
        return numbers;
    }
}
