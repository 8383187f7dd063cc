package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * Lists the files of a task attempt, as the entries of its manifest.
 *
 * <p>It makes one listing per directory and no other store call: sizes, times and etags are in it.
 */
final class TaskScan {
    private final FileSystem fs;
    private final Path dest;
    private final Map<String, Path> destinationsByNumber = new HashMap<>();
    private final List<String> passedOver = new ArrayList<>();
    private final ArrayNode files = JsonNodeFactory.instance.arrayNode();
    private final ArrayNode directories = JsonNodeFactory.instance.arrayNode();

    private TaskScan(FileSystem fs, Path dest, Map<String, Path> destinations) {
        this.fs = fs;
        this.dest = dest;
        destinations.forEach((name, path) -> destinationsByNumber.put(numberOf(name), path));
    }

    /**
     * Scans a task attempt directory.
     *
     * <p>A file that a writer left beside a file of {@code destinations}, with a name that begins with
     * the same number, goes to the same directory as that file. All other files go to the same place
     * below {@code dest} as they have below {@code root}. Files that are not regular are passed over, and
     * hidden names are, unless the task has asked for them.
     *
     * @param asked the names that the task has asked for, but for those of {@code destinations}
     * @param destinations destinations of files in it, by their names: a number, "-", and the final name
     * @throws FileNotFoundException if the directory or one of the named files is missing
     */
    static TaskScan of(
            FileSystem fs, Path dest, Path root, Set<String> asked, Map<String, Path> destinations)
            throws IOException {
        TaskScan scan = new TaskScan(fs, dest, destinations);
        Set<String> missing = new LinkedHashSet<>(destinations.keySet());
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(root);
        while (listing.hasNext()) {
            FileStatus status = listing.next();
            String name = status.getPath().getName();
            boolean isAsked = destinations.containsKey(name) || asked.contains(name);
            if (scan.add(status, name, scan.destinationOf(name), isAsked)) {
                missing.remove(name);
            }
        }
        if (!missing.isEmpty()) {
            throw new FileNotFoundException(root + ": files that the task began are missing: "
                    + missing + "; run the task again, or, if the format leaves out files without"
                    + " rows, set " + SettingNames.COMMIT + "=spark for this write");
        }
        destinations.values().stream().map(Path::getParent).distinct().forEach(scan::addDirectory);
        return scan;
    }

    ArrayNode files() {
        return files;
    }

    ArrayNode directories() {
        return directories;
    }

    /** Returns the paths of what is there and no output, relative to the task attempt's directory. */
    List<String> passedOver() {
        return passedOver;
    }

    /** Joins paths as text: the constructor that takes a parent refuses names with a colon. */
    static Path join(Path parent, String relative) {
        URI base = parent.toUri();
        return new Path(
                base.getScheme(), base.getAuthority(), base.getPath() + "/" + relative);
    }

    private Path destinationOf(String name) {
        String number = numberOf(name);
        Path destination = destinationsByNumber.get(number);
        return destination == null
                ? join(dest, name)
                : join(destination.getParent(), name.substring(number.length() + 1));
    }

    /** Returns the text before the first "-"; empty for a name without one. */
    private static String numberOf(String name) {
        return name.substring(0, Math.max(0, name.indexOf('-')));
    }

    /**
     * Adds a file, or a directory and what is in it.
     *
     * @param isAsked whether the task has asked for it by its name, or for a directory that it is in
     * @return whether it is output
     */
    private boolean add(FileStatus status, String path, Path target, boolean isAsked)
            throws IOException {
        String name = status.getPath().getName();
        if (!status.isDirectory() && name.startsWith(".") && name.endsWith(".crc")) {
            return true; // Checksums of Hadoop's local file system describe the name, not the file.
        }
        boolean isHidden = isAsked
                ? HiddenNames.isOfFileSystem(name)
                : HiddenNames.isPassedOver(path);
        if (isHidden || isSpecial(status)) {
            passedOver.add(path);
            return false;
        }
        if (!status.isDirectory()) {
            addFile(status, target);
            return true;
        }
        addDirectory(target);
        RemoteIterator<FileStatus> listing = fs.listStatusIterator(status.getPath());
        while (listing.hasNext()) {
            FileStatus child = listing.next();
            String below = child.getPath().getName();
            add(child, path + "/" + below, join(target, below), isAsked);
        }
        return true;
    }

    /** Returns whether it is a fifo, a socket or a device, which only local file systems have. */
    private static boolean isSpecial(FileStatus status) throws IOException {
        if (!"file".equals(status.getPath().toUri().getScheme())) {
            return false;
        }
        try {
            File file = new File(status.getPath().toUri().getPath());
            return Files.readAttributes(file.toPath(), BasicFileAttributes.class).isOther();
        } catch (NoSuchFileException | InvalidPathException e) {
            return false; // It vanished, or is a broken link: the commit finds out.
        }
    }

    private void addFile(FileStatus status, Path target) {
        ObjectNode entry = files.addObject()
                .put("s", status.getPath().toUri().toString())
                .put("d", target.toUri().toString())
                .put("z", status.getLen())
                .put("m", status.getModificationTime());
        String etag = etagOf(status);
        if (etag != null) {
            entry.put("e", etag);
        }
    }

    private void addDirectory(Path target) {
        int level = Math.max(1, target.depth() - dest.depth()); // has no meaning outside dest
        directories.addObject().put("d", target.toUri().toString()).put("t", 0).put("l", level);
    }

    /** Uses reflection: only newer Hadoop versions and some stores have etags in listings. */
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
