// Compile-only declaration, never in the jar.
package org.apache.spark.internal.io;

public abstract class FileCommitProtocol {
    public static class TaskCommitMessage {
        public TaskCommitMessage(Object obj) {}

        public native Object obj();
    }
}
