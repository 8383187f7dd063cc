package io.raycommitter;

import java.io.Serializable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;

/**
 * Lets readers of directories see the files of one version of a table with a log, and no others.
 *
 * <p>Set it with {@code spark.hadoop.mapreduce.input.pathFilter.class}. Spark makes one filter per
 * listing. It calls {@code accept} in the driver, or in tasks if it lists more than 32 directories. Then
 * it sends the filter to the tasks before it has shown a path to it. At this moment, the description of
 * its job names the first directory, from which the driver finds the table. All other paths pass.
 *
 * <p>A filter sees only what is listed. {@link SnapshotExtensions} checks that no file was missing.
 */
public final class SnapshotFilter implements PathFilter, Configurable, Serializable {
    static final String KEY = "mapreduce.input.pathFilter.class";

    private static final long serialVersionUID = 1L;
    private static final String DESCRIPTION = "spark.job.description";
    private static final Pattern LISTING = Pattern.compile(
            "Listing leaf files and directories for \\d+ paths?:<br/>(.*?)(, \\.\\.\\.)?");

    /** The versions for the next listing of a thread, which are known before it begins. */
    private static final ThreadLocal<SnapshotTables> NEXT = new ThreadLocal<>();

    private transient SnapshotTables tables;
    private transient Configuration conf;
    private transient Broadcast<SnapshotTables> sent;
    private transient int sentSize;

    @Override
    public void setConf(Configuration configuration) {
        conf = configuration;
        SnapshotTables given = NEXT.get();
        tables = given == null && configuration != null ? new SnapshotTables(configuration) : given;
    }

    /** Runs a listing with these tables at their versions. */
    static void list(SnapshotTables tables, Runnable listing) {
        NEXT.set(tables);
        try {
            listing.run();
        } finally {
            NEXT.remove();
        }
    }

    @Override
    public Configuration getConf() {
        return conf;
    }

    @Override
    public boolean accept(Path path) {
        return accepts(tables, path);
    }

    private static boolean accepts(SnapshotTables tables, Path path) {
        Path parent = path.getParent();
        SnapshotTables.Table table = parent == null ? SnapshotTables.Table.NONE : tables.of(parent);
        if (!table.isTable()) {
            return true;
        }
        String relative = table.relative(path);
        return table.files.hasFile(relative) || table.files.hasDirectory(relative);
    }

    /** Called by Java's serialization: what the tasks get is sent once to each executor. */
    private synchronized Object writeReplace() {
        JavaSparkContext spark = new JavaSparkContext(DriverContext.get());
        String description = spark.getLocalProperty(DESCRIPTION);
        Matcher listing = LISTING.matcher(description == null ? "" : description);
        try {
            if (listing.matches()) {
                tables.of(new Path(listing.group(1)));
            }
        } catch (SnapshotException e) {
            return new InTask(null, e); // Spark would only say that the filter cannot be sent.
        }
        if (sent == null || sentSize != tables.size()) {
            sentSize = tables.size();
            sent = spark.broadcast(tables);
        }
        return new InTask(sent, null);
    }

    /** The filter in a task. */
    private static final class InTask implements PathFilter, Serializable {
        private static final long serialVersionUID = 1L;

        private final Broadcast<SnapshotTables> tables;

        private final SnapshotException failure;

        InTask(Broadcast<SnapshotTables> tables, SnapshotException failure) {
            this.tables = tables;
            this.failure = failure;
        }

        @Override
        public boolean accept(Path path) {
            if (failure != null) {
                throw failure;
            }
            return accepts(tables.value(), path);
        }
    }
}
