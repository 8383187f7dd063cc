package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import scala.collection.Iterator;

/** Builds the requests to the commit handler. */
final class JobRequest {
    private final ObjectNode json = JsonNodeFactory.instance.objectNode();

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
                .put("dynamicPartitionOverwrite", dynamicPartitionOverwrite);
        putAll("replacePaths", replacePaths);
    }

    /** Adds the session of the write, and its query and batch, which are empty outside of a stream. */
    JobRequest in(String session, String batch) {
        json.put("session", session).put("batch", batch);
        return this;
    }

    /** Adds the jobs that the session has committed under the job's run id. */
    JobRequest withKnownJobs(Collection<String> jobIds) {
        putAll("knownJobs", jobIds);
        return this;
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
        ArrayNode tasks = JsonNodeFactory.instance.arrayNode();
        while (messages.hasNext()) {
            TaskCommit task = TaskCommit.from(messages.next());
            partitionPaths.addAll(task.partitionPaths());
            absoluteRoots.addAll(task.absoluteRoots());
            tasks.add(task.toJson());
        }
        putAll("partitionPaths", partitionPaths);
        putAll("absoluteRoots", absoluteRoots);
        json.put("markSuccess", markSuccess).set("tasks", tasks);
        return this;
    }

    String text() {
        return json.toString();
    }

    private void putAll(String key, Collection<String> texts) {
        ArrayNode array = json.putArray(key);
        texts.forEach(array::add);
    }
}
