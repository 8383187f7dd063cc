// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution;

public final class SQLExecution {
    public static native QueryExecution getQueryExecution(long id);
}
