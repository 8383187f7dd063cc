// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.sources.BaseRelation;

public class HadoopFsRelation extends BaseRelation {
    public native FileIndex location();
}
