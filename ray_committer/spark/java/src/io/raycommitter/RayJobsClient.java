package io.raycommitter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.HttpURLConnection;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/**
 * Submits jobs to a Ray cluster and follows them, through its REST API.
 *
 * <p>The name of a job is chosen here and not by Ray. So a request whose answer was lost can be repeated
 * without a second job: Ray refuses a name that it knows.
 */
final class RayJobsClient {
    static final long UNREACHABLE_SECONDS = 60;

    private static final String JOBS = "/api/jobs/";
    private static final long PAUSE_MILLIS = 1000;
    private static final int SHOWN_CHARACTERS = 2000;

    private final String address;
    private final HttpClient http;
    private final long unreachableNanos;

    /** Ray's status, message and driver_exit_code (null before the end) of a job. */
    static final class State {
        final String status;
        final String message;
        final String exitCode;

        State(JsonNode details) {
            status = text(details, "status");
            String given = text(details, "message");
            message = given == null ? "" : given;
            exitCode = text(details, "driver_exit_code");
        }

        /** Returns whether the command ended by itself; shells return more than 127 for a signal. */
        boolean hasAnswered() {
            return exitCode != null && exitCode.matches("\\d{1,2}|1[01]\\d|12[0-7]");
        }

        boolean hasEnded() {
            return "SUCCEEDED".equals(status) || "FAILED".equals(status)
                    || "STOPPED".equals(status);
        }
    }

    RayJobsClient(Settings settings) throws IOException {
        address = settings.get(Settings.ADDRESS).replaceAll("/+$", "");
        if (!address.matches("(?i)https?://.+")) {
            throw new IOException(Settings.ADDRESS + "=" + address + " is not"
                    + " the address of a Ray dashboard; use one like http://head:8265");
        }
        http = new HttpClient(address, tokenOf(settings));
        unreachableNanos = 1_000_000_000L
                * settings.seconds(Settings.UNREACHABLE_SECONDS, UNREACHABLE_SECONDS);
    }

    String address() {
        return address;
    }

    /**
     * Submits a job unless a job with this name exists already.
     *
     * @throws NothingRunsException if no job can have been submitted; after any other exception the job
     *     may run
     */
    void submit(String name, String request) throws IOException {
        long deadline = System.nanoTime() + unreachableNanos;
        boolean mayRun = false;
        while (true) {
            IOException failure;
            boolean isFinal = false;
            try {
                HttpClient.Answer answer = http.post(JOBS, request);
                if (answer.isOk() || !answer.isRefusal() && state(name) != null) {
                    return;
                }
                failure = failed(answer, "job " + name + " was not accepted");
                isFinal = answer.status < HttpURLConnection.HTTP_INTERNAL_ERROR;
                mayRun |= !isFinal;
            } catch (ConnectException | UnknownHostException e) {
                failure = unreachable(e);
            } catch (IOException e) {
                failure = unreachable(e);
                mayRun = true;
            }
            if (isFinal || System.nanoTime() - deadline > 0) {
                throw mayRun ? failure : new NothingRunsException(failure.getMessage(), failure);
            }
            pause();
        }
    }

    /** Returns the job's state; asks again while the cluster cannot be reached. */
    State requireState(String name) throws IOException {
        long deadline = System.nanoTime() + unreachableNanos;
        while (true) {
            IOException failure;
            try {
                State state = state(name);
                if (state != null) {
                    return state;
                }
                failure = new IOException(address + ": the cluster no longer knows job " + name);
            } catch (RefusedException e) {
                throw e;
            } catch (IOException e) {
                failure = unreachable(e);
            }
            if (System.nanoTime() - deadline > 0) {
                throw failure;
            }
            pause();
        }
    }

    /** Returns the whole output of a job so far, or null if it is not available now. */
    String logs(String name) {
        try {
            HttpClient.Answer answer = http.get(JOBS + name + "/logs");
            JsonNode object = answer.isOk() ? HandlerCall.objectOf(answer.body) : null;
            return object == null ? null : text(object, "logs");
        } catch (IOException e) {
            return null;
        }
    }

    /** Returns the whole output of a job that has ended; asks again for a while, then returns null. */
    String lastLogs(String name) throws InterruptedIOException {
        long deadline = System.nanoTime() + unreachableNanos;
        while (true) {
            String logs = logs(name);
            if (logs != null || System.nanoTime() - deadline > 0) {
                return logs;
            }
            pause();
        }
    }

    static void pause() throws InterruptedIOException {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("the driver was interrupted");
        }
    }

    /** Returns null if there is no such job. */
    private State state(String name) throws IOException {
        HttpClient.Answer answer = http.get(JOBS + name);
        if (answer.status == HttpURLConnection.HTTP_NOT_FOUND) {
            return null;
        }
        JsonNode details = answer.isOk() ? HandlerCall.objectOf(answer.body) : null;
        if (details == null) {
            throw failed(answer, "the state of job " + name + " is not available");
        }
        return new State(details);
    }

    private IOException failed(HttpClient.Answer answer, String what) {
        if (answer.isRefusal()) {
            return new RefusedException(address + ": the cluster refused the token ("
                    + answer.status + "); set " + Settings.TOKEN + " or RAY_AUTH_TOKEN to the"
                    + " token that the cluster was started with");
        }
        String body = answer.body.trim();
        String shown = body.substring(Math.max(0, body.length() - SHOWN_CHARACTERS));
        return new IOException(address + ": " + what + " (" + answer.status + "); check that "
                + Settings.ADDRESS + " is a Ray dashboard, with ray[default] installed: " + shown);
    }

    private IOException unreachable(IOException cause) {
        return new IOException(address + ": the Ray cluster does not answer (" + cause + "); check "
                + Settings.ADDRESS + " and that the cluster is running", cause);
    }

    private static String text(JsonNode object, String key) {
        JsonNode value = object.get(key);
        return value == null || value.isNull() ? null : value.asText();
    }

    /** Reads the token from the same places as Ray's own clients; null for a cluster without tokens. */
    private static String tokenOf(Settings settings) throws IOException {
        String file = System.getenv("RAY_AUTH_TOKEN_PATH");
        Path path = file != null ? Paths.get(file)
                : Paths.get(System.getProperty("user.home"), ".ray", "auth_token");
        String token = settings.get(Settings.TOKEN);
        if (token == null) {
            token = System.getenv("RAY_AUTH_TOKEN");
        }
        if (token == null && new File(path.toString()).isFile()) {
            token = new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
        }
        return token == null || token.trim().isEmpty() ? null : token.trim();
    }

    /** Thrown if another request cannot help. */
    private static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1L;

        RefusedException(String message) {
            super(message);
        }
    }
}
