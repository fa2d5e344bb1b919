// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** The settlements that wait to be sent. The lock of the state guards it. */
final class Outbox {
    /** Far below the sidecar's limits on items and bytes of a request. */
    private static final int MAX_ITEMS = 1000;

    private final long ackIntervalNanos;
    /** Batches with acknowledgements that are in no request yet. */
    private final List<DeliveredBatch> batches = new ArrayList<>();
    /** All other outcomes. They leave at once. */
    private final List<Settlement> others = new ArrayList<>();
    private int acks;
    private long ackBytes;
    /** When the oldest acknowledgement came. */
    private long oldest;
    private boolean urgent;
    private long lastBarrier;

    Outbox(long ackIntervalNanos) {
        this.ackIntervalNanos = ackIntervalNanos;
    }

    /** Adds an acknowledgement. Returns true if it is the first one. */
    boolean add(Delivery record) {
        DeliveredBatch batch = record.batch;
        batch.acked++;
        if (batch.unsent.isEmpty())
            batches.add(batch);
        batch.unsent.add(record);
        acks++;
        ackBytes += record.data.length;
        if (acks == 1)
            oldest = System.nanoTime();
        return acks == 1;
    }

    void add(Settlement other) {
        others.add(other);
        urgent = true;
    }

    /** Takes the settlement of a record back. Returns false if it is in a request. */
    boolean withdraw(Delivery record) {
        DeliveredBatch batch = record.batch;
        if (record.outcome != Outcome.ACK)
            return others.removeIf(item -> item.records().contains(record));
        if (!batch.unsent.remove(record))
            return false;
        batch.acked--;
        acks--;
        ackBytes -= record.data.length;
        return true;
    }

    /** Has everything leave at once. */
    void hurry() {
        urgent = true;
    }

    boolean isEmpty() {
        return acks == 0 && others.isEmpty();
    }

    /** Returns true if half of what may be in flight waits here. */
    boolean isHalfOf(int maxRecords, long maxBytes) {
        return acks * 2 >= maxRecords || ackBytes * 2 >= maxBytes;
    }

    /** Returns in how many nanoseconds the settlements must leave. */
    long due(long now) {
        if (isEmpty())
            return Long.MAX_VALUE;
        return urgent ? 0 : Math.max(0, oldest + ackIntervalNanos - now);
    }

    /** Returns the records whose settlements wait. */
    Stream<Delivery> records() {
        return Stream.concat(batches.stream().flatMap(batch -> batch.unsent.stream()),
                others.stream().flatMap(item -> item.records().stream()));
    }

    /** Forgets everything. */
    void clear() {
        batches.clear();
        others.clear();
        acks = 0;
        ackBytes = 0;
        urgent = false;
    }

    /** Takes everything. A refusal of another outcome must not concern acknowledgements, so no request has both. */
    List<SettleRequest> take(long generation) {
        List<SettleRequest> requests = new ArrayList<>(2);
        List<Settlement> items = new ArrayList<>();
        for (DeliveredBatch batch : batches)
            takeAcks(batch, items);
        for (List<Settlement> part : parts(items))
            requests.add(new SettleRequest(part, generation, 0, false));
        for (List<Settlement> part : parts(List.copyOf(others)))
            requests.add(new SettleRequest(part, generation, barrier(part), false));
        clear();
        return requests;
    }

    /** Makes requests that extend ack deadlines. */
    static List<SettleRequest> extensions(List<Settlement> items, long generation) {
        return parts(items).stream().map(part -> new SettleRequest(part, generation, 0, true)).toList();
    }

    private static List<List<Settlement>> parts(List<Settlement> items) {
        List<List<Settlement>> parts = new ArrayList<>(1);
        for (int i = 0; i < items.size(); i += MAX_ITEMS)
            parts.add(items.subList(i, Math.min(i + MAX_ITEMS, items.size())));
        return parts;
    }

    /** Returns the number of the request's barrier, and notes it in the holds; 0: none is needed. */
    private long barrier(List<Settlement> items) {
        long barrier = 0;
        for (Settlement item : items) {
            if (item.hold() == null)
                continue;
            if (barrier == 0)
                barrier = ++lastBarrier;
            item.hold().barrier = barrier;
        }
        return barrier;
    }

    private static void takeAcks(DeliveredBatch batch, List<Settlement> items) {
        List<Delivery> records = batch.unsent;
        batch.unsent = new ArrayList<>();
        if (batch.isAcknowledgedWhole())
            items.add(Settlement.ofAcknowledged(batch, records));
        else
            records.forEach(record -> items.add(Settlement.of(record, null)));
    }
}
