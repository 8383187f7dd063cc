package io.raycommitter;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;

/**
 * Reads one version of the log of a table: entries, checkpoints and lists of files. Only Python writes it.
 *
 * <p>As {@code tables/log.py}, {@code tables/file_sets.py} and {@code protocol/table_paths.py}.
 */
final class TableLog {
    private static final String DIRECTORY = "_ray_committer";
    static final String SUFFIX = ".entry";
    private static final String CONTENT = "\"content\":";
    private static final int FORMAT = 2;
    private static final int BUFFER = 64 * 1024;

    private final FileSystem fs;
    private final Path directory;
    private final String tableId;
    final LogFiles files = new LogFiles(this);

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
            JsonNode content = read(fs, definition);
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

    FileSystem fileSystem() {
        return fs;
    }

    /** Returns the directory of the entries whose version divided by 1,000 is a number. */
    Path block(long number) {
        return TaskScan.join(path(), String.format(Locale.ROOT, "%012d", number));
    }

    /** Returns the highest number of a directory of entries; 0 if there is none. */
    long lastBlock() throws IOException {
        List<Long> numbers = numbersIn(path());
        return numbers.isEmpty() ? 0 : numbers.get(0);
    }

    /** Fails if a log without an entry is not there: its first directory is made with it. */
    void checkIsThere() throws IOException {
        if (!fs.exists(block(0))) {
            throw gone(null);
        }
    }

    IOException gone(IOException cause) {
        return new IOException(path() + ": the log of the table, or its end, is gone; restore it", cause);
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

    private JsonNode readable(Path path) {
        try {
            return read(fs, path);
        } catch (IOException e) {
            return null; // A checkpoint decides nothing: the log alone is enough.
        }
    }

    /** Reads the content of a file. */
    static JsonNode read(FileSystem fs, Path path) throws IOException {
        return content(path, JobState.readAll(fs, path));
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

    static IOException damaged(Path path, Exception cause) {
        return new IOException(path + ": is not a file of a table log that this jar can read; restore it"
                + " from soft delete or a snapshot", cause);
    }

    /** Returns the numbers that are names in a directory, the highest first. */
    List<Long> numbersIn(Path parent) throws IOException {
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
