import java.io.File;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files; the first rename is the last thing that the task attempt does which asked for it. */
public final class TornFileSystem extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path dest) throws IOException {
        boolean done = super.rename(source, dest);
        if (done && new File(getConf().get("torn.marker")).createNewFile()) {
            throw new IllegalStateException("simulated death in the middle of a task commit");
        }
        return done;
    }
}
