// Compile-only declaration, never in the jar.
package org.apache.spark.sql;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.ColumnarRule;
import scala.Function1;
import scala.runtime.BoxedUnit;

public class SparkSessionExtensions {
    public native void injectCheckRule(Function1<SparkSession, Function1<LogicalPlan, BoxedUnit>> builder);

    public native void injectColumnar(Function1<SparkSession, ColumnarRule> builder);
}
