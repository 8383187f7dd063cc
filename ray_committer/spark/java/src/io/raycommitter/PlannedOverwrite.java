package io.raycommitter;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.runtime.BoxedUnit;

/**
 * Finds the directory that an overwrite replaces, also if it does not exist yet.
 *
 * <p>Spark calls {@code deleteWithJob} only for a directory that exists when the write begins. Another job
 * can write there before this one is committed, so the directory is taken from the plan of the query.
 */
final class PlannedOverwrite {
    private static final Logger LOG = LoggerFactory.getLogger(PlannedOverwrite.class);

    private static final String QUERY = "spark.sql.execution.id";

    private PlannedOverwrite() {}

    /**
     * Returns the directory that a write to {@code path} replaces if it is not a dynamic partition
     * overwrite: {@code dest}, or a partition of it.
     *
     * <p>Called in the thread of the write. Returns null if the write replaces nothing, or if that is not
     * known: no query of this thread writes there, or one writes there twice. Throws nothing.
     */
    static Path find(String path, Path dest) {
        try {
            List<InsertIntoHadoopFsRelationCommand> found = commands(path);
            return found.size() == 1 ? replacedBy(found.get(0), dest) : null;
        } catch (LinkageError | ReflectiveOperationException | RuntimeException e) {
            LOG.warn("ray_committer: " + path + ": this version of Spark does not show whether the write"
                    + " replaces data, so data that others write there before its commit stays", e);
            return null;
        }
    }

    private static List<InsertIntoHadoopFsRelationCommand> commands(String path) {
        List<InsertIntoHadoopFsRelationCommand> found = new ArrayList<>();
        String id = new JavaSparkContext(DriverContext.get()).getLocalProperty(QUERY);
        QueryExecution query = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
        if (query != null) {
            query.analyzed().foreach(node -> {
                if (node instanceof InsertIntoHadoopFsRelationCommand) {
                    found.add((InsertIntoHadoopFsRelationCommand) node);
                }
                return BoxedUnit.UNIT;
            });
        }
        found.removeIf(command -> !command.outputPath().toString().equals(path));
        return found;
    }

    /** {@code IF NOT EXISTS} must not replace what appears after Spark has looked. */
    private static Path replacedBy(InsertIntoHadoopFsRelationCommand command, Path dest)
            throws ReflectiveOperationException {
        if (command.mode() != SaveMode.Overwrite || command.ifPartitionNotExists()) {
            return null;
        }
        String partition = staticPartition(command);
        return partition.isEmpty() ? dest : TaskScan.join(dest, partition);
    }

    /** Uses reflection: the type of the columns is another Seq in Scala 2.12 than in 2.13. */
    private static String staticPartition(InsertIntoHadoopFsRelationCommand command)
            throws ReflectiveOperationException {
        List<String> directories = new ArrayList<>();
        Object columns = command.getClass().getMethod("partitionColumns").invoke(command);
        Iterator<?> column = ((Seq<?>) columns).iterator();
        while (column.hasNext()) {
            String name = ((NamedExpression) column.next()).name();
            Option<String> value = command.staticPartitions().get(name);
            if (value.isDefined()) {
                directories.add(ExternalCatalogUtils.getPartitionPathString(name, value.get()));
            }
        }
        return String.join("/", directories);
    }
}
