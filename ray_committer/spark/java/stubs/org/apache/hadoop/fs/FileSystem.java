// Compile-only declaration, never in the jar.
package org.apache.hadoop.fs;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Progressable;

public abstract class FileSystem {
    public native Configuration getConf();

    public native Path makeQualified(Path path);

    public native boolean exists(Path path) throws IOException;

    public abstract FileStatus getFileStatus(Path path) throws IOException;

    public abstract FileStatus[] listStatus(Path path) throws IOException;

    public native RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException;

    public native RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive)
            throws IOException;

    public native boolean hasPathCapability(Path path, String capability) throws IOException;

    public native MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base)
            throws IOException;

    public native boolean mkdirs(Path path) throws IOException;

    public abstract boolean delete(Path path, boolean recursive)
            throws IOException;

    public abstract boolean rename(Path source, Path destination) throws IOException;

    public native FSDataInputStream open(Path path) throws IOException;

    public native FSDataOutputStream create(Path path, boolean overwrite) throws IOException;

    public native FSDataOutputStream createNonRecursive(
            Path path,
            boolean overwrite,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException;

    public native short getDefaultReplication(Path path);

    public native long getDefaultBlockSize(Path path);
}
