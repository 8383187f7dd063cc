package io.raycommitter;

import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.Path;

/**
 * Refuses names on local file systems that this JVM cannot write as UTF-8.
 *
 * <p>A JVM that was started with LC_ALL=POSIX has {@code ?} in the place of other letters, in the names
 * that it writes and in those that it lists. The commit writes UTF-8, which such a JVM does not find.
 */
final class FileNames {
    private static final String ENCODING = "sun.jnu.encoding";
    private static final char LAST_ASCII = 127;

    private FileNames() {}

    /** Returns whether this JVM writes and lists all names as UTF-8. */
    static boolean areUtf8() {
        return Charset.forName(encoding()).equals(StandardCharsets.UTF_8);
    }

    /** Checks a path that this JVM, and the driver's, will have to find. */
    static void require(Path path, boolean areUtf8InDriver) throws IOException {
        boolean isLocal = "file".equals(path.toUri().getScheme());
        if (!isLocal || isAscii(path.toUri().getPath()) || areUtf8InDriver && areUtf8()) {
            return;
        }
        String jvm = areUtf8InDriver ? "this JVM, where they are " + encoding() : "the driver's JVM";
        throw new IOException("ray_committer: " + path + ": names of files are not UTF-8 in " + jvm
                + " (" + ENCODING + "), so Spark would not find this one after its commit, and nothing was"
                + " written there; start the driver with LC_ALL=C.UTF-8 and"
                + " spark.executorEnv.LC_ALL=C.UTF-8");
    }

    private static String encoding() {
        return System.getProperty(ENCODING, StandardCharsets.UTF_8.name());
    }

    private static boolean isAscii(String text) {
        return text.chars().allMatch(letter -> letter <= LAST_ASCII);
    }
}
