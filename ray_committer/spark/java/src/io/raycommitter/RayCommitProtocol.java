package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.internal.io.HadoopMapReduceCommitProtocol;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;

/**
 * Lets the driver's commit handler commit the jobs of Spark's file sources.
 *
 * <p>Tasks save manifests, and the handler moves their files. The driver decides at the start of a job
 * whether to use this or Spark's own committer; the decision travels to the tasks in this object. The
 * class is a commit protocol, not only a committer, because the protocol controls overwrites, dynamic
 * partitions and custom partition locations.
 */
public class RayCommitProtocol extends HadoopMapReduceCommitProtocol {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(RayCommitProtocol.class);

    private static final String PASSIVE = "spark";
    private static final String DEFERRED = "deferred";
    /** The part of all results of tasks that the texts of manifests may take. */
    private static final int RESULT_SHARE = 4;
    private static final List<String> MODES = Arrays.asList("ray", DEFERRED, PASSIVE);

    private final String jobId;
    private final String path;
    private final boolean dynamicPartitionOverwrite;

    /** One of MODES; until the driver has decided, Spark's own committer is used. */
    private String mode = PASSIVE;

    /** The qualified destination, as text because a Path is not serializable in every Hadoop. */
    private String dest;

    /** The stamp that set-up gave the job; every manifest of its tasks contains it. */
    private String stamp;

    /** Whether the driver finds names of files that are not ASCII. */
    private boolean areNamesUtf8;

    /** The results of tasks with smaller numbers contain their manifests, if these are small. */
    private long tasksWithText;

    /** The current task attempt's committer; Spark's own reference to it is private. */
    private transient RayManifestCommitter committer;

    // Only in the driver:

    /** The paths that an overwrite replaces. */
    private final transient List<Path> replacePaths = new ArrayList<>();

    /** The query and the batch that the write belongs to; empty outside of a stream. */
    private transient String batch = "";

    private transient SessionRuns session;

    /** What the job does once, in its session; null without a run id. */
    private transient String runId;

    private transient TasksAhead tasksAhead;

    /** Whether the job may be committed after its write has failed. */
    private transient boolean commitMayGoOn;

    public RayCommitProtocol(String jobId, String path, boolean dynamicPartitionOverwrite) {
        super(jobId, path, dynamicPartitionOverwrite);
        this.jobId = jobId;
        this.path = path;
        this.dynamicPartitionOverwrite = dynamicPartitionOverwrite;
    }

    /** Deletes nothing yet, so that a failed write loses no old data. Called before {@link #setupJob}. */
    @Override
    public boolean deleteWithJob(FileSystem fs, Path target, boolean recursive)
            throws IOException {
        if (!recursive) {
            return super.deleteWithJob(fs, target, false);
        }
        replacePaths.add(fs.makeQualified(target));
        return true;
    }

    @Override
    public void setupJob(JobContext context) throws IOException {
        mode = modeOf(context);
        if (!isActive()) {
            deleteReplacePaths(context);
            super.setupJob(context);
            return;
        }
        Path target = new Path(path);
        dest = target.getFileSystem(context.getConfiguration()).makeQualified(target).toString();
        TaskUploads.requireMagic(fileSystem(context), new Path(dest));
        addPlannedOverwrite();
        areNamesUtf8 = FileNames.areUtf8();
        FileNames.require(new Path(dest), areNamesUtf8);
        for (Path old : replacePaths) {
            FileNames.require(old, areNamesUtf8);
        }
        tasksWithText =
                DriverSettings.read().mostResultBytes() / RESULT_SHARE / TaskManifestWriter.TEXT_BYTES;
        batch = SessionRuns.batch();
        session = SessionRuns.current();
        JobCommitHandler handler = CommitHandlers.require(dest, context.getConfiguration());
        try {
            JsonNode answer =
                    HandlerCall.run(handler::setupJob, request(), context.getConfiguration());
            stamp = requireStamp(answer);
            if (answer.get("runId") != null) {
                runId = answer.get("runId").asText();
            }
            tasksAhead =
                    new TasksAhead(handler, context.getConfiguration(), this::request, answer);
            job().requireVisible(fileSystem(context), stamp);
            super.setupJob(context);
        } catch (IOException | RuntimeException e) {
            abortFailedSetup(context);
            throw e;
        }
    }

