package io.raycommitter;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Makes requests to a store, several at once. */
final class SideBySide {
    static final int THREADS = 16;

    /** One or more requests to the store. */
    interface Request<T> {
        T make() throws IOException;
    }

    private SideBySide() {}

    /** Returns the answers in order, after all requests; throws what the first of them has thrown. */
    static <T> List<T> all(List<Request<T>> requests) throws IOException {
        if (requests.size() == 1) {
            return Collections.singletonList(requests.get(0).make());
        }
        String name = Thread.currentThread().getName() + ", beside";
        ExecutorService threads = Executors.newFixedThreadPool(
                Math.max(1, Math.min(THREADS, requests.size())), task -> daemon(task, name));
        try {
            List<Callable<T>> calls = new ArrayList<>();
            requests.forEach(request -> calls.add(request::make));
            List<T> answers = new ArrayList<>();
            for (Future<T> done : threads.invokeAll(calls)) {
                answers.add(done.get());
            }
            return answers;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted during requests to a store");
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException) {
                throw (IOException) e.getCause();
            }
            throw new IOException(String.valueOf(e.getCause()), e.getCause());
        } finally {
            threads.shutdownNow();
        }
    }

    static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }
}
