// Compile-only declaration, never in the jar.
package org.apache.spark.sql.catalyst.plans.logical;

import org.apache.spark.sql.catalyst.trees.TreeNode;

public abstract class LogicalPlan extends TreeNode<LogicalPlan> {}
