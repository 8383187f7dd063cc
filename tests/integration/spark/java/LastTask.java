import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** Knows when the last task ended, from which on a job's commit is all that is left, and what was written. */
public final class LastTask extends SparkListener {
    private static volatile long ended;
    private static volatile long bytes;
    private static volatile long records;

    public static long endedAtMillis() {
        return ended;
    }

    public static void reset() {
        bytes = 0;
        records = 0;
    }

    /** Returns the bytes and records that Spark's UI shows as written. */
    public static long[] written() {
        return new long[] {bytes, records};
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
        ended = Math.max(ended, event.taskInfo().finishTime());
        bytes += event.taskMetrics().outputMetrics().bytesWritten();
        records += event.taskMetrics().outputMetrics().recordsWritten();
    }
}
