package io.raycommitter;

import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import scala.Option;

/** The SparkContext of this driver. */
final class DriverContext {
    private DriverContext() {}

    /** Returns null once Spark is stopped. {@code SparkContext.getOrCreate} would start another one then. */
    static SparkContext orNull() {
        Option<SparkContext> active = SparkContext$.MODULE$.getActive();
        return active.isDefined() ? active.get() : null;
    }

    static SparkContext get() {
        SparkContext context = orNull();
        if (context == null) {
            throw new IllegalStateException("ray_committer: Spark was stopped");
        }
        return context;
    }
}
