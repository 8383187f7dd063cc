package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableSet;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;

/**
 * One look at the files of a log, each of which holds one entry or several: each directory is listed once,
 * and each file is read once.
 *
 * <p>As {@code LogFiles} of {@code tables/log.py}. Versions of which files are named are those of their
 * first entries.
 */
final class LogFiles {
    private static final int BLOCK = 1_000;

    private final TableLog log;
    private final Map<Long, TreeSet<Long>> names = new HashMap<>();
    private final Map<Long, List<JsonNode>> files = new ConcurrentHashMap<>();

    LogFiles(TableLog log) {
        this.log = log;
    }

    /** Returns the last version of the log; {@code known} is a version that was seen before, or 0. */
    long head(long known) throws IOException {
        long block = known / BLOCK;
        long last = endOfBlock(block);
        if (last % BLOCK == BLOCK - 1) {
            block = Math.max(block, log.lastBlock());
            last = Math.max(endOfBlock(block), block * BLOCK - 1);
        }
        if (last < known) {
            last = end(holder(known));
        }
        if (last == 0) {
            log.checkIsThere();
        }
        return last;
    }

    /** Reads the entries after a version, up to another one, in order. */
    List<JsonNode> entries(long since, long until) throws IOException {
        List<JsonNode> found = new ArrayList<>();
        long version = since + 1;
        if (since > 0 && !names(since / BLOCK).contains(version)) {
            long start = holder(since);
            List<JsonNode> file = file(start);
            found.addAll(file.subList((int) (version - start), file.size()));
            version = start + file.size();
        }
        while (version <= until) {
            long block = version / BLOCK;
            long last = Math.min(until, block * BLOCK + BLOCK - 1);
            readAll(names(block).subSet(version, true, last, true));
            while (version <= last) {
                List<JsonNode> file = file(version);
                found.addAll(file);
                version += file.size();
            }
        }
        return found.subList(0, (int) (until - since));
    }

    private void readAll(NavigableSet<Long> starts) throws IOException {
        List<SideBySide.Request<List<JsonNode>>> requests = new ArrayList<>();
        starts.stream()
                .filter(start -> !files.containsKey(start))
                .forEach(start -> requests.add(() -> file(start)));
        SideBySide.all(requests);
    }

    /** Returns the first version of the file that holds a version. */
    private long holder(long version) throws IOException {
        Long start = names(version / BLOCK).floor(version);
        if (start != null && end(start) >= version) {
            return start;
        }
        try {
            file(version);
        } catch (IOException e) {
            throw e.getCause() instanceof FileNotFoundException ? log.gone(e) : e;
        }
        return version;
    }

    private long endOfBlock(long block) throws IOException {
        TreeSet<Long> there = names(block);
        return there.isEmpty() ? 0 : end(there.last());
    }

    private long end(long start) throws IOException {
        return start + file(start).size() - 1;
    }

    private List<JsonNode> file(long start) throws IOException {
        List<JsonNode> found = files.get(start);
        if (found == null) {
            found = read(start);
            files.put(start, found);
        }
        return found;
    }

    /** Reads a file; it fails if the file holds the place of another one. */
    private List<JsonNode> read(long start) throws IOException {
        Path path = path(start);
        List<JsonNode> found = new ArrayList<>();
        try {
            JsonNode content = TableLog.read(log.fileSystem(), path);
            if (content.isObject()) {
                found.add(content);
            } else {
                content.forEach(found::add);
            }
        } catch (FileNotFoundException e) {
            throw new IOException(
                    path + ": is missing, although later entries of the log are there; restore it", e);
        }
        Long next = names(start / BLOCK).higher(start);
        boolean isTooLong = found.isEmpty() || start % BLOCK + found.size() > BLOCK;
        if (isTooLong || next != null && next < start + found.size()) {
            throw TableLog.damaged(path, null);
        }
        return found;
    }

    private Path path(long start) {
        String name = String.format(Locale.ROOT, "%03d", start % BLOCK);
        return TaskScan.join(log.block(start / BLOCK), name + TableLog.SUFFIX);
    }

    private synchronized TreeSet<Long> names(long block) throws IOException {
        TreeSet<Long> found = names.get(block);
        if (found == null) {
            found = new TreeSet<>();
            for (long number : log.numbersIn(log.block(block))) {
                found.add(block * BLOCK + number);
            }
            names.put(block, found);
        }
        return found;
    }
}
