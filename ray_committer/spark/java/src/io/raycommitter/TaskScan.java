package io.raycommitter;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * Lists what a task attempt wrote, as the entries of its manifest.
 *
 * <p>One listing a directory and no other store call: sizes, times and etags come with it.
 */
final class TaskScan {
    private final FileSystem fs;
    private final Path dest;
    private final Map<String, Path> destinations;
    private final List<String> files = new ArrayList<>();
    private final List<String> directories = new ArrayList<>();

    private TaskScan(FileSystem fs, Path dest, Map<String, Path> destinations) {
        this.fs = fs;
        this.dest = dest;
        this.destinations = destinations;
    }

    /**
     * Scans a task attempt directory.
     *
     * @param destinations of files in it, by their names; the others go to the same place below
     *     {@code dest} as they have below {@code root}
     * @throws FileNotFoundException if the directory or one of the named files is missing
     */
    static TaskScan of(FileSystem fs, Path dest, Path root, Map<String, Path> destinations)
            throws IOException {
        TaskScan scan = new TaskScan(fs, dest, destinations);
        Set<String> missing = new LinkedHashSet<>(destinations.keySet());
        scan.scanRoot(root, missing);
        if (!missing.isEmpty()) {
            throw new FileNotFoundException(
                    root + ": files that the task wrote are missing: " + missing);
        }
        destinations.values().stream().map(Path::getParent).distinct().forEach(scan::addParent);
        return scan;
    }

    List<String> files() {
        return files;
    }

    List<String> directories() {
        return directories;
    }

    /** Joins by text: the constructor that takes a parent refuses names with a colon. */
    static Path join(Path parent, String relative) {
        URI base = parent.toUri();
        return new Path(
                base.getScheme(), base.getAuthority(), base.getPath() + "/" + relative);
    }

    private void scanRoot(Path root, Set<String> missing) throws IOException {
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(root);
        while (listing.hasNext()) {
            FileStatus status = listing.next();
            String name = status.getPath().getName();
            if (missing.remove(name)) {
                addFile(status, destinations.get(name));
            } else {
                add(status, name, 1);
            }
        }
    }

    private void scanDirectory(Path directory, String relative, int level) throws IOException {
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(directory);
        while (listing.hasNext()) {
            FileStatus status = listing.next();
            add(status, relative + "/" + status.getPath().getName(), level);
        }
    }

    private void add(FileStatus status, String relative, int level) throws IOException {
        Path target = join(dest, relative);
        if (status.isDirectory()) {
            addDirectory(target, level);
            scanDirectory(status.getPath(), relative, level + 1);
        } else {
            addFile(status, target);
        }
    }

    private void addParent(Path directory) {
        addDirectory(directory, Math.max(1, directory.depth() - dest.depth()));
    }

    private void addFile(FileStatus status, Path target) throws IOException {
        String name = status.getPath().getName();
        if (name.startsWith(".") && name.endsWith(".crc")) {
            return; // Checksums of Hadoop's local file system describe the name, not the file.
        }
        Json entry = new Json()
                .put("s", status.getPath().toUri().toString())
                .put("d", target.toUri().toString())
                .put("z", status.getLen())
                .put("m", status.getModificationTime());
        String etag = etagOf(status);
        if (etag != null) {
            entry.put("e", etag);
        }
        files.add(entry.text());
    }

    private void addDirectory(Path target, int level) {
        Json entry = new Json().put("d", target.toUri().toString()).put("t", 0).put("l", level);
        directories.add(entry.text());
    }

    /** Asks by reflection: only newer Hadoop versions and some stores have etags in listings. */
    private static String etagOf(FileStatus status) {
        try {
            Method getter = status.getClass().getMethod("getEtag");
            getter.setAccessible(true);
            Object etag = getter.invoke(status);
            return etag instanceof String && !((String) etag).isEmpty() ? (String) etag : null;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }
}
