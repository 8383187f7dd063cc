package io.raycommitter;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/**
 * The files of a task attempt where the job's commit renames them.
 *
 * <p>A file lies beside those of all tasks for the same directory, and its name shows its attempt. The
 * attempt's own directory has what a format names itself, and what cannot lie elsewhere: under names with
 * a number before them, so that files of one name for two directories have room there.
 */
final class TaskFiles implements TaskOutput {
    private static final int MOST_DIRECTORIES = 4096;

    private final FileSystem fs;
    private final JobDirectory job;
    private final TaskAttemptID attempt;
    private final Path ownDir;
    private final String token;
    private final int mostDirectories;
    private final Map<Path, StagedDirectory> staged = new LinkedHashMap<>();
    private final Map<String, Path> numbered = new LinkedHashMap<>();

    TaskFiles(FileSystem fs, JobDirectory job, TaskAttemptID attempt) {
        this.fs = fs;
        this.job = job;
        this.attempt = attempt;
        this.ownDir = job.taskAttemptDir(attempt.toString());
        this.token = Staging.tokenOf(attempt);
        this.mostDirectories = Staging.hasToken(attempt.toString()) ? MOST_DIRECTORIES : 0;
    }

    @Override
    public Path workPath() {
        return ownDir;
    }

    @Override
    public Path newFile(Path directory, String name) {
        if (!Staging.isOf(name, token)) { // the id of a job can end like the token of another attempt
            return number(TaskScan.join(directory, name));
        }
        Path source =
                TaskScan.join(job.tasks(), Staging.directoryOf(directory, job.dest, attempt));
        StagedDirectory place = staged.get(source);
        if (place == null && staged.size() < mostDirectories && isWritable(source)) {
            place = new StagedDirectory(fs, source, directory, token);
            place.makeLocal();
            staged.put(source, place);
        }
        // The files of two partitions in one directory can have one name, which the commit refuses.
        return place != null && place.begun.add(name)
                ? TaskScan.join(source, name)
                : number(TaskScan.join(directory, name));
    }

    private Path number(Path destination) {
        String name = numbered.size() + "-" + destination.getName();
        numbered.put(name, destination);
        return TaskScan.join(ownDir, name);
    }

    /** Spark's tasks are one user of a store; on local disks, those of other workers may be another. */
    private static boolean isWritable(Path directory) {
        if (!"file".equals(directory.toUri().getScheme())) {
            return true;
        }
        File found = new File(directory.toUri().getPath());
        while (!found.exists() && found.getParentFile() != null) {
            found = found.getParentFile();
        }
        return found.canWrite();
    }

    /**
     * Looks at the files by one listing per directory, or one status per file where there are many. Each
     * file that was begun must be there; that there is no directory shows nothing.
     */
    @Override
    public TaskCommit save(TaskManifestWriter writer) throws IOException {
        List<FileStatus> own = findAll();
        TaskScan scan = new TaskScan(fs, job.dest);
        TreeSet<String> missing = new TreeSet<>();
        addOwn(own, scan, missing);
        for (StagedDirectory place : staged.values()) {
            add(place, scan, missing);
        }
        if (!missing.isEmpty()) {
            writer.requireOpen(); // a commit that has begun takes the files away from tasks
            throw new FileNotFoundException(ownDir + ": files that the task began are missing: "
                    + missing + "; run the task again, or, if the format leaves out files without"
                    + " rows, set " + SettingNames.COMMIT + "=spark for this write");
        }
        return writer.save(scan);
    }

    /** Returns what is in the attempt's own directory, after a look at the others. */
    private List<FileStatus> findAll() throws IOException {
        List<FileStatus> own = new ArrayList<>();
        List<SideBySide.Request<Boolean>> requests = new ArrayList<>();
        staged.values().forEach(place -> requests.add(place::find));
        requests.add(() -> own.addAll(StagedDirectory.list(fs, ownDir, Integer.MAX_VALUE)));
        Iterator<Boolean> areFound = SideBySide.all(requests).iterator();
        requests.clear();
        for (StagedDirectory place : staged.values()) {
            if (!areFound.next()) {
                place.begun.forEach(name -> requests.add(() -> place.find(name)));
            }
        }
        SideBySide.all(requests);
        return own;
    }

    /** A file that a format has left beside another one, with the same number, goes where that goes. */
    private void addOwn(List<FileStatus> own, TaskScan scan, TreeSet<String> missing)
            throws IOException {
        Map<String, Path> targets = new HashMap<>();
        numbered.forEach((name, path) -> targets.put(numberOf(name), path.getParent()));
        TreeSet<String> begun = new TreeSet<>(numbered.keySet());
        for (FileStatus status : own) {
            String name = status.getPath().getName();
            String number = numberOf(name);
            Path target = targets.containsKey(number)
                    ? TaskScan.join(targets.get(number), name.substring(number.length() + 1))
                    : TaskScan.join(job.dest, name);
            if (scan.add(status, name, target, numbered.containsKey(name))) {
                begun.remove(name);
            }
        }
        missing.addAll(begun);
        targets.values().forEach(scan::addTarget);
    }

    private void add(StagedDirectory place, TaskScan scan, TreeSet<String> missing)
            throws IOException {
        TreeSet<String> begun = new TreeSet<>(place.begun);
        for (FileStatus status : place.found) {
            String name = status.getPath().getName();
            Path target = TaskScan.join(place.target, name);
            FileStatus file = status.isDirectory() ? moveToOwn(status, target) : status;
            if (scan.add(file, name, target, place.begun.contains(name))) {
                begun.remove(name);
            }
        }
        begun.forEach(name -> missing.add(TaskScan.join(place.source, name).toString()));
        scan.addTarget(place.target);
    }

    /** Moves a directory that a format has made in the place of a file: only files are shared. */
    private FileStatus moveToOwn(FileStatus directory, Path target) throws IOException {
        Path own = number(target);
        if (!fs.mkdirs(ownDir) || !fs.rename(directory.getPath(), own)) {
            throw new IOException(directory.getPath() + ": cannot be moved to " + own);
        }
        return fs.getFileStatus(own);
    }

    /** Returns the text before the first "-"; empty for a name without one. */
    private static String numberOf(String name) {
        return name.substring(0, Math.max(0, name.indexOf('-')));
    }

    /** Deletes the files by their names, since others lie beside them. */
    @Override
    public void abort() throws IOException {
        List<SideBySide.Request<Boolean>> requests = new ArrayList<>();
        for (StagedDirectory place : staged.values()) {
            for (String name : place.begun) {
                Path path = TaskScan.join(place.source, name);
                requests.add(() -> fs.delete(path, true));
            }
        }
        requests.add(() -> fs.delete(ownDir, true));
        SideBySide.all(requests);
    }

    @Override
    public void removeLeftovers() throws IOException {
        List<SideBySide.Request<Boolean>> requests = new ArrayList<>();
        for (Path source : staged.keySet()) {
            requests.add(() -> JobDirectory.removeIfEmpty(fs, source));
        }
        SideBySide.all(requests);
    }
}
