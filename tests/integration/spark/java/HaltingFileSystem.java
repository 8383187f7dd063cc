import java.io.File;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.util.Progressable;

/**
 * Local files; the executor that first saves a task manifest halts before it can tell the driver. The
 * first attempt of task 7 that begins a file in the table {@code halting.slow} does not go on, even if it
 * is killed, for so many seconds that the job ends before.
 */
public final class HaltingFileSystem extends RawLocalFileSystem {
    private static final String OF_TASK_7 = "-00000007";

    @Override
    public boolean rename(Path source, Path dest) throws IOException {
        boolean done = super.rename(source, dest);
        String marker = getConf().get("halting.marker");
        if (done && dest.getName().endsWith("-manifest.json") && new File(marker).createNewFile()) {
            Runtime.getRuntime().halt(1);
        }
        return done;
    }

    @Override
    public FSDataOutputStream create(Path path, boolean overwrite, int buffer, short replication,
            long block, Progressable progress) throws IOException {
        FSDataOutputStream stream = super.create(path, overwrite, buffer, replication, block, progress);
        String slow = getConf().get("halting.slow");
        boolean isSlow = path.toUri().getPath().startsWith(slow + "/") && path.getName().contains(OF_TASK_7);
        if (isSlow && new File(slow + "-began").createNewFile()) {
            sleep(getConf().getInt("halting.seconds", 0));
        }
        return stream;
    }

    private static void sleep(int seconds) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() < end) {
            try {
                TimeUnit.MILLISECONDS.sleep(100);
            } catch (InterruptedException e) {
                // As a thread that waits for a store, it does not notice.
            }
        }
    }
}
