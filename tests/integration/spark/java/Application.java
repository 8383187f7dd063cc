import org.apache.spark.sql.SparkSession;

/** A JVM application: writes the numbers below 30 to its argument, in three partitions. */
public final class Application {
    private Application() {}

    public static void main(String[] arguments) {
        SparkSession spark = SparkSession.builder().getOrCreate();
        spark.range(30).selectExpr("id", "id % 3 AS p").write().partitionBy("p").parquet(arguments[0]);
        spark.stop();
    }
}
