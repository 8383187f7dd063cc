import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter;
import org.apache.parquet.hadoop.ParquetOutputCommitter;

/** Lets Spark, which takes only committers of Parquet, drive Hadoop's manifest committer. */
public final class ManifestBinding extends ParquetOutputCommitter {
    private final ManifestCommitter committer;

    public ManifestBinding(Path dest, TaskAttemptContext context) throws IOException {
        super(dest, context);
        committer = new ManifestCommitter(dest, context);
    }

    @Override
    public Path getWorkPath() throws IOException {
        return committer.getWorkPath();
    }

    @Override
    public void setupJob(JobContext context) throws IOException {
        committer.setupJob(context);
    }

    @Override
    public void setupTask(TaskAttemptContext context) throws IOException {
        committer.setupTask(context);
    }

    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) throws IOException {
        return committer.needsTaskCommit(context);
    }

    @Override
    public void commitTask(TaskAttemptContext context) throws IOException {
        committer.commitTask(context);
    }

    @Override
    public void abortTask(TaskAttemptContext context) throws IOException {
        committer.abortTask(context);
    }

    @Override
    public void commitJob(JobContext context) throws IOException {
        committer.commitJob(context);
    }

    @Override
    public void abortJob(JobContext context, JobStatus.State state) throws IOException {
        committer.abortJob(context, state);
    }
}
