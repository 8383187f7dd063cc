// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.sources.BaseRelation;
import scala.Option;

public class LogicalRelation extends LogicalPlan {
    public native BaseRelation relation();

    public native Option<?> catalogTable();
}
