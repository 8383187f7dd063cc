// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution;

import org.apache.spark.sql.catalyst.trees.TreeNode;

public abstract class SparkPlan extends TreeNode<SparkPlan> {}
