import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** Knows when the last task ended, from which on a job's commit is all that is left. */
public final class LastTask extends SparkListener {
    private static volatile long ended;

    public static long endedAtMillis() {
        return ended;
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
        ended = Math.max(ended, event.taskInfo().finishTime());
    }
}
