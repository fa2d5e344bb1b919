// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicLong;

/** The threads of a run that call the handler. */
final class Workers {
    /** From this version on, code that synchronizes does not pin the carrier of a virtual thread (JEP 491). */
    private static final int JAVA_WITHOUT_PINNING = 24;

    private final Options options;
    private final ConsumerState state;
    private final Handler handler;
    private final List<Thread> threads = new CopyOnWriteArrayList<>();

    Workers(Options options, ConsumerState state, Handler handler) {
        this.options = options;
        this.state = state;
        this.handler = handler;
    }

    /** Calls the handler with each record until the consumer stops. An interrupt stops it. */
    void run() {
        for (int i = 0; i < options.concurrency; i++)
            threads.add(options.threadFactory.newThread(this::work));
        threads.forEach(Thread::start);
        boolean interrupted = false;
        for (Thread thread : threads)
            interrupted |= join(thread);
        if (interrupted)
            Thread.currentThread().interrupt();
    }

    boolean contains(Thread thread) {
        return threads.contains(thread);
    }

    private boolean join(Thread thread) {
        boolean interrupted = false;
        while (true) {
            try {
                thread.join();
                return interrupted;
            } catch (InterruptedException stop) {
                interrupted = true;
                state.stop();
            }
        }
    }

    private void work() {
        Delivery record = null;
        while (true) {
            try {
                record = state.next(record, true);
            } catch (InterruptedException byHandler) {
                /* A handler has left the thread interrupted. The record before is settled already. */
                record = null;
                continue;
            }
            if (record == null)
                return;
            handle(record);
        }
    }

    private void handle(Delivery record) {
        try {
            handler.handle(record);
        } catch (Throwable failure) {
            record.retry(failure.getMessage() != null ? failure.getMessage() : failure.toString());
        }
    }

    /** Returns a factory of virtual threads if the runtime does not pin them, else of platform threads. */
    static ThreadFactory threadFactory(String clientId) {
        String name = "kinesis-sidecar-" + clientId + "-";
        if (Runtime.version().feature() >= JAVA_WITHOUT_PINNING) {
            try {
                Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
                Class<?> type = Class.forName("java.lang.Thread$Builder");
                type.getMethod("name", String.class, long.class).invoke(builder, name, 0L);
                return (ThreadFactory) type.getMethod("factory").invoke(builder);
            } catch (ReflectiveOperationException absent) {
                // Platform threads do the same.
            }
        }
        AtomicLong number = new AtomicLong();
        return task -> {
            Thread thread = new Thread(task, name + number.getAndIncrement());
            thread.setDaemon(true);
            return thread;
        };
    }
}