    /** Called by Spark in the driver for each task that has committed, while others run. */
    @Override
    public void onTaskCommit(TaskCommitMessage message) {
        super.onTaskCommit(message);
        if (tasksAhead != null) {
            try {
                tasksAhead.add(TaskCommit.from(message));
            } catch (IOException e) {
                // The commit of the job reports the error.
            }
        }
    }

    /** Called by Spark 3 and other Scala 2.12 builds. */
    @Override
    public void commitJob(JobContext context, scala.collection.Seq<TaskCommitMessage> messages)
            throws IOException {
        if (isActive()) {
            commit(context, messages.iterator());
        } else {
            super.commitJob(context, messages);
        }
    }

    /** Called by Spark 4 and other Scala 2.13 builds. */
    @Override
    public void commitJob(
            JobContext context, scala.collection.immutable.Seq<TaskCommitMessage> messages)
            throws IOException {
        if (isActive()) {
            commit(context, messages.iterator());
        } else {
            super.commitJob(context, messages);
        }
    }

    /** Leaves the abort to the handler; keeps everything if it cannot be reached. Idempotent. */
    @Override
    public void abortJob(JobContext context) throws IOException {
        if (!isActive()) {
            super.abortJob(context);
        } else if (commitMayGoOn) {
            LOG.warn(job().attemptDir + ": was kept, because its commit may still go on");
        } else if (dest != null) {
            if (tasksAhead != null) {
                tasksAhead.end();
            }
            JobAbort.run(JobRequest.forAbort(job(), mode), context.getConfiguration());
        }
    }

    @Override
    public OutputCommitter setupCommitter(TaskAttemptContext context) throws IOException {
        if (!isActive()) {
            return super.setupCommitter(context);
        }
        FileNames.require(new Path(dest), areNamesUtf8);
        committer = new RayManifestCommitter(job(), stamp, context);
        return committer;
    }

    @Override
    public String newTaskTempFile(
            TaskAttemptContext context, Option<String> directory, FileNameSpec spec)
            throws IOException {
        if (!isActive()) {
            return super.newTaskTempFile(context, directory, spec);
        }
        Path target = new Path(dest);
        if (directory.isDefined()) {
            target = TaskScan.join(target, directory.get());
            if (dynamicPartitionOverwrite) {
                committer.addPartitionPath(directory.get());
            }
        }
        return newFile(context, target, spec);
    }

    /** Spark calls this for partitions whose location is outside of the table's directory. */
    @Override
    public String newTaskTempFileAbsPath(
            TaskAttemptContext context, String absoluteDirectory, FileNameSpec spec)
            throws IOException {
        if (!isActive()) {
            return super.newTaskTempFileAbsPath(context, absoluteDirectory, spec);
        }
        Path target = new Path(absoluteDirectory);
        target = target.getFileSystem(context.getConfiguration()).makeQualified(target);
        committer.addAbsoluteRoot(target);
        return newFile(context, target, spec);
    }

    private String newFile(TaskAttemptContext context, Path directory, FileNameSpec spec)
            throws IOException {
        String name = getFilename(context, spec);
        FileNames.require(TaskScan.join(directory, name), areNamesUtf8);
        return committer.newFile(directory, name).toString();
    }

    /** Puts the attempt into the name, before the number of a bucket, which Spark finds by its place. */
    @Override
    public String getFilename(TaskAttemptContext context, FileNameSpec spec) {
        if (!isActive() || TaskUploads.areNeeded(new Path(dest))) {
            return super.getFilename(context, spec);
        }
        String suffix = Staging.suffixed(context.getTaskAttemptID(), spec.suffix());
        return super.getFilename(context, new FileNameSpec(spec.prefix(), suffix));
    }

    /** Asks Spark's commit coordinator, as every protocol must, so that one attempt per task commits. */
    @Override
    public TaskCommitMessage commitTask(TaskAttemptContext context) throws IOException {
        TaskCommitMessage message = super.commitTask(context);
        if (!isActive()) {
            return message;
        }
        TaskCommit committed = committer.committed();
        if (context.getTaskAttemptID().getTaskID().getId() >= tasksWithText) {
            committed.forgetText();
        }
        return committed.toMessage();
    }

