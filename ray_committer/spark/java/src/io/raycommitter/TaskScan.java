package io.raycommitter;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
    /** Holds the files for absolute destinations; a partition directory has a '=' in its name. */
    static final String ABSOLUTE = "_absolute";

    private final FileSystem fs;
    private final Path dest;
    private final List<String> files = new ArrayList<>();
    private final List<String> directories = new ArrayList<>();

    private TaskScan(FileSystem fs, Path dest) {
        this.fs = fs;
        this.dest = dest;
    }

    /**
     * Scans a task attempt directory.
     *
     * @param absoluteFiles destinations of the files in {@link #ABSOLUTE}, by their names there
     * @throws FileNotFoundException if the directory or one of the absolute files is missing
     */
    static TaskScan of(FileSystem fs, Path dest, Path root, Map<String, Path> absoluteFiles)
            throws IOException {
        TaskScan scan = new TaskScan(fs, dest);
        scan.scanDirectory(root, "", 1);
        if (!absoluteFiles.isEmpty()) {
            scan.scanAbsolute(new Path(root, ABSOLUTE), absoluteFiles);
        }
        return scan;
    }

    List<String> files() {
        return files;
    }

    List<String> directories() {
        return directories;
    }

    private void scanDirectory(Path directory, String relative, int level) throws IOException {
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(directory);
        while (listing.hasNext()) {
            FileStatus status = listing.next();
            String name = status.getPath().getName();
            Path target = target(relative + "/" + name);
            if (!status.isDirectory()) {
                addFile(status, target);
            } else if (level > 1 || !name.equals(ABSOLUTE)) {
                addDirectory(target, level);
                scanDirectory(status.getPath(), relative + "/" + name, level + 1);
            }
        }
    }

    private void scanAbsolute(Path directory, Map<String, Path> destinations) throws IOException {
        Map<String, Path> missing = new HashMap<>(destinations);
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(directory);
        while (listing.hasNext()) {
            FileStatus status = listing.next();
            Path target = missing.remove(status.getPath().getName());
            if (target != null) {
                addFile(status, target);
            }
        }
        if (!missing.isEmpty()) {
            throw new FileNotFoundException(
                    directory + ": files that the task wrote are missing: " + missing.keySet());
        }
        destinations.values().stream()
                .map(Path::getParent)
                .distinct()
                .forEach(parent -> addDirectory(parent, 1));
    }

    /** Joins by text: the constructor that takes a parent refuses names with a colon. */
    private Path target(String relative) {
        URI base = dest.toUri();
        return new Path(base.getScheme(), base.getAuthority(), base.getPath() + relative);
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
