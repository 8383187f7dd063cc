// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.types.StructType;

public interface FileIndex {
    void refresh();

    StructType partitionSchema();
}
