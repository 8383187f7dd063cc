package io.raycommitter;

import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;

/**
 * Chooses the handler that commits a job, when the job is set up.
 *
 * <p>A handler that is installed or named in the settings comes first. If Python drives the driver
 * and there is neither, the user forgot to install; a commit in another process would hide that.
 */
final class CommitHandlers {
    private CommitHandlers() {}

    /** Returns null if there is no handler; {@code installed} is null if Python has installed none. */
    static JobCommitHandler choose(JobCommitHandler installed, Configuration conf) throws IOException {
        DriverSettings driver = DriverSettings.read();
        driver.requireOwn(SettingNames.COMMAND, conf);
        if (installed != null) {
            return installed;
        }
        String command = driver.get(SettingNames.COMMAND);
        if (command.isEmpty() && !hasPython() && isOnPath(ChildProcessHandler.DEFAULT_COMMAND)) {
            command = ChildProcessHandler.DEFAULT_COMMAND;
        }
        return command.isEmpty()
                ? null
                : new ChildProcessHandler(command, JobConfigurations.json(conf));
    }

    /** Returns the handler for a write to a destination, which must not be without one. */
    static JobCommitHandler require(String dest, Configuration conf) throws IOException {
        JobCommitHandler handler = Bridge.handlerFor(conf);
        if (handler == null) {
            throw new IOException("ray_committer: the write to " + dest + " uses "
                    + RayCommitProtocol.class.getName() + ", but " + nobody() + ", or set "
                    + SettingNames.COMMIT + "=spark to use Spark's own committer");
        }
        return handler;
    }

    /** Returns the error text for a driver without a handler, with what to do. */
    static String nobody() {
        String python = "call ray_committer.spark.install(spark) before writing";
        String child = "set " + SettingNames.COMMAND
                + " to the `ray-committer` command of this machine";
        return hasPython()
                ? "no commit handler is installed in this driver; " + python + ", or " + child
                : "no commit handler is installed in this driver and `ray-committer` is not on its"
                        + " PATH; " + child + ", or, in Python, " + python;
    }

    private static boolean isOnPath(String program) {
        String path = System.getenv("PATH");
        return path != null && Arrays.stream(path.split(File.pathSeparator))
                .map(directory -> new File(directory, program))
                .anyMatch(file -> file.isFile() && file.canExecute());
    }

    /**
     * Returns whether Python drives this JVM: then Py4J's server waits in one of its threads. It does
     * so if Python started the JVM, if spark-submit started Python, or if a notebook server did both.
     */
    static boolean hasPython() {
        return Thread.getAllStackTraces().values().stream()
                .flatMap(Arrays::stream)
                .anyMatch(frame -> frame.getClassName().startsWith("py4j."));
    }
}
