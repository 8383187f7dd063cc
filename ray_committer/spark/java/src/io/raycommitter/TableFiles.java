package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The files of a table at one version, without those that readers pass over, and the claims in flight.
 *
 * <p>It holds eight bytes per file, and the number of files in each directory. It does not change.
 */
final class TableFiles implements Serializable {
    private static final long serialVersionUID = 1L;

    final long version;
    final long[] fingerprints; // sorted
    final HashMap<String, Integer> counts;
    final transient Map<Long, JsonNode> inFlight;

    private transient Set<String> directories;

    TableFiles(long version, long[] fingerprints, HashMap<String, Integer> counts,
            Map<Long, JsonNode> inFlight) {
        this.version = version;
        this.fingerprints = fingerprints;
        this.counts = counts;
        this.inFlight = inFlight;
    }

    /** Returns whether the table has this file; the path is relative to the table, as in the log. */
    boolean hasFile(String path) {
        return Arrays.binarySearch(fingerprints, Fingerprint.of(path)) >= 0 && !HiddenNames.isHidden(path);
    }

    /** Returns whether a directory holds files, or has others below it that do. */
    synchronized boolean hasDirectory(String path) {
        if (directories == null) {
            directories = new HashSet<>();
            for (String leaf : counts.keySet()) {
                for (String one = leaf; directories.add(one) && !one.isEmpty(); one = directoryOf(one)) {}
            }
        }
        return directories.contains(path);
    }

    /**
     * Returns whether these are exactly the files of this version below some directories.
     *
     * @param listed paths, relative to the table
     * @param roots directories or files, relative to the table; the empty one is the table
     */
    boolean matches(Iterable<String> listed, Set<String> roots) {
        Map<String, Integer> found = new HashMap<>();
        Set<String> files = new HashSet<>();
        for (String path : listed) {
            if (!HiddenNames.isHidden(path)) {
                if (!hasFile(path)) {
                    return false;
                }
                found.merge(directoryOf(path), 1, Integer::sum);
                if (roots.contains(path)) {
                    files.add(path);
                }
            }
        }
        return counts.entrySet().stream()
                        .filter(one -> isBelow(one.getKey(), roots))
                        .allMatch(one -> one.getValue().equals(found.get(one.getKey())))
                && roots.stream().allMatch(root -> files.contains(root) || !hasFile(root));
    }

    /** Returns the directory of a file or directory; empty for one in the table itself. */
    static String directoryOf(String path) {
        return path.substring(0, Math.max(0, path.lastIndexOf('/')));
    }

    static TableFiles none() {
        return new TableFiles(0, new long[0], new HashMap<>(), Collections.emptyMap());
    }

    private static boolean isBelow(String directory, Set<String> roots) {
        String one = directory;
        while (!roots.contains(one)) {
            if (one.isEmpty()) {
                return false;
            }
            one = directoryOf(one);
        }
        return true;
    }
}
