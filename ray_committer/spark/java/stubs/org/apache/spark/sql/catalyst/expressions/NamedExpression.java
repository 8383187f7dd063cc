// Compile-only declaration, never in the jar.
package org.apache.spark.sql.catalyst.expressions;

public interface NamedExpression {
    String name();
}
