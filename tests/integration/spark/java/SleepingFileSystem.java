import java.io.File;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files; who has saved a task manifest makes a file, and sleeps until there is another. */
public final class SleepingFileSystem extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path dest) throws IOException {
        boolean done = super.rename(source, dest);
        if (dest.getName().endsWith("-manifest.json")) {
            new File(getConf().get("sleeping.asleep")).createNewFile();
            File awake = new File(getConf().get("sleeping.awake"));
            try {
                while (!awake.exists()) {
                    Thread.sleep(20);
                }
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        }
        return done;
    }
}
