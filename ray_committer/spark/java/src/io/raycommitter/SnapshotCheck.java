package io.raycommitter;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Nil$;

/**
 * Checks that what Spark has listed of a table with a log is one of its versions, and lists it again if
 * it is not.
 *
 * <p>Spark lists one directory after the other. A job can be committed in between, so that the listing
 * lacks some of its new files, or some of the old files that it has removed. A filter cannot notice
 * that. This check runs after the listing and before any row is read.
 */
final class SnapshotCheck {
    private static final int LISTINGS = 10;

    /** What was checked. Two indexes of the same directories are equal, so only identity counts. */
    private static final ArrayDeque<WeakReference<Object>> CHECKED = new ArrayDeque<>();

    /** What Spark has listed of one table, and the directories that it was to list there. */
    private static final class Listing {
        final SnapshotTables.Table table;
        final List<String> files = new ArrayList<>();
        final Set<String> roots = new HashSet<>();

        Listing(SnapshotTables.Table table) {
            this.table = table;
        }

        boolean isOf(TableFiles version) {
            return version.matches(files, roots);
        }
    }

    private SnapshotCheck() {}

    /** Checks what was listed for a relation of an analyzed plan. */
    static void runAnalyzed(SparkSession session, BaseRelation relation, boolean isOfCatalog) {
        if (relation instanceof HadoopFsRelation) {
            FileIndex index = ((HadoopFsRelation) relation).location();
            if (index instanceof PartitioningAwareFileIndex) {
                check(session, (HadoopFsRelation) relation, (PartitioningAwareFileIndex) index, isOfCatalog);
            }
        }
    }

    /** Checks what was listed for a scan, and what Spark is going to list for it. */
    static void runPlanned(SparkSession session, HadoopFsRelation relation, boolean isOfCatalog) {
        if (relation.location() instanceof CatalogFileIndex) {
            check(session, relation, allPartitions(relation.location()), true);
        } else {
            runAnalyzed(session, relation, isOfCatalog);
        }
    }

    private static void check(
            SparkSession session,
            HadoopFsRelation relation,
            PartitioningAwareFileIndex index,
            boolean isOfCatalog) {
        if (isOfCatalog) {
            check(index, current(session, relation, index.hadoopConf()));
        } else if (!isChecked(index.leafFiles())) {
            check(index, index.hadoopConf());
            remember(index.leafFiles());
        }
    }

    /**
     * Returns the settings of a query of a table of the catalog. Spark keeps the listing of such a table
     * for later queries, and with it the version that was set at that time.
     */
    private static Configuration current(
            SparkSession session, HadoopFsRelation relation, Configuration kept) {
        Option<String> ofTable = relation.options().get(SnapshotTables.VERSION);
        String ofAll = DriverContext.get().hadoopConfiguration().get(SnapshotTables.VERSION, "");
        Configuration conf = new Configuration(kept);
        conf.set(SnapshotTables.VERSION, ofTable.isDefined()
                ? ofTable.get()
                : session.conf().get(SnapshotTables.VERSION, ofAll));
        return conf;
    }

    private static void check(PartitioningAwareFileIndex index, Configuration conf) {
        if (!SnapshotFilter.class.getName().equals(conf.get(SnapshotFilter.KEY))) {
            return;
        }
        SnapshotTables tables = new SnapshotTables(conf);
        SnapshotTables.Table torn = torn(index, tables, tables);
        StructType columns = torn == null ? null : index.partitionSchema();
        for (int count = 1; torn != null && count < LISTINGS; count++) {
            SnapshotTables before = tables; // the listing lacks no new file: it begins after this version
            SnapshotFilter.list(before, index::refresh);
            tables = new SnapshotTables(conf);
            if (!index.partitionSchema().equals(columns)) { // Spark keeps those of its first listing
                throw new SnapshotException(torn.path + ": its partition columns have changed while Spark"
                        + " listed it; read it again", null);
            }
            torn = torn(index, before, tables);
        }
        if (torn != null) {
            throw new SnapshotException(torn.path + (SnapshotTables.version(conf) != null
                    ? ": files of version " + torn.files.version + " are gone, because a later job has"
                            + " replaced them; read a later version"
                    : ": holds the files of no version, in " + LISTINGS + " listings: other jobs were"
                            + " committed during each of them, so run the query again; or files are"
                            + " missing, which `ray-committer table scan` shows"),
                    null);
        }
    }

    /**
     * Returns a table of which the index has neither the files of the version before the listing nor those
     * of the version after it; null if there is none. Older versions do not count: a listing that lacks
     * files can be equal to one.
     */
    private static SnapshotTables.Table torn(
            PartitioningAwareFileIndex index, SnapshotTables before, SnapshotTables after) {
        for (Listing listing : listings(index, after)) {
            SnapshotTables.Table earlier = before.of(listing.table.path);
            if (!listing.isOf(listing.table.files)
                    && !(earlier.isTable() && listing.isOf(earlier.files))) {
                return listing.table;
            }
        }
        return null;
    }

    private static Iterable<Listing> listings(
            PartitioningAwareFileIndex index, SnapshotTables tables) {
        Map<String, Listing> found = new HashMap<>();
        for (Iterator<Path> roots = rootPaths(index).iterator(); roots.hasNext(); ) {
            Path root = qualified(roots.next(), index.hadoopConf());
            SnapshotTables.Table table = tables.of(root);
            if (table.isTable()) {
                of(found, table).roots.add(table.relative(root));
            }
        }
        for (Iterator<Path> files = index.leafFiles().keysIterator(); files.hasNext(); ) {
            Path file = files.next();
            SnapshotTables.Table table = tables.of(file.getParent());
            if (table.isTable()) {
                of(found, table).files.add(table.relative(file));
            }
        }
        found.values().forEach(one -> {
            if (one.roots.isEmpty()) {
                one.roots.add(""); // all of the table is below a root
            }
        });
        return found.values();
    }

    private static Listing of(Map<String, Listing> found, SnapshotTables.Table table) {
        return found.computeIfAbsent(table.path.toString(), key -> new Listing(table));
    }

    /** Lists all partitions of a table of a catalog. The query gets this listing from Spark's cache. */
    private static PartitioningAwareFileIndex allPartitions(FileIndex index) {
        Object all = call(index, CatalogFileIndex.class, "filterPartitions", Nil$.MODULE$);
        return (PartitioningAwareFileIndex) all;
    }

    @SuppressWarnings("unchecked")
    private static Seq<Path> rootPaths(FileIndex index) {
        return (Seq<Path>) call(index, FileIndex.class, "rootPaths");
    }

    /** Uses reflection: the types of arguments and results depend on the version of Scala. */
    private static Object call(Object target, Class<?> type, String name, Object... arguments) {
        try {
            for (Method method : type.getMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                    return method.invoke(target, arguments);
                }
            }
        } catch (InvocationTargetException e) {
            throw new SnapshotException(String.valueOf(e.getCause()), e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(type + " has no method " + name);
    }

    private static Path qualified(Path path, Configuration conf) {
        try {
            return path.getFileSystem(conf).makeQualified(path);
        } catch (IOException e) {
            throw new SnapshotException(path + ": " + e.getMessage(), e);
        }
    }

    private static synchronized boolean isChecked(Object files) {
        CHECKED.removeIf(one -> one.get() == null);
        return CHECKED.stream().anyMatch(one -> one.get() == files);
    }

    private static synchronized void remember(Object files) {
        CHECKED.add(new WeakReference<>(files));
    }
}
