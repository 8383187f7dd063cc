package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.LongStream;

/**
 * Follows the log of a table from one version to a later one.
 *
 * <p>As {@code follow} of {@code protocol/table_state.py} and {@code changes_of} of
 * {@code tables/checkpoint.py}.
 */
final class TableReplay {
    private final TableLog log;
    private final TableFiles base;
    private final HashMap<String, Integer> counts;
    private final TreeMap<Long, JsonNode> inFlight;
    private final Map<Long, Boolean> changes = new HashMap<>(); // whether each file is there now

    private TableReplay(TableLog log, TableFiles base) {
        this.log = log;
        this.base = base;
        this.counts = new HashMap<>(base.counts);
        this.inFlight = new TreeMap<>(base.inFlight);
    }

    /** Reads the files at a version from a checkpoint and the entries after it. */
    static TableFiles fromCheckpoint(TableLog log, long version) throws IOException {
        for (long until = version; ; ) {
            JsonNode checkpoint = log.checkpoint(until);
            if (checkpoint == null) {
                return follow(log, TableFiles.none(), version);
            }
            long at = checkpoint.path("state").path("version").asLong();
            TableFiles base;
            try {
                base = of(log, checkpoint, at);
            } catch (IOException e) {
                until = at - 1; // A part is damaged or missing: an older one, or the log, is enough.
                continue;
            }
            return follow(log, base, version);
        }
    }

    /** Returns the files at a version from those at an earlier one. */
    static TableFiles follow(TableLog log, TableFiles base, long version) throws IOException {
        TableReplay replay = new TableReplay(log, base);
        long at = base.version;
        for (JsonNode entry : log.files.entries(base.version, version)) {
            replay.add(++at, entry);
        }
        return replay.files(version);
    }

    private static TableFiles of(TableLog log, JsonNode checkpoint, long version) throws IOException {
        LongStream.Builder fingerprints = LongStream.builder();
        HashMap<String, Integer> counts = new HashMap<>();
        for (JsonNode part : checkpoint.path("parts")) {
            log.readPart(part, path -> {
                if (!HiddenNames.isHidden(path)) {
                    fingerprints.add(Fingerprint.of(path));
                    counts.merge(TableFiles.directoryOf(path), 1, Integer::sum);
                }
            });
        }
        Map<Long, JsonNode> inFlight = new TreeMap<>();
        for (JsonNode one : checkpoint.path("state").path("in_flight")) {
            if (one.path("committed").asLong() == 0) { // null: the files of others are in the parts
                inFlight.put(one.path("version").asLong(), one.path("claim"));
            }
        }
        long[] sorted = fingerprints.build().sorted().toArray();
        return new TableFiles(version, sorted, counts, inFlight);
    }

    /** An entry about a claim that is not in flight changes nothing. */
    private void add(long version, JsonNode entry) throws IOException {
        String type = entry.path("type").asText();
        if (type.equals("claim")) {
            inFlight.put(version, entry);
            return;
        }
        JsonNode claim = inFlight.remove(entry.path("claim").asLong());
        if (claim != null && type.equals("commit")) {
            log.readFileSet(entry.path("removed"), claim, this::removeFile);
            log.readFileSet(claim.path("files"), claim, this::addFile);
            inFlight.values().removeIf(other -> attemptOf(other).equals(attemptOf(claim)));
        }
    }

    private static String attemptOf(JsonNode claim) {
        return claim.path("job_id").asText() + "/" + claim.path("job_attempt").asText() + "/"
                + claim.path("nonce").asText();
    }

    private void addFile(String path) {
        change(path, true);
    }

    private void removeFile(String path) {
        change(path, false);
    }

    private void change(String path, boolean isThere) {
        if (HiddenNames.isHidden(path)) {
            return;
        }
        long fingerprint = Fingerprint.of(path);
        Boolean changed = changes.put(fingerprint, isThere);
        boolean wasThere = changed == null ? isInBase(fingerprint) : changed;
        if (wasThere != isThere) {
            counts.merge(TableFiles.directoryOf(path), isThere ? 1 : -1, TableReplay::sumOrNone);
        }
    }

    private static Integer sumOrNone(int left, int right) {
        return left + right == 0 ? null : left + right;
    }

    private boolean isInBase(long fingerprint) {
        return Arrays.binarySearch(base.fingerprints, fingerprint) >= 0;
    }

    private TableFiles files(long version) {
        LongStream kept = Arrays.stream(base.fingerprints).filter(one -> !changes.containsKey(one));
        LongStream there = changes.entrySet().stream().filter(Map.Entry::getValue)
                .mapToLong(Map.Entry::getKey);
        long[] all = changes.isEmpty()
                ? base.fingerprints
                : LongStream.concat(kept, there).sorted().toArray();
        return new TableFiles(version, all, counts, inFlight);
    }
}
