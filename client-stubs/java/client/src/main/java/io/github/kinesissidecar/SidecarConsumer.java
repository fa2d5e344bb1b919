// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;

/** The consumer that reads from a sidecar. */
final class SidecarConsumer implements Consumer {
    /** Longer than a last request and the end of the session may take. */
    private static final long CLOSE_MS = 30_000;

    private final Options options;
    private final ConsumerState state;
    private final StreamReader reader;
    private final CountDownLatch runEnded = new CountDownLatch(1);
    private Thread readerThread;
    private Thread settlerThread;
    private Workers workers;
    private boolean closed;
    /** The loop that began last; null: none. */
    private volatile Items<?> loop;

    SidecarConsumer(Options options) {
        this.options = options;
        state = new ConsumerState(options);
        reader = new StreamReader(options, state);
    }

    @Override
    public void run(Handler handler) {
        begin(handler);
        Thread hook = new Thread(this::close, "kinesis-sidecar-" + options.clientId + "-shutdown");
        boolean hooked = options.shutdownHook && addHook(hook);
        try {
            workers.run();
        } finally {
            shut();
            runEnded.countDown();
            if (hooked)
                removeHook(hook);
        }
        state.check();
    }

    @Override
    public Iterator<SidecarRecord> iterator() {
        return new Items<SidecarRecord>(previous -> state.next((Delivery) previous, false), List::of);
    }

    @Override
    public Iterable<Batch> batches(int maxRecords, Duration maxWait) {
        Options.within("max_records", maxRecords, 1, Integer.MAX_VALUE);
        Options.within("max_wait (ms)", maxWait.toMillis(), 0, Options.MAX_DELAY_MS);
        long nanos = maxWait.toNanos();
        return () -> new Items<Batch>(previous -> state.nextBatch(previous, maxRecords, nanos), Batch::records);
    }

    @Override
    public long stale() {
        return state.stale();
    }

    @Override
    public long failed() {
        return state.failed();
    }

    @Override
    public void stop() {
        state.stop();
    }

    @Override
    public void close() {
        state.stop();
        Workers running;
        synchronized (this) {
            running = workers;
        }
        if (running != null) {
            /* A handler cannot wait for itself. The run closes the consumer at its end. */
            if (!running.contains(Thread.currentThread()))
                awaitRun();
            return;
        }
        shut();
    }

    private synchronized void begin(Handler handler) {
        if (workers != null)
            throw new IllegalStateException("a consumer has one run; build another consumer");
        if (!open())
            throw new IllegalStateException("the consumer is closed; build another consumer");
        workers = new Workers(options, state, handler);
    }

    /** Begins the threads, at the first record that is asked for. Returns false if the consumer is closed. */
    private synchronized boolean open() {
        if (closed)
            return false;
        if (readerThread == null) {
            readerThread = start(reader, "stream");
            settlerThread = start(new Settler(options, state), "settle");
        }
        return true;
    }

    /** Begins a loop in place of the one before. Returns false if the consumer is closed. */
    private synchronized boolean begin(Items<?> next) {
        if (!open())
            return false;
        if (loop != null)
            loop.putBack();
        loop = next;
        return true;
    }

    private Thread start(Runnable task, String name) {
        Thread thread = new Thread(task, "kinesis-sidecar-" + options.clientId + "-" + name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Sends what waits, closes the session and ends the threads. */
    private synchronized void shut() {
        if (closed)
            return;
        closed = true;
        state.close();
        if (readerThread == null)
            return;
        boolean interrupted = join(settlerThread);
        reader.close();
        interrupted |= join(readerThread);
        if (interrupted)
            Thread.currentThread().interrupt();
    }

    private static boolean join(Thread thread) {
        boolean interrupted = Thread.interrupted();
        long end = System.nanoTime() + CLOSE_MS * 1_000_000;
        for (long left; thread.isAlive() && (left = (end - System.nanoTime()) / 1_000_000) > 0;) {
            try {
                thread.join(left);
            } catch (InterruptedException again) {
                interrupted = true;
            }
        }
        return interrupted;
    }

    private void awaitRun() {
        try {
            runEnded.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean addHook(Thread hook) {
        try {
            Runtime.getRuntime().addShutdownHook(hook);
            return true;
        } catch (IllegalStateException shuttingDown) {
            return false;
        }
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            // The hook runs, or has run.
        }
    }

    /** What the app iterates over: records or batches. Asking for the next item settles the one before. */
    private final class Items<T> implements Iterator<T> {
        private final Source<T> source;
        private final Function<T, List<SidecarRecord>> records;
        private T previous;
        private T next;
        private boolean begun;

        Items(Source<T> source, Function<T, List<SidecarRecord>> records) {
            this.source = source;
            this.records = records;
        }

        /** The app left the loop. Records without an outcome are handed out by the next one. */
        void putBack() {
            T last = next != null ? next : previous;
            if (last != null)
                state.putBack(records.apply(last));
        }

        @Override
        public boolean hasNext() {
            if (next != null)
                return true;
            if (!begun && !(begun = begin(this)))
                return false;
            if (loop != this)
                throw new IllegalStateException("another loop over the consumer has begun; it has one at a time");
            try {
                next = source.next(previous);
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
            previous = null;
            if (next == null)
                state.check();
            return next != null;
        }

        @Override
        public T next() {
            if (next == null && !hasNext())
                throw new NoSuchElementException("the consumer was stopped");
            previous = next;
            next = null;
            return previous;
        }
    }

    private interface Source<T> {
        /** Returns null when the consumer stops. */
        T next(T previous) throws InterruptedException;
    }
}
