package io.raycommitter;

import java.net.URI;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/**
 * The names of the directories that all tasks of a job share, each for one directory of the output.
 *
 * <p>As {@code protocol/staging.py}; {@code tests/data/staging.json} holds examples for both.
 */
public final class Staging {
    private static final int KEY_LENGTH = 32;
    private static final int ROOTS = 64;
    private static final Pattern TOKEN = Pattern.compile("-[0-9a-f]{16}(?=[._-]|\\z)");

    private Staging() {}

    /** Returns the staged directory of a directory, relative to {@code tasks}. */
    public static String directoryOf(Path directory, Path dest, TaskAttemptID attempt) {
        String relative = relative(directory, dest);
        if ("".equals(relative)) {
            return String.format(Locale.ROOT, "root/%02d", attempt.getTaskID().getId() % ROOTS);
        }
        String place = relative == null ? uriOf(directory) : relative;
        return "in/" + TaskManifestWriter.sha256(place).substring(0, KEY_LENGTH);
    }

    /** Returns whether the commit finds the numbers in an attempt's id: Hadoop writes those of the locale. */
    public static boolean hasToken(String taskAttemptId) {
        return taskAttemptId.matches("(?s)attempt_.+_[mr]_[0-9]{6,}_[0-9]+");
    }

    /** Returns what names of an attempt's files have in them, and no others. */
    public static String tokenOf(TaskAttemptID attempt) {
        return String.format(Locale.ROOT, "-%08x%08x", attempt.getTaskID().getId(), attempt.getId());
    }

    /** Returns the end of a file's name, with the token before it. */
    static String suffixed(TaskAttemptID attempt, String suffix) {
        boolean isApart = suffix.isEmpty() || "._-".indexOf(suffix.charAt(0)) >= 0;
        return tokenOf(attempt) + (isApart ? "" : "-") + suffix;
    }

    /** Returns whether the first token in the name of a file is that of an attempt. */
    public static boolean isOf(String name, String token) {
        Matcher first = TOKEN.matcher(name);
        return first.find() && first.group().equals(token);
    }

    /** Returns the path of a directory below the destination, empty for itself; null if it is outside. */
    static String relative(Path directory, Path dest) {
        String path = directory.toUri().getPath();
        String base = dest.toUri().getPath();
        String above = base.endsWith("/") ? base : base + "/";
        boolean isInside = storeOf(directory).equals(storeOf(dest))
                && (path.equals(base) || path.startsWith(above));
        return isInside ? path.substring(Math.min(path.length(), above.length())) : null;
    }

    private static String uriOf(Path path) {
        return storeOf(path) + path.toUri().getRawPath();
    }

    /** Returns the part of a URI before the path; Hadoop writes local ones with slashes or without. */
    private static String storeOf(Path path) {
        URI uri = path.toUri();
        boolean isNamed = uri.getAuthority() != null && !uri.getAuthority().isEmpty();
        return uri.getScheme() + ":" + (isNamed ? "//" + uri.getAuthority() : "");
    }
}
