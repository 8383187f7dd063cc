// Compile-only declaration, never in the jar.
package org.apache.spark.api.java;

import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;

public class JavaSparkContext {
    public JavaSparkContext(SparkContext context) {}

    public native String getLocalProperty(String key);

    public native void setLocalProperty(String key, String value);

    public native <T> Broadcast<T> broadcast(T value);

    public native <T> JavaRDD<T> emptyRDD();
}
