import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Metered local files of which, after each request, is noted what readers see in a table; one request is
 * made after the other.
 */
public final class WatchedFileSystem extends MeteredFileSystem {
    private static final List<String> SEEN = new ArrayList<>();
    private static File table;
    private static String visible;
    private static boolean isWritten;

    /** Watches a directory from here on. */
    public static synchronized void watch(String directory) {
        SEEN.clear();
        table = new File(directory);
        visible = null;
        isWritten = false;
        look("before");
    }

    /**
     * Lines of {@code when files...}, one for each change of what is visible: before the job, by its
     * {@code driver} before and {@code commit} after the first request of a task, or by a {@code task}.
     */
    public static synchronized String seen() {
        table = null;
        return String.join("\n", SEEN);
    }

    @Override
    protected <T> T make(Request<T> request) throws IOException {
        synchronized (WatchedFileSystem.class) {
            try {
                return super.make(request);
            } finally {
                boolean isTask = who().equals("task");
                isWritten |= isTask;
                look(isTask ? "task" : isWritten ? "commit" : "driver");
            }
        }
    }

    private static void look(String when) {
        if (table == null) {
            return;
        }
        StringBuilder files = new StringBuilder();
        list(table, "", files);
        if (!files.toString().equals(visible)) {
            visible = files.toString();
            SEEN.add(when + visible);
        }
    }

    private static void list(File directory, String path, StringBuilder files) {
        File[] found = directory.listFiles((parent, name) -> !name.startsWith("_") && !name.startsWith("."));
        if (found == null) {
            return;
        }
        Arrays.sort(found);
        for (File file : found) {
            if (file.isDirectory()) {
                list(file, path + file.getName() + "/", files);
            } else {
                files.append(' ').append(path).append(file.getName());
            }
        }
    }
}
