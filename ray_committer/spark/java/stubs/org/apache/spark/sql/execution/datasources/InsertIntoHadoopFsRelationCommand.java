// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Map;

public class InsertIntoHadoopFsRelationCommand extends LogicalPlan {
    public native Path outputPath();

    public native Map<String, String> staticPartitions();

    public native boolean ifPartitionNotExists();

    public native SaveMode mode();
}
