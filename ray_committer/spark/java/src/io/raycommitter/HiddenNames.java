package io.raycommitter;

import java.util.Arrays;
import java.util.List;

/**
 * The names of files and directories that are not data, although a listing shows them.
 *
 * <p>As {@code protocol/hidden_names.py}; {@code tests/data/hidden_names.json} holds examples for both.
 */
public final class HiddenNames {
    private static final String[] SUMMARIES = {"_metadata", "_common_metadata"};
    private static final String[] REMOVED_BUT_OPEN = {".nfs", ".fuse_hidden", ".smbdelete", ".__smb"};
    private static final List<String> DIRECTORIES = Arrays.asList(
            ".snapshot", ".snapshots", ".snap", "~snapshot", ".zfs", ".glusterfs", "lost+found");

    private HiddenNames() {}

    /** Returns whether readers of directories pass over a file, by its path in the table. */
    public static boolean isHidden(String path) {
        return Arrays.stream(path.split("/")).anyMatch(HiddenNames::isHiddenName);
    }

    /**
     * Returns whether a file that is only found in a task attempt's directory is no output, by its path
     * there. Parquet's summary files are output, although they hold no rows.
     */
    public static boolean isPassedOver(String path) {
        return Arrays.stream(path.split("/")).anyMatch(name ->
                isOfFileSystem(name) || isHiddenName(name) && !startsWith(name, SUMMARIES));
    }

    /** Returns whether a file system made this name itself. */
    public static boolean isOfFileSystem(String name) {
        return startsWith(name, REMOVED_BUT_OPEN) || DIRECTORIES.contains(name);
    }

    private static boolean isHiddenName(String name) {
        return name.startsWith(".") || name.endsWith("._COPYING_")
                || name.startsWith("_") && !name.contains("=");
    }

    private static boolean startsWith(String name, String[] prefixes) {
        return Arrays.stream(prefixes).anyMatch(name::startsWith);
    }
}
