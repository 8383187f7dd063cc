import java.io.File;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.util.Progressable;

/**
 * Local files as objects of a bucket. Below a magic path a file becomes empty at its close, and the text
 * {@code magic.pending} of the configuration, with the file's key and length, stands beside it.
 *
 * <p>The ids of aborted uploads are the names of files in {@code magic.aborted}.
 */
public final class MagicFileSystem extends RawLocalFileSystem {
    @Override
    public URI getUri() {
        return URI.create("s3a://bucket");
    }

    @Override
    public void initialize(URI uri, org.apache.hadoop.conf.Configuration conf) throws IOException {
        super.initialize(uri, conf);
        setWorkingDirectory(new Path("s3a://bucket/"));
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) {
        return capability.equals("fs.s3a.capability.magic.committer")
                && getConf().getBoolean("magic.enabled", true);
    }

    /** Without permissions, for which the local file system needs the scheme of its own. */
    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus[] found = super.listStatus(path);
        for (int i = 0; i < found.length; i++) {
            FileStatus one = found[i];
            found[i] = new FileStatus(
                    one.getLen(), one.isDirectory(), 1, 1, one.getModificationTime(), one.getPath());
        }
        return found;
    }

    @Override
    public FSDataOutputStream create(
            Path path, boolean overwrite, int buffer, short replication, long block, Progressable progress)
            throws IOException {
        FSDataOutputStream out = super.create(path, overwrite, buffer, replication, block, progress);
        String name = path.toUri().getPath();
        if (!name.contains("/__magic/") || !getConf().getBoolean("magic.writes", true)) {
            return out;
        }
        return new FSDataOutputStream(new FilterOutputStream(out) {
            @Override
            public void close() throws IOException {
                out.close();
                File file = new File(name);
                String key = name.replaceFirst("/__magic/.*/__base/", "/").substring(1);
                String text = getConf().get("magic.pending")
                        .replace("KEY", key)
                        .replace("LENGTH", "" + file.length());
                Files.write(
                        new File(name + ".pending").toPath(), text.getBytes(StandardCharsets.UTF_8));
                Files.write(file.toPath(), new byte[0]);
            }
        }, null);
    }

    @Override
    public MultipartUploaderBuilder createMultipartUploader(Path base) {
        MultipartUploader uploader = made(MultipartUploader.class, arguments -> {
            byte[] id = ((BBUploadHandle) arguments[0]).toByteArray();
            new File(getConf().get("magic.aborted"), new String(id, StandardCharsets.UTF_8)).createNewFile();
            return CompletableFuture.completedFuture(null);
        });
        return made(MultipartUploaderBuilder.class, arguments -> uploader);
    }

    private interface Call {
        Object answer(Object[] arguments) throws Exception;
    }

    /** An instance all of whose methods with results do the same. */
    private static <T> T made(Class<T> type, Call call) {
        Object made = Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (self, method, arguments) ->
                        method.getReturnType() == void.class ? null : call.answer(arguments));
        return type.cast(made);
    }
}
