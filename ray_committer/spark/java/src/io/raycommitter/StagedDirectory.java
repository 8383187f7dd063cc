package io.raycommitter;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/** What one task attempt has in a directory that all tasks of its job share. */
final class StagedDirectory {
    /** Names in one answer of a store. */
    private static final int PAGE = 1000;
    private static final String MODE = "unix:mode";
    /** The bits of the type of a file, and of what everybody may do. */
    private static final int TYPE = 0170000;
    private static final int ALL = 0777;

    private final FileSystem fs;
    final Path source;
    /** The directory that the job's commit moves the files to. */
    final Path target;
    private final String token;
    /** The names of the files that the task has begun. */
    final Set<String> begun = new TreeSet<>();
    /** What the looks have found. */
    final List<FileStatus> found = Collections.synchronizedList(new ArrayList<>());

    StagedDirectory(FileSystem fs, Path source, Path target, String token) {
        this.fs = fs;
        this.source = source;
        this.target = target;
        this.token = token;
    }

    /**
     * Makes a directory on a local disk with the mode that Hadoop gives it. Without its native library
     * Hadoop starts a process (chmod) for each; what is there it leaves as it is.
     */
    void makeLocal() {
        if (!(fs instanceof LocalFileSystem) || NativeIO.isAvailable()) {
            return;
        }
        FsPermission umask = FsPermission.getUMask(fs.getConf());
        int wanted = FsPermission.getDirDefault().applyUMask(umask).toShort();
        java.nio.file.Path directory = Paths.get(source.toUri().getPath());
        try {
            Files.createDirectory(directory);
            int mode = (Integer) Files.getAttribute(directory, MODE) & ~TYPE;
            if ((mode & ALL) != wanted) {
                Files.setAttribute(directory, MODE, (mode & ~ALL) | wanted);
            }
        } catch (IOException | UnsupportedOperationException e) {
            // It is there, or Hadoop makes it with the first file and says why it cannot.
        }
    }

    /** Finds all files of the attempt by a listing, or returns false: then each needs a request. */
    boolean find() throws IOException {
        // Hadoop's own file system of local disks makes several requests for each name that it lists.
        if (fs instanceof LocalFileSystem) {
            String[] names = new File(source.toUri().getPath()).list();
            for (String name : names == null ? new String[0] : names) {
                if (isOwn(name)) {
                    find(name);
                }
            }
            return true;
        }
        // Pages come one after the other; in the time of one, many files are asked for.
        int most = PAGE * (1 + begun.size() / SideBySide.THREADS);
        List<FileStatus> listed = list(fs, source, most);
        if (listed.size() == most) {
            return false;
        }
        listed.removeIf(status -> !isOwn(status.getPath().getName()));
        found.addAll(listed);
        return true;
    }

    /** Finds one file, and returns whether it is there. */
    boolean find(String name) throws IOException {
        try {
            return found.add(fs.getFileStatus(TaskScan.join(source, name)));
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    private boolean isOwn(String name) {
        return Staging.isOf(name, token) && !TaskScan.isChecksum(name);
    }

    /** Returns the first names of a directory; none if there is no directory. */
    static List<FileStatus> list(FileSystem fs, Path directory, int most) throws IOException {
        List<FileStatus> listed = new ArrayList<>();
        try {
            RemoteIterator<FileStatus> listing = fs.listStatusIterator(directory);
            while (listed.size() < most && listing.hasNext()) {
                listed.add(listing.next());
            }
        } catch (FileNotFoundException e) {
            // Nothing was written there.
        }
        return listed;
    }
}
