// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.sources.BaseRelation;
import scala.collection.immutable.Map;

public class HadoopFsRelation extends BaseRelation {
    public native FileIndex location();

    public native Map<String, String> options();
}
