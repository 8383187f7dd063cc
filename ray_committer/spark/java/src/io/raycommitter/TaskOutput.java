package io.raycommitter;

import java.io.IOException;
import org.apache.hadoop.fs.Path;

/** The files of one task attempt until the job's commit: {@link TaskFiles}, or {@link TaskUploads} on S3. */
interface TaskOutput {
    /** Returns the directory for files that a format names itself. */
    Path workPath();

    /** Returns where to write a file that the job's commit makes visible in a directory. */
    Path newFile(Path directory, String name) throws IOException;

    /** Finds the files, and saves the manifest of them. */
    TaskCommit save(TaskManifestWriter writer) throws IOException;

    /** Removes the files of this attempt and nothing else. Idempotent. */
    void abort() throws IOException;

    /** Removes the empty directories that the attempt has made after the job's clean-up. */
    void removeLeftovers() throws IOException;
}
