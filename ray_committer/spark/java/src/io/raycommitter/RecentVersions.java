package io.raycommitter;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/** Keeps the versions of tables that this JVM has read last: a later one needs only the entries since. */
final class RecentVersions {
    private static final int MOST = 8;

    private static final LinkedHashMap<String, Map<Long, TableFiles>> BY_TABLE = new LinkedHashMap<>();

    private RecentVersions() {}

    /** Reads the files of a table at a version, or at the last one. */
    static synchronized TableFiles read(TableLog log, Long version) throws IOException {
        Map<Long, TableFiles> known = BY_TABLE.remove(log.key());
        known = known == null ? new LinkedHashMap<>() : known;
        BY_TABLE.put(log.key(), known); // the last one is the one that was used last
        TableFiles found = version == null ? null : known.remove(version);
        if (found == null) {
            found = readFrom(log, baseOf(known, version), version);
            known.remove(found.version);
        }
        known.put(found.version, found);
        dropOldest();
        return found;
    }

    private static TableFiles readFrom(TableLog log, TableFiles base, Long version) throws IOException {
        long head = log.files.head(base == null ? 0 : base.version);
        if (version != null && version > head) {
            throw new IOException(log.path() + ": has no version " + version + ", the last one is " + head);
        }
        long wanted = version == null ? head : version;
        if (base == null) {
            return TableReplay.fromCheckpoint(log, wanted);
        }
        return base.version == wanted ? base : TableReplay.follow(log, base, wanted);
    }

    private static TableFiles baseOf(Map<Long, TableFiles> known, Long version) {
        return known.values().stream()
                .filter(one -> version == null || one.version <= version)
                .max((left, right) -> Long.compare(left.version, right.version))
                .orElse(null);
    }

    private static void dropOldest() {
        int count = BY_TABLE.values().stream().mapToInt(Map::size).sum();
        if (count > MOST) {
            Map<Long, TableFiles> oldest = BY_TABLE.values().iterator().next();
            oldest.remove(oldest.keySet().iterator().next());
            BY_TABLE.values().removeIf(Map::isEmpty);
        }
    }
}
