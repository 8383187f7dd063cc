package io.raycommitter;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/** Eight bytes of the SHA-256 of a path: two of a million paths are equal once in 37 million tables. */
final class Fingerprint {
    private static final ThreadLocal<MessageDigest> SHA256 =
            ThreadLocal.withInitial(() -> TaskManifestWriter.digester("SHA-256"));

    private Fingerprint() {}

    static long of(String path) {
        byte[] digest = SHA256.get().digest(path.getBytes(StandardCharsets.UTF_8));
        return ByteBuffer.wrap(digest).getLong();
    }
}
