import java.io.ObjectInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.internal.io.HadoopMapReduceCommitProtocol;
import scala.Option;

/** An executor of another user: runs one task attempt of a job that a driver has set up. */
public final class OtherUser {
    private OtherUser() {}

    /** Takes the driver's protocol as a file, an attempt's id, and the partitions to write. */
    public static void main(String[] arguments) throws Exception {
        HadoopMapReduceCommitProtocol protocol;
        try (ObjectInputStream in = new ObjectInputStream(Files.newInputStream(Paths.get(arguments[0])))) {
            protocol = (HadoopMapReduceCommitProtocol) in.readObject();
        }
        Configuration configuration = new Configuration();
        TaskAttemptContext context =
                new TaskAttemptContextImpl(configuration, TaskAttemptID.forName(arguments[1]));
        OutputCommitter committer = protocol.setupCommitter(context);
        committer.setupTask(context);
        for (int number = 2; number < arguments.length; number++) {
            Path path = new Path(protocol.newTaskTempFile(
                    context, Option.apply(arguments[number]), new FileNameSpec("", ".txt")));
            try (FSDataOutputStream out = path.getFileSystem(configuration).create(path, false)) {
                out.write("x".getBytes(StandardCharsets.UTF_8));
            }
        }
        committer.commitTask(context);
    }
}
