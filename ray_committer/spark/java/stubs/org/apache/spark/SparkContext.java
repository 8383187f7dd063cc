// Compile-only declaration, never in the jar.
package org.apache.spark;

import org.apache.hadoop.conf.Configuration;

public class SparkContext {
    public native SparkConf getConf();

    public native Configuration hadoopConfiguration();

    public native String applicationId();
}
