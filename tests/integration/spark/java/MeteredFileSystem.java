import java.io.FileNotFoundException;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Local files as on a store behind a network: each request takes as long as {@link #reset} was told
 * and is counted, by the driver and by tasks, which in local mode share a process.
 */
public class MeteredFileSystem extends RawLocalFileSystem {
    private static final Map<String, LongAdder> COUNTS = new ConcurrentSkipListMap<>();
    private static volatile int millis;
    private static final ThreadLocal<Integer> DEPTH = ThreadLocal.withInitial(() -> 0);

    /** What a request does. */
    protected interface Request<T> {
        T make() throws IOException;
    }

    /** Lines of {@code who operation kind: number}; kind is data, state, job or other. */
    public static String counts() {
        StringBuilder text = new StringBuilder();
        COUNTS.forEach((what, number) -> text.append(what).append(": ").append(number).append('\n'));
        return text.toString();
    }

    public static void reset(int millisARequest) {
        COUNTS.clear();
        millis = millisARequest;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return metered("status", path, () -> super.getFileStatus(path));
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return metered("list", path, () -> super.listStatus(path));
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        return metered("mkdirs", path, () -> super.mkdirs(path));
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        return metered("mkdirs", path, () -> super.mkdirs(path, permission));
    }

    /** Does nothing: without Hadoop's native library it would be a process, which no other store starts. */
    @Override
    public void setPermission(Path path, FsPermission permission) {}

    @Override
    public boolean rename(Path source, Path dest) throws IOException {
        return metered("rename", source, () -> super.rename(source, dest));
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        return metered("delete", path, () -> super.delete(path, recursive));
    }

    @Override
    public FSDataInputStream open(Path path, int buffer) throws IOException {
        return metered("open", path, () -> super.open(path, buffer));
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int buffer,
            short replication, long block, Progressable progress) throws IOException {
        return metered("create", path, () -> closing(path, super.create(
                path, permission, overwrite, buffer, replication, block, progress)));
    }

    @Override
    public FSDataOutputStream create(Path path, boolean overwrite, int buffer, short replication,
            long block, Progressable progress) throws IOException {
        return metered("create", path, () -> closing(path, super.create(
                path, overwrite, buffer, replication, block, progress)));
    }

    @Override
    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission,
            boolean overwrite, int buffer, short replication, long block, Progressable progress)
            throws IOException {
        return metered("create", path, () -> closing(path, super.createNonRecursive(
                path, permission, overwrite, buffer, replication, block, progress)));
    }

    /** The file is there once it is closed, which is a request of its own. */
    private FSDataOutputStream closing(Path path, FSDataOutputStream opened) throws IOException {
        OutputStream stream = new FilterOutputStream(opened) {
            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                out.write(bytes, offset, length);
            }

            @Override
            public void close() throws IOException {
                metered("close", path, () -> {
                    out.close();
                    return null;
                });
            }
        };
        return new FSDataOutputStream(stream, null);
    }

    private <T> T metered(String operation, Path path, Request<T> request) throws IOException {
        boolean isOutermost = DEPTH.get() == 0;
        if (isOutermost) {
            String what = who() + " " + operation + " " + kind(path);
            COUNTS.computeIfAbsent(what, key -> new LongAdder()).increment();
            pause();
        }
        DEPTH.set(DEPTH.get() + 1);
        try {
            return isOutermost ? make(request) : request.make();
        } finally {
            DEPTH.set(DEPTH.get() - 1);
        }
    }

    /** Makes a request that is not part of another. */
    protected <T> T make(Request<T> request) throws IOException {
        return request.make();
    }

    /** Whose request this thread makes: {@code task} or {@code driver}. */
    protected static String who() {
        return Thread.currentThread().getName().startsWith("Executor task") ? "task" : "driver";
    }

    /** A data file or a partition's directory; the job's state; what else is the job's; the rest. */
    private static String kind(Path path) {
        String text = path.toUri().getPath();
        String name = path.getName();
        if (name.contains("part-") || name.contains("=")) {
            return "data";
        }
        if (name.equals("state")) {
            return "state";
        }
        return text.contains("/_temporary") || text.contains("/.spark-staging") ? "job" : "other";
    }

    private void pause() throws IOException {
        if (millis == 0) {
            return; // To sleep for no time would be to let others run.
        }
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new FileNotFoundException("interrupted");
        }
    }
}
