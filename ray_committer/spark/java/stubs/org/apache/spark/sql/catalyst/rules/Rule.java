// Compile-only declaration, never in the jar.
package org.apache.spark.sql.catalyst.rules;

import org.apache.spark.sql.catalyst.trees.TreeNode;

public abstract class Rule<T extends TreeNode<?>> {
    public abstract T apply(T plan);
}
