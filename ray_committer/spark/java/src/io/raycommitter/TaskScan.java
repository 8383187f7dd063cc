package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * The entries of a task attempt's manifest: its files, and the directories that the job's commit needs.
 *
 * <p>Files that are not regular are passed over, and hidden names are, unless the task has asked for them.
 */
final class TaskScan {
    private final FileSystem fs;
    private final Path dest;
    private final Set<Path> targets = new HashSet<>();
    final ArrayNode files = JsonNodeFactory.instance.arrayNode();
    final ArrayNode directories = JsonNodeFactory.instance.arrayNode();
    /** The names of what is there and no output. */
    final List<String> passedOver = new ArrayList<>();

    TaskScan(FileSystem fs, Path dest) {
        this.fs = fs;
        this.dest = dest;
    }

    /** Joins paths as text: the constructor that takes a parent refuses names with a colon. */
    static Path join(Path parent, String relative) {
        URI base = parent.toUri();
        return new Path(
                base.getScheme(), base.getAuthority(), base.getPath() + "/" + relative);
    }

    /** Returns whether a file is a checksum of Hadoop's local file system, which is of a name, not a file. */
    static boolean isChecksum(String name) {
        return name.startsWith(".") && name.endsWith(".crc");
    }

    /**
     * Adds a file, or a directory and what is in it.
     *
     * @param path its name where the task wrote it, for the report if it is passed over
     * @param isAsked whether the task has asked for it by its name, or for a directory that it is in
     * @return whether it is output
     */
    boolean add(FileStatus status, String path, Path target, boolean isAsked)
            throws IOException {
        String name = status.getPath().getName();
        if (!status.isDirectory() && isChecksum(name)) {
            return true;
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

    /** Adds a directory into which files go; the destination itself is always there. */
    void addTarget(Path target) {
        if (!target.equals(dest) && targets.add(target)) {
            addDirectory(target);
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
