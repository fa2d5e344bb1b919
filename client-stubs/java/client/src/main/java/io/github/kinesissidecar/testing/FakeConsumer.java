// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.testing;

import io.github.kinesissidecar.Batch;
import io.github.kinesissidecar.Consumer;
import io.github.kinesissidecar.Handler;
import io.github.kinesissidecar.SidecarRecord;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * A consumer without a network. A test adds records, runs the app's code, and reads the outcomes. Reading ends after
 * the last record. A record that is retried is not redelivered.
 *
 * <pre>{@code
 * FakeConsumer consumer = new FakeConsumer();
 * FakeRecord record = consumer.add("customer-7", "{\"total\": 12}");
 * app.consume(consumer);
 * assertEquals("ack", record.outcome());
 * }</pre>
 */
public final class FakeConsumer implements Consumer {
    private final List<FakeRecord> records = new ArrayList<>();
    private final ArrayDeque<FakeRecord> waiting = new ArrayDeque<>();
    /** Handed out last by a loop. */
    private List<SidecarRecord> withLoop = List.of();
    private volatile boolean stopped;

    /** Makes a consumer without records. */
    public FakeConsumer() {
    }

    /** Adds a record that is delivered for the first time. */
    public FakeRecord add(String partitionKey, String data) {
        return add(partitionKey, data.getBytes(StandardCharsets.UTF_8), 1);
    }

    /** Adds a record. Its attempt is the number of the delivery, from 1. */
    public synchronized FakeRecord add(String partitionKey, byte[] data, int attempt) {
        FakeRecord record = new FakeRecord(partitionKey, data, records.size() + 1, attempt);
        records.add(record);
        waiting.add(record);
        return record;
    }

    /** Returns the records in the order in which they were added. */
    public synchronized List<FakeRecord> records() {
        return List.copyOf(records);
    }

    @Override
    public void run(Handler handler) {
        for (SidecarRecord record; (record = take()) != null;) {
            try {
                handler.handle(record);
                record.ack();
            } catch (Throwable failure) {
                record.retry(failure.getMessage() != null ? failure.getMessage() : failure.toString());
            }
        }
    }

    @Override
    public Iterator<SidecarRecord> iterator() {
        Iterator<Batch> batches = batches(1, Duration.ZERO).iterator();
        return new Iterator<>() {
            @Override
            public boolean hasNext() {
                return batches.hasNext();
            }

            @Override
            public SidecarRecord next() {
                return batches.next().records().get(0);
            }
        };
    }

    @Override
    public Iterable<Batch> batches(int maxRecords, Duration maxWait) {
        return () -> new Iterator<>() {
            private List<SidecarRecord> previous = List.of();
            private List<SidecarRecord> following = List.of();
            private boolean begun;

            @Override
            public boolean hasNext() {
                if (!begun)
                    putBack();
                begun = true;
                if (following.isEmpty()) {
                    previous.forEach(SidecarRecord::ack);
                    previous = List.of();
                    following = take(maxRecords);
                    withLoop = following;
                }
                return !following.isEmpty();
            }

            @Override
            public Batch next() {
                if (!hasNext())
                    throw new NoSuchElementException("there are no further records");
                List<SidecarRecord> batch = following;
                previous = batch;
                following = List.of();
                return () -> batch;
            }
        };
    }

    @Override
    public long stale() {
        return 0;
    }

    @Override
    public long failed() {
        return 0;
    }

    @Override
    public void stop() {
        stopped = true;
    }

    @Override
    public void close() {
        stop();
    }

    private synchronized SidecarRecord take() {
        return stopped ? null : waiting.poll();
    }

    /** The records without an outcome of a loop that was left are handed out again. */
    private synchronized void putBack() {
        for (int i = withLoop.size(); i-- > 0;) {
            FakeRecord record = (FakeRecord) withLoop.get(i);
            if (record.outcome().isEmpty())
                waiting.addFirst(record);
        }
    }

    private List<SidecarRecord> take(int max) {
        List<SidecarRecord> taken = new ArrayList<>();
        for (SidecarRecord record; taken.size() < max && (record = take()) != null;)
            taken.add(record);
        return taken;
    }
}
