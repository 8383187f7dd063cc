import java.io.File;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files; the executor that first saves a task manifest halts before it can tell the driver. */
public final class HaltingFileSystem extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path dest) throws IOException {
        boolean done = super.rename(source, dest);
        String marker = getConf().get("halting.marker");
        if (done && dest.getName().endsWith("-manifest.json") && new File(marker).createNewFile()) {
            Runtime.getRuntime().halt(1);
        }
        return done;
    }
}
