// Compile-only declaration, never in the jar.
package org.apache.spark.sql.catalyst.trees;

import scala.Function1;
import scala.runtime.BoxedUnit;

public abstract class TreeNode<T extends TreeNode<T>> {
    public native void foreach(Function1<T, BoxedUnit> visit);
}
