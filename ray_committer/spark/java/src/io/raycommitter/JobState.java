package io.raycommitter;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The state of a job. Only Python changes it; this class reads it.
 *
 * <p>The state is one name, {@code <phase>.<intent>.<stamp>.<nonce>[.<record>].state}, in its own
 * directory. On stores that do not rename directories, it is the text of the object {@code current}.
 */
final class JobState {
    private static final String SUFFIX = ".state";
    private static final String OBJECT = "current";
    private static final int MIN_PARTS = 4;
    private static final int LOOKS = 8;
    private static final long PAUSE_MILLIS = 2;

    final String phase;
    private final String stamp;
    /** The name of the commit record, without its suffix; null if there is none. */
    final String record;
    /** Whether the state is an object, because the store does not rename directories. */
    final boolean isObject;

    private JobState(String phase, String stamp, String record, boolean isObject) {
        this.phase = phase;
        this.stamp = stamp;
        this.record = record;
        this.isObject = isObject;
    }

    /** Returns whether this is the job with this stamp of its set-up, not another with the same id. */
    boolean isOf(String expected) {
        return stamp.equals(expected);
    }

    boolean isOpen() {
        return phase.equals("open");
    }

    /** Returns whether a committer has declared what the job writes, and nothing is decided yet. */
    boolean isDeclared() {
        return phase.equals("declared");
    }

    /** Returns whether only the job's clean-up is left. */
    boolean isCommitted() {
        return phase.equals("committed");
    }

    /**
     * Reads the state in a directory; null if there is no such directory.
     *
     * <p>A listing that is made while the name changes may show neither of the two names, or both. Then
     * it is repeated; it never counts as "no state".
     */
    static JobState read(FileSystem fs, Path directory) throws IOException {
        for (int look = 0; look < LOOKS; look++) {
            pause(PAUSE_MILLIS * ((1L << look) - 1));
            FileStatus[] listed;
            try {
                listed = fs.listStatus(directory);
            } catch (FileNotFoundException e) {
                return null;
            }
            List<JobState> states = statesIn(fs, listed);
            if (states.size() == 1) {
                return states.get(0);
            }
        }
        throw new IOException(directory + ": holds no state of its job, or several, instead of one;"
                + " run the task again");
    }

    private static List<JobState> statesIn(FileSystem fs, FileStatus[] listed) throws IOException {
        List<JobState> states = new ArrayList<>();
        Path object = null;
        for (FileStatus status : listed) {
            String name = status.getPath().getName();
            if (name.endsWith(SUFFIX)) {
                states.add(parse(name, status.getPath(), false));
            } else if (name.equals(OBJECT)) {
                object = status.getPath();
            }
        }
        if (states.isEmpty() && object != null) {
            try {
                String token = new String(readAll(fs, object), StandardCharsets.UTF_8);
                states.add(parse(token, object, true));
            } catch (FileNotFoundException e) {
                // It was removed after the listing: the next listing shows the state.
            }
        }
        return states;
    }

    private static JobState parse(String token, Path path, boolean isObject) throws IOException {
        String[] parts = token.split("\\.");
        if (!token.endsWith(SUFFIX) || parts.length <= MIN_PARTS) {
            throw new IOException(path + ": " + token + " is not a job state that this version can"
                    + " read; check that driver and executors have the same ray-committer jar");
        }
        String record = parts.length > MIN_PARTS + 1 ? parts[MIN_PARTS] : null;
        return new JobState(parts[0], parts[2], record, isObject);
    }

    /** Reads a small file. */
    static byte[] readAll(FileSystem fs, Path path) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] buffer = new byte[8 * 1024];
        try (InputStream in = fs.open(path)) {
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                all.write(buffer, 0, n);
            }
        }
        return all.toByteArray();
    }

    static void pause(long millis) throws InterruptedIOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted during a pause between requests");
        }
    }
}
