package io.raycommitter;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import scala.collection.Iterator;

/** Builds the requests to the commit handler. */
final class JobRequest {
    private final Json json = new Json();

    JobRequest(
            JobDirectory job,
            String mode,
            boolean dynamicPartitionOverwrite,
            List<String> replacePaths) {
        json.put("version", Bridge.PROTOCOL_VERSION)
                .put("jobId", job.jobId())
                .put("jobAttempt", JobDirectory.ATTEMPT)
                .put("dest", job.dest().toUri().toString())
                .put("commit", mode)
                .put("dynamicPartitionOverwrite", dynamicPartitionOverwrite)
                .put("replacePaths", replacePaths);
    }

    /** Builds the request for an abort, which concerns only the job's own directory. */
    static JobRequest forAbort(JobDirectory job, String mode) {
        return new JobRequest(job, mode, false, Collections.emptyList());
    }

    /** Adds the parts of a commit: the tasks, their partitions, and the other places they write to. */
    JobRequest withTasks(
            Iterator<TaskCommitMessage> messages, boolean markSuccess)
            throws IOException {
        TreeSet<String> partitionPaths = new TreeSet<>();
        TreeSet<String> absoluteRoots = new TreeSet<>();
        List<String> tasks = new ArrayList<>();
        while (messages.hasNext()) {
            TaskCommit task = TaskCommit.from(messages.next());
            partitionPaths.addAll(task.partitionPaths());
            absoluteRoots.addAll(task.absoluteRoots());
            tasks.add(task.toJson());
        }
        json.put("partitionPaths", partitionPaths)
                .put("absoluteRoots", absoluteRoots)
                .put("markSuccess", markSuccess)
                .putRawItems("tasks", tasks);
        return this;
    }

    String text() {
        return json.text();
    }
}
