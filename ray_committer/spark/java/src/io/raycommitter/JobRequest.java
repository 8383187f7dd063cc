package io.raycommitter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.fs.Path;

/** Builds the requests to the commit handler. */
final class JobRequest {
    final JobDirectory job;
    private final ObjectNode json = JsonNodeFactory.instance.objectNode();

    JobRequest(
            JobDirectory job,
            String mode,
            boolean dynamicPartitionOverwrite,
            List<Path> replacePaths) {
        this.job = job;
        json.put("version", Bridge.PROTOCOL_VERSION)
                .put("jobId", job.jobId)
                .put("jobAttempt", JobDirectory.ATTEMPT)
                .put("dest", job.dest.toUri().toString())
                .put("commit", mode)
                .put("dynamicPartitionOverwrite", dynamicPartitionOverwrite);
        ArrayNode replaced = json.putArray("replacePaths");
        replacePaths.forEach(path -> replaced.add(path.toUri().toString()));
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

    /** Adds committed tasks, their partitions, and the other places they write to. */
    JobRequest withTasks(Iterable<TaskCommit> committed) {
        TreeSet<String> partitionPaths = new TreeSet<>();
        TreeSet<String> absoluteRoots = new TreeSet<>();
        ArrayNode tasks = json.putArray("tasks");
        for (TaskCommit task : committed) {
            Collections.addAll(partitionPaths, task.partitionPaths);
            Collections.addAll(absoluteRoots, task.absoluteRoots);
            tasks.add(task.toJson());
        }
        putAll("partitionPaths", partitionPaths);
        putAll("absoluteRoots", absoluteRoots);
        return this;
    }

    JobRequest markingSuccess(boolean isMarked) {
        json.put("markSuccess", isMarked);
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
