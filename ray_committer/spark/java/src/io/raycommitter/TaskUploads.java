package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files of a task attempt on S3, where nothing is renamed: uploads that the job's commit completes.
 *
 * <p>The task writes below a path that Hadoop's S3A client takes for magic. At the close of a file the
 * client leaves the upload pending and describes it in a file {@code .pending}, and readers see nothing.
 * No class of the client is named here, so that the jar needs none.
 */
final class TaskUploads implements TaskOutput {
    private static final Logger LOG = LoggerFactory.getLogger(TaskUploads.class);
    private static final String CAPABILITY = "fs.s3a.capability.magic.committer";
    private static final String IN_MEMORY =
            "fs.s3a.committer.magic.track.commits.in.memory.enabled";
    private static final String CONSTANTS = "org.apache.hadoop.fs.s3a.commit.CommitConstants";

    private final FileSystem fs;
    private final JobDirectory job;
    private final Path jobDir;
    private final Path attemptDir;
    private final Path base;
    private final TreeSet<String> begun = new TreeSet<>();

    TaskUploads(FileSystem fs, JobDirectory job, String taskAttemptId) {
        this.fs = fs;
        this.job = job;
        this.jobDir = TaskScan.join(job.dest, magicDirectory(fs, job.jobId));
        this.attemptDir = TaskScan.join(jobDir, "tasks/" + taskAttemptId);
        this.base = TaskScan.join(attemptDir, "__base");
    }

    /** Returns whether the files of tasks must be uploads at a destination. */
    static boolean areNeeded(Path dest) {
        String scheme = dest.toUri().getScheme();
        return scheme != null && scheme.toLowerCase(Locale.ROOT).matches("s3[an]?");
    }

    /** Refuses a client on S3 that would make the files of tasks visible, or could not write uploads. */
    static void requireMagic(FileSystem fs, Path dest) throws IOException {
        if (!areNeeded(dest)) {
            return;
        }
        if (!fs.hasPathCapability(dest, CAPABILITY)) {
            throw new IOException("ray_committer: " + dest + ": the file system of this URL ("
                    + fs.getClass().getName() + ") does not write pending uploads there; write to"
                    + " s3a:// and set spark.hadoop.fs.s3a.committer.magic.enabled=true, also for"
                    + " this bucket if it has settings of its own");
        }
        if (fs.getConf().getBoolean(IN_MEMORY, false)) { // of clients since Hadoop 3.4.1
            throw new IOException("ray_committer: " + dest + ": the client keeps in memory which uploads"
                    + " a task has made; set spark.hadoop." + IN_MEMORY + "=false");
        }
    }

    /** Returns the directory that stands for the destination while the task writes. */
    @Override
    public Path workPath() {
        return base;
    }

    @Override
    public Path newFile(Path directory, String name) throws IOException {
        String below = Staging.relative(directory, job.dest);
        if (below == null) {
            throw new IOException("ray_committer: " + directory + ": is the location of a"
                    + " partition outside of its table, where no task can write uploads; write that"
                    + " partition as a table of its own");
        }
        String relative = below.isEmpty() ? name : below + "/" + name;
        begun.add(relative);
        return TaskScan.join(base, relative);
    }

    @Override
    public TaskCommit save(TaskManifestWriter writer) throws IOException {
        return writer.save(this);
    }

    /**
     * Returns the entries of the manifest: one for each closed file.
     *
     * @throws FileNotFoundException if a file that was begun, or written, is no pending upload
     */
    ArrayNode entries() throws IOException {
        TreeSet<String> names = list();
        TreeSet<String> missing = new TreeSet<>(begun);
        for (String name : names) {
            if (!isPending(name)) {
                missing.add(name);
            }
        }
        missing.removeIf(name -> names.contains(name + PendingUpload.SUFFIX));
        if (!missing.isEmpty()) {
            throw new FileNotFoundException(base + ": files that the task began are not pending"
                    + " uploads: " + missing + "; check that executors have the driver's settings of"
                    + " S3A, and run the task again");
        }
        ArrayNode entries = JsonNodeFactory.instance.arrayNode();
        read(names).forEach(upload -> upload.addTo(entries));
        return entries;
    }

    /**
     * Deletes what described the uploads, which the saved manifest now does.
     *
     * <p>A failure does no harm: the clean-up of the job finds the uploads in either place.
     */
    void removeDescriptions() {
        try {
            fs.delete(attemptDir, true);
        } catch (IOException e) {
            LOG.warn(attemptDir + ": is left to the clean-up of the job", e);
        }
    }

    /** Aborts the uploads, then deletes what described them. */
    @Override
    public void abort() throws IOException {
        try (MultipartUploader uploader = fs.createMultipartUploader(job.dest).build()) {
            for (PendingUpload upload : read(list())) {
                upload.abort(uploader);
            }
            fs.delete(attemptDir, true);
        }
    }

    @Override
    public void removeLeftovers() {
        JobDirectory.removeIfEmpty(fs, attemptDir.getParent());
        for (Path path = jobDir; path.depth() > job.dest.depth(); path = path.getParent()) {
            JobDirectory.removeIfEmpty(fs, path);
        }
    }

    /** Returns the names of the files below the work path, relative to it. */
    private TreeSet<String> list() throws IOException {
        TreeSet<String> names = new TreeSet<>();
        int start = base.toUri().getPath().length() + 1;
        try {
            RemoteIterator<LocatedFileStatus> listing = fs.listFiles(base, true);
            while (listing.hasNext()) {
                names.add(listing.next().getPath().toUri().getPath().substring(start));
            }
        } catch (FileNotFoundException e) {
            // The task has written nothing.
        }
        return names;
    }

    /** Reads several at once: a task can have a file in each of many partitions. */
    private List<PendingUpload> read(TreeSet<String> names) throws IOException {
        List<SideBySide.Request<PendingUpload>> requests = new ArrayList<>();
        names.stream().filter(TaskUploads::isPending).forEach(name -> requests.add(() -> read(name)));
        return SideBySide.all(requests);
    }

    private PendingUpload read(String name) throws IOException {
        String file = name.substring(0, name.length() - PendingUpload.SUFFIX.length());
        return PendingUpload.read(fs, TaskScan.join(base, name), TaskScan.join(job.dest, file));
    }

    private static boolean isPending(String name) {
        return name.endsWith(PendingUpload.SUFFIX);
    }

    /** Since Hadoop 3.4 each job has a directory of its own, and the client takes only its name for magic. */
    private static String magicDirectory(FileSystem fs, String jobId) {
        try {
            Class<?> constants = Class.forName(CONSTANTS, true, fs.getClass().getClassLoader());
            Object prefix = constants.getField("MAGIC_PATH_PREFIX").get(null);
            String attempt = String.format(Locale.ROOT, "%02d", JobDirectory.ATTEMPT);
            return prefix + jobId + "/job-" + jobId + "/" + attempt;
        } catch (ReflectiveOperationException e) {
            return "__magic/job-" + jobId;
        }
    }
}
