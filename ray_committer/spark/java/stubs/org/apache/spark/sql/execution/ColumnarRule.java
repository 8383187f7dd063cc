// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution;

import org.apache.spark.sql.catalyst.rules.Rule;

public class ColumnarRule {
    public native Rule<SparkPlan> preColumnarTransitions();
}
