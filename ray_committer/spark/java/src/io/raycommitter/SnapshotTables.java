package io.raycommitter;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.HashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Finds the table with a log that a path is in, and reads each table at one version.
 *
 * <p>The version is the head when a path of the table is first looked up, or the one of the setting
 * {@link #VERSION}. A copy of this object knows the same tables at the same versions. It does not choose
 * the version of another table: two copies could choose different ones.
 */
final class SnapshotTables implements Serializable {
    static final String VERSION = "ray_committer.snapshot.version";

    private static final long serialVersionUID = 1L;

    /** A table at a version; without files for a directory that is in no table. */
    static final class Table implements Serializable {
        static final Table NONE = new Table(null, null);

        private static final long serialVersionUID = 1L;

        final Path path;
        final TableFiles files;
        private final String prefix;

        Table(Path path, TableFiles files) {
            this.path = path;
            this.files = files;
            this.prefix = path == null ? null : path.toUri().getPath();
        }

        boolean isTable() {
            return files != null;
        }

        /** Returns a path below the table as the log names it; empty for the table itself. */
        String relative(Path path) {
            String text = path.toUri().getPath();
            return text.length() <= prefix.length() ? "" : text.substring(prefix.length() + 1);
        }
    }

    private transient Configuration conf;
    private transient boolean isCopy;
    private final HashMap<String, Table> byDirectory = new HashMap<>();

    SnapshotTables(Configuration conf) {
        this.conf = conf;
    }

    /** Returns the table that a directory is or is in. */
    synchronized Table of(Path directory) {
        String key = directory.toString();
        Table found = byDirectory.get(key);
        if (found == null) {
            Path parent = directory.getParent();
            found = isPartition(directory) && parent != null ? Table.NONE : at(directory);
            if (!found.isTable() && parent != null) {
                found = of(parent);
            }
            byDirectory.put(key, found);
        }
        return found;
    }

    /** Returns how many directories were looked up. */
    synchronized int size() {
        return byDirectory.size();
    }

    /** Returns the version that the setting names; null if there is none. */
    static Long version(Configuration conf) {
        String set = conf.getRaw(VERSION); // without variables, which can stand for secrets
        String text = set == null ? "" : set.trim();
        if (!text.isEmpty() && !text.matches("[0-9]{1,18}")) {
            throw new IllegalArgumentException(VERSION + "=" + text + ": is not a version;"
                    + " `ray-committer history DEST` shows the versions of a table");
        }
        return text.isEmpty() ? null : Long.valueOf(text);
    }

    /** A directory that is named like one of a partition is no table: most data has thousands. */
    private static boolean isPartition(Path directory) {
        return directory.getName().contains("=");
    }

    private Table at(Path directory) {
        try {
            TableLog log = TableLog.at(directory.getFileSystem(conf), directory);
            if (log == null) {
                return Table.NONE;
            }
            Long version = version(conf);
            if (isCopy && version == null) {
                throw new IOException(directory + ": is a table with a log of which the driver has chosen"
                        + " no version before it listed the files in tasks; read it by its own directory,"
                        + " or read a fixed version with the option " + VERSION);
            }
            return new Table(directory, RecentVersions.read(log, version));
        } catch (IOException e) {
            throw new SnapshotException(e.getMessage(), e);
        }
    }

    private synchronized void writeObject(ObjectOutputStream out) throws IOException {
        out.defaultWriteObject();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        conf.write(new DataOutputStream(bytes));
        out.writeObject(bytes.toByteArray());
    }

    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
        in.defaultReadObject();
        conf = new Configuration(false);
        conf.readFields(new DataInputStream(new ByteArrayInputStream((byte[]) in.readObject())));
        isCopy = true;
    }
}
