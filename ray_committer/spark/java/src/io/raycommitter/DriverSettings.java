package io.raycommitter;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/**
 * The settings of the driver itself. A session and a write have copies of them, with changes of their own.
 *
 * <p>Who writes through a shared driver, such as a Thrift or Connect server, can change the copies only.
 */
final class DriverSettings {
    private static final String VARIABLE = "${";
    private static volatile DriverSettings last;

    private final SparkConf spark;
    private final Configuration hadoop;

    private DriverSettings(SparkConf spark, Configuration hadoop) {
        this.spark = spark;
        this.hadoop = hadoop;
    }

    /** Reads them; after Spark was stopped, while a write still ends, they are as they were before. */
    static DriverSettings read() {
        SparkContext context = last == null ? DriverContext.get() : DriverContext.orNull();
        if (context != null) {
            last = new DriverSettings(context.getConf(), context.hadoopConfiguration());
        }
        return last;
    }

    /** Returns a setting; empty if it is not set. */
    String get(String key) {
        return spark.get(key, hadoop.get(key, "")).trim();
    }

    /** Returns how many bytes the results of all tasks of a job can have. */
    long mostResultBytes() {
        long bytes = spark.getSizeAsBytes("spark.driver.maxResultSize", "1g");
        return bytes == 0 ? Long.MAX_VALUE : bytes;
    }

    /** Returns whether the text of a job's setting, with its variables, is the driver's. */
    boolean isOwn(String key, String text) {
        return text.equals(hadoop.getRaw(key)) || text.equals(spark.get(key, null));
    }

    /** Refuses a job whose session or write gives a setting another value. */
    void requireOwn(String key, Configuration job) throws IOException {
        String text = job.getRaw(key);
        if (text != null && !isOwn(key, text)) {
            throw new IOException("ray_committer: " + key + ": this session or write has set it, but only"
                    + " the driver's own configuration may, because it says which program runs, so"
                    + " nothing was written; remove it there, or start the driver with --conf " + key
                    + "=...");
        }
    }

    /** Returns one of the driver's own texts, with the values of its variables. */
    String expanded(String text) {
        if (!text.contains(VARIABLE)) {
            return text;
        }
        Configuration copy = new Configuration(hadoop);
        copy.set(VARIABLE, text);
        return copy.get(VARIABLE);
    }

    /** Returns a secret of a job, from the driver's credential providers first; null without either. */
    String password(String key, Configuration job) throws IOException {
        String text = job.getRaw(key);
        boolean isGiven = text != null && !text.equals(hadoop.getRaw(key));
        char[] found = isGiven
                ? hadoop.getPasswordFromCredentialProviders(key)
                : hadoop.getPassword(key);
        return found != null ? String.valueOf(found) : isGiven ? text : null;
    }
}
