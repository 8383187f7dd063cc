// Compile-only declaration, never in the jar.
package org.apache.spark.api.java;

import org.apache.spark.SparkContext;

public class JavaSparkContext {
    public JavaSparkContext(SparkContext context) {}

    public native String getLocalProperty(String key);

    public native void setLocalProperty(String key, String value);

    public native <T> JavaRDD<T> emptyRDD();
}