    @Override
    public void abortTask(TaskAttemptContext context) throws IOException {
        if (!isActive()) {
            super.abortTask(context);
        } else if (committer != null) {
            try {
                committer.abortTask(context);
            } catch (IOException e) {
                // Spark should report the task's own failure.
                LOG.warn(committer.getWorkPath() + ": cannot clean up the task attempt", e);
            }
        }
    }

    private boolean isActive() {
        return !mode.equals(PASSIVE);
    }

    private static String modeOf(JobContext context) throws IOException {
        String set = context.getConfiguration().getRaw(SettingNames.COMMIT); // without variables, which can stand for secrets
        String mode = set == null ? MODES.get(0) : set;
        if (!MODES.contains(mode)) {
            throw new IOException("ray_committer: " + SettingNames.COMMIT + "=" + mode
                    + " is not known; use one of " + String.join(", ", MODES));
        }
        return mode;
    }

    private void deleteReplacePaths(JobContext context) throws IOException {
        for (Path old : replacePaths) {
            FileSystem fs = old.getFileSystem(context.getConfiguration());
            if (!super.deleteWithJob(fs, old, true)) {
                throw new IOException(old + ": cannot be deleted before the overwrite");
            }
        }
    }

    /** Adds what the write replaces although it did not exist when Spark called deleteWithJob. */
    private void addPlannedOverwrite() {
        Path planned =
                dynamicPartitionOverwrite ? null : PlannedOverwrite.find(path, new Path(dest));
        if (planned != null && !replacePaths.contains(planned)) {
            replacePaths.add(planned);
        }
    }

    private static String requireStamp(JsonNode answer) throws IOException {
        String given = answer.path("stamp").asText();
        if (given.isEmpty()) {
            throw new IOException("ray_committer: the commit handler has set up the job, but its"
                    + " answer with the stamp of the job was lost or has another version; run the"
                    + " write again");
        }
        return given;
    }

    /** Spark does not abort such a job. If the set-up did nothing, the handler is not asked again. */
    private void abortFailedSetup(JobContext context) {
        try {
            if (stamp != null || fileSystem(context).exists(job().attemptDir)) {
                abortJob(context);
            }
        } catch (IOException e) {
            LOG.warn(job().attemptDir + ": cannot find out whether the failed set-up left anything;"
                    + " if it did, abort the job with: " + job().command("abort"), e);
        }
    }

    private void commit(JobContext context, Iterator<TaskCommitMessage> messages)
            throws IOException {
        JobCommitHandler handler = Bridge.handlerFor(context.getConfiguration());
        if (handler == null) {
            throw new IOException("ray_committer: the commit handler was removed while the job ran,"
                    + " so the write to " + dest + " is not committed; keep it installed until the"
                    + " write returns, and run the write again");
        }
        tasksAhead.end();
        List<TaskCommit> tasks = new ArrayList<>();
        while (messages.hasNext()) {
            tasks.add(TaskCommit.from(messages.next()));
        }
        boolean markSuccess = context.getConfiguration()
                .getBoolean("mapreduce.fileoutputcommitter.marksuccessfuljobs", true);
        JobRequest request = request().withTasks(tasks).markingSuccess(markSuccess);
        if (runId == null) {
            commit(handler, request, context);
        } else {
            session.commit(runId, request, () -> commit(handler, request, context));
        }
    }

    private JsonNode commit(JobCommitHandler handler, JobRequest request, JobContext context)
            throws IOException {
        String outcome = "failed";
        CommitInUi.begin(job());
        try {
            JsonNode answer =
                    HandlerCall.run(handler::commitJob, request, context.getConfiguration());
            outcome = mode.equals(DEFERRED) ? "recorded" : "committed";
            return answer;
        } catch (CommitStateUnknownException e) {
            commitMayGoOn = true;
            throw e;
        } finally {
            CommitInUi.end(jobId, outcome);
        }
    }

    private JobRequest request() {
        return new JobRequest(job(), mode, dynamicPartitionOverwrite, replacePaths)
                .in(session.name, batch);
    }

    private JobDirectory job() {
        return new JobDirectory(new Path(dest), jobId);
    }

    private FileSystem fileSystem(JobContext context) throws IOException {
        return new Path(dest).getFileSystem(context.getConfiguration());
    }
}
