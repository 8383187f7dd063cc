package io.raycommitter;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.SocketTimeoutException;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/** Makes requests with a deadline and a bearer token; no text that it returns contains the token. */
final class HttpClient {
    private static final int CONNECT_MILLIS = 10_000;
    private static final int READ_MILLIS = 30_000;
    private static final long DEADLINE_NANOS = 60_000_000_000L;
    private static final int MAX_ANSWER_BYTES = 16 * 1024 * 1024;

    private final String base;
    private final String token;

    /** An answer of any status; its body is cut off after some megabytes. */
    static final class Answer {
        final int status;
        final String body;

        Answer(int status, String body) {
            this.status = status;
            this.body = body;
        }

        boolean isOk() {
            return status == HttpURLConnection.HTTP_OK;
        }

        boolean isRefusal() {
            return status == HttpURLConnection.HTTP_UNAUTHORIZED
                    || status == HttpURLConnection.HTTP_FORBIDDEN;
        }
    }

    /** Sends no token if it is null. */
    HttpClient(String base, String token) {
        this.base = base;
        this.token = token;
    }

    Answer get(String path) throws IOException {
        return read(open("GET", path));
    }

    Answer post(String path, String json) throws IOException {
        HttpURLConnection connection = open("POST", path);
        connection.setRequestProperty("Content-Type", "application/json");
        connection.setDoOutput(true);
        try (OutputStream body = connection.getOutputStream()) {
            body.write(json.getBytes(StandardCharsets.UTF_8));
        }
        return read(connection);
    }

    private HttpURLConnection open(String method, String path) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(base + path).openConnection();
        connection.setRequestMethod(method);
        connection.setConnectTimeout(CONNECT_MILLIS);
        connection.setReadTimeout(READ_MILLIS);
        connection.setInstanceFollowRedirects(false); // A redirect would take the token elsewhere.
        connection.setUseCaches(false);
        if (token != null) {
            connection.setRequestProperty("Authorization", "Bearer " + token);
        }
        return connection;
    }

    private static Answer read(HttpURLConnection connection) throws IOException {
        long deadline = System.nanoTime() + DEADLINE_NANOS;
        int status = connection.getResponseCode();
        InputStream stream =
                status < 400 ? connection.getInputStream() : connection.getErrorStream();
        if (stream == null) {
            return new Answer(status, "");
        }
        try (InputStream body = stream) {
            return new Answer(status, readAll(body, deadline));
        }
    }

    /** Reads until the deadline: the time-out of the connection starts again with every byte. */
    private static String readAll(InputStream body, long deadline) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] buffer = new byte[64 * 1024];
        for (int n = body.read(buffer); n >= 0; n = body.read(buffer)) {
            all.write(buffer, 0, n);
            if (System.nanoTime() - deadline > 0) {
                throw new SocketTimeoutException("the answer took too long");
            }
            if (all.size() > MAX_ANSWER_BYTES) {
                break;
            }
        }
        return new String(all.toByteArray(), StandardCharsets.UTF_8);
    }
}
