// Compile-only declaration, never in the jar.
package org.apache.spark.sql.execution.datasources;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import scala.collection.mutable.LinkedHashMap;

public abstract class PartitioningAwareFileIndex implements FileIndex {
    public native Configuration hadoopConf();

    public abstract LinkedHashMap<Path, FileStatus> leafFiles();
}
