// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * All state of a consumer, under one lock: the records that were delivered, their outcomes, and what is to be sent. The
 * stream reader brings records, the app takes and settles them, and the settler takes requests. A session begins a
 * generation: settlements of an earlier one have no effect.
 */
final class ConsumerState {
    private final Options options;
    private final ReentrantLock lock = new ReentrantLock();
    /** A record may be taken, or the consumer stops. */
    private final Condition available = lock.newCondition();
    /** There may be something to send. */
    private final Condition work = lock.newCondition();
    /** A session has begun, or the consumer closes. */
    private final Condition ended = lock.newCondition();

    private final Lanes lanes;
    private final Outbox outbox;
    /** Batches with a record that has no outcome, or that may get further records. */
    private final Set<DeliveredBatch> batches = new LinkedHashSet<>();
    /** Extensions that the app asked for. */
    private final List<Settlement> extensions = new ArrayList<>();
    /** Requests with outcomes that were taken and have no answer, in order. */
    private final ArrayDeque<SettleRequest> unanswered = new ArrayDeque<>();
    /**
     * Records of earlier sessions and of lost leases that the app has, or whose outcome the sidecar has not confirmed.
     * If one is redelivered, the app does not get it again.
     */
    private final Map<Position, Delivery> unconfirmed = new HashMap<>();
    /** Such records of this session. Null outside of `apply`, and until the first redelivery in it. */
    private Map<Position, Delivery> earlier;
    /** By shard: the first record of its last batch in this session. */
    private final Map<String, Delivery> heads = new HashMap<>();
    private long barrierSeen;

    private DeliveredBatch current;
    private volatile long generation;
    private int maxInFlight = 1000;
    private long maxInFlightBytes = 16 << 20;
    private long ackDeadlineMs = 60_000;
    private long extendedAt;

    /* These are written under the lock and read without it, too. */
    private volatile boolean stopping;
    private volatile boolean closing;
    private volatile SidecarException failure;
    private volatile long stale;
    private volatile long failed;

    ConsumerState(Options options) {
        this.options = options;
        lanes = new Lanes(options.ordering, available);
        outbox = new Outbox(options.ackInterval.toNanos());
    }

    private void locked(Runnable change) {
        lock.lock();
        try {
            change.run();
        } finally {
            lock.unlock();
        }
    }

    /* ---- For the stream reader. ---- */

    /** Takes what the stream brought: each item is a Delivery or an Event. */
    void apply(List<Object> items) {
        locked(() -> {
            for (Object item : items) {
                if (item instanceof Delivery record)
                    add(record);
                else
                    control((Event) item);
            }
            earlier = null;
            lanes.wake();
        });
    }

    private void add(Delivery record) {
        if (current == null || !current.id.equals(record.batchId))
            nextBatch(record);
        lanes.assign(record);
        record.lane.enter(record, barrierSeen);
        if (record.attempt > 1)
            lanes.replace(record).forEach(this::recall);
        if ((record.attempt > 1 || !unconfirmed.isEmpty()) && adopt(record))
            return;
        if (!record.lane.holds.isEmpty()) {
            lanes.confirm(record).forEach(this::recall);
            resolveHolds();
        }
        record.since = current.since;
        enter(record, record);
        lanes.add(record);
    }

    /** Events may stand between the records of a batch: only a record of another batch ends it. */
    private void nextBatch(Delivery first) {
        if (current != null) {
            current.complete = true;
            removeIfOver(current);
        }
        current = new DeliveredBatch(first.batchId, generation, System.nanoTime());
        batches.add(current);
        if (!first.redriven)
            heads.put(first.shardId, first);
    }

    /** Puts the record into the current batch. `last`: its last delivery. */
    private void enter(Delivery record, Delivery last) {
        record.ackId = last.ackId;
        record.leaseEpoch = last.epoch;
        record.batch = current;
        record.barrierSeen = barrierSeen;
        current.records.add(record);
        current.open++;
    }

    /** Returns true if the app has an earlier delivery of the record, whose outcome settles this one. */
    private boolean adopt(Delivery redelivery) {
        Delivery record = earlier(redelivery);
        if (record == null || !withdraw(record))
            return false;
        enter(record, redelivery);
        if (record.outcome != null)
            accept(record);
        return true;
    }

    private Delivery earlier(Delivery redelivery) {
        Delivery record = unconfirmed.remove(redelivery.position());
        if (record != null || redelivery.attempt == 1)
            return record;
        if (earlier == null) {
            earlier = new HashMap<>();
            keepUnconfirmed(earlier, any -> true);
        }
        return earlier.get(redelivery.position());
    }

    /**
     * Takes the record out of its batch of this session. Returns false if its retry was sent: the retry may have caused
     * the redelivery, and the app gets it.
     */
    private boolean withdraw(Delivery record) {
        if (record.batch.generation != generation)
            return true;
        if (record.outcome == null) {
            close(record.batch);
            return true;
        }
        boolean waited = outbox.withdraw(record);
        if (record.outcome != Outcome.RETRY)
            return true;
        if (waited)
            lanes.forgetHold(record);
        return waited;
    }

    private void control(Event event) {
        switch (event.type()) {
            case "session" -> begin(event);
            case "barrier" -> barrier(event.text("barrier"));
            case "lease_lost" -> lose(event.text("shard_id"));
            default -> { }
        }
    }

    /** Begins a generation. Settlements of the earlier one are stale, and its records are redelivered. */
    private void begin(Event session) {
        drop(record -> true);
        unconfirmed.values().removeIf(this::isSettled);
        keepUnconfirmed(unconfirmed, any -> true);
        earlier = null;
        heads.clear();
        generation++;
        current = null;
        batches.clear();
        outbox.clear();
        extensions.clear();
        unanswered.clear();
        lanes.forgetHolds();
        maxInFlight = (int) session.number("max_in_flight");
        maxInFlightBytes = session.number("max_in_flight_bytes");
        ackDeadlineMs = session.number("ack_deadline_ms");
        extendedAt = System.nanoTime();
        work.signal();
        ended.signalAll();
    }

    /** Adds the unconfirmed records of this session. The last delivery of a record counts. */
    private void keepUnconfirmed(Map<Position, Delivery> kept, Predicate<Delivery> which) {
        Stream<Delivery> decided = Stream.concat(unanswered.stream().flatMap(SettleRequest::records), outbox.records());
        Stream<Delivery> running = batches.stream().flatMap(batch -> batch.records.stream())
                .filter(record -> record.begun && record.outcome == null);
        Stream.concat(decided, running).filter(which).forEach(record -> kept.put(record.position(), record));
    }

    /** Returns true if the session went on behind the record without it. A redriven record has no order. */
    private boolean isSettled(Delivery record) {
        if (record.outcome == null)
            return false;
        Delivery head = heads.get(record.shardId);
        return record.redriven || (head != null && head.isAfter(record));
    }

    /** Another owner has the shard, perhaps for a while. It redelivers the records that are not settled. */
    private void lose(String shardId) {
        Predicate<Delivery> isLost = record -> record.shardId.equals(shardId) && !record.redriven;
        drop(isLost);
        keepUnconfirmed(unconfirmed, isLost);
    }

    /** The connection has ended. The session accepts settlements until the next one begins. */
    void disconnected() {
        locked(() -> {
            current = null;
            drop(record -> true);
        });
    }

    /** Drops records that the app has not begun. They are redelivered. */
    private void drop(Predicate<Delivery> which) {
        lanes.remove(which).forEach(this::recall);
    }

    private void recall(Delivery record) {
        record.outcome = Outcome.RECALLED;
        close(record.batch);
    }

    /** Notes that a record of the batch has its outcome. */
    private void close(DeliveredBatch batch) {
        batch.open--;
        removeIfOver(batch);
    }

    private void removeIfOver(DeliveredBatch batch) {
        if (batch.complete && batch.open == 0)
            batches.remove(batch);
    }

    private void barrier(String text) {
        if (!text.matches("[0-9]{1,18}"))
            return;
        /* The barrier of a repeated request is repeated. */
        barrierSeen = Math.max(barrierSeen, Long.parseLong(text));
        resolveHolds();
    }

    private void resolveHolds() {
        lanes.resolve(barrierSeen).forEach(this::recall);
    }

    /* ---- For the app. ---- */

    /**
     * Acknowledges the previous record, unless it has an outcome, and waits for the next one. `exclusive`: records of
     * one lane are taken one after the other. Returns null when the consumer stops.
     */
    Delivery next(Delivery previous, boolean exclusive) throws InterruptedException {
        lock.lock();
        try {
            if (previous != null)
                decide(previous, Outcome.ACK, 0, "");
            if (previous != null && exclusive)
                lanes.release(previous.lane);
            while (!stopping) {
                Delivery record = lanes.take(exclusive);
                if (record != null)
                    return record;
                available.await();
            }
            return null;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Acknowledges the previous records and waits for up to `max` records, and no longer than `waitNanos` after the
     * first one. Returns null when the consumer stops.
     */
    Batch nextBatch(Batch previous, int max, long waitNanos) throws InterruptedException {
        List<SidecarRecord> records = new ArrayList<>();
        lock.lock();
        try {
            if (previous != null)
                previous.ack();
            long left = waitNanos;
            while (!stopping && records.size() < max) {
                Delivery record = lanes.take(false);
                if (record != null)
                    records.add(record);
                else if (records.isEmpty())
                    available.await();
                else if ((left = available.awaitNanos(left)) <= 0)
                    break;
            }
            /* The wait may have ended together with a wake-up that another thread needs. */
            lanes.wake();
            return stopping ? null : () -> records;
        } catch (InterruptedException end) {
            putBack(records);
            throw end;
        } finally {
            lock.unlock();
        }
    }

    /** Lets records without an outcome, of a loop that was left, be taken again, unless they will be redelivered. */
    void putBack(List<SidecarRecord> records) {
        locked(() -> {
            for (SidecarRecord item : records)
                if (((Delivery) item).outcome == null)
                    putBack((Delivery) item);
            lanes.wake();
        });
    }

    private void putBack(Delivery record) {
        if (unconfirmed.remove(record.position(), record) || record.batch.generation != generation
                || record.lane.hasTakenBack(record)) {
            recall(record);
            return;
        }
        record.begun = false;
        lanes.putBack(record);
    }

    void settle(Delivery record, Outcome outcome, long delayMs, String reason) {
        lock.lock();
        try {
            decide(record, outcome, delayMs, reason);
        } finally {
            lock.unlock();
        }
    }

    private void decide(Delivery record, Outcome outcome, long delayMs, String reason) {
        if (record.outcome != null)
            return;
        if (!record.begun)
            lanes.remove(record);
        record.outcome = outcome;
        record.delayMs = delayMs;
        record.reason = reason;
        if (!isStale(record))
            accept(record);
        else if (closing || unconfirmed.get(record.position()) != record)
            stale++;
    }

    private boolean isStale(Delivery record) {
        return record.batch.generation != generation || closing;
    }

    /** Takes the outcome of a record of this session. */
    private void accept(Delivery record) {
        close(record.batch);
        if (record.outcome == Outcome.ACK) {
            boolean first = outbox.add(record);
            if (first || outbox.isHalfOf(maxInFlight, maxInFlightBytes))
                work.signal();
            return;
        }
        outbox.add(Settlement.of(record, record.outcome == Outcome.RETRY ? lanes.hold(record) : null));
        work.signal();
    }

    void extend(Delivery record, long delayMs) {
        locked(() -> {
            if (record.outcome != null || isStale(record))
                return;
            extensions.add(Settlement.extending(record, delayMs));
            work.signal();
        });
    }

    boolean ackPersisted(Delivery record) {
        String ackId;
        long of;
        lock.lock();
        try {
            decide(record, Outcome.ACK, 0, "");
            if (record.outcome != Outcome.ACK || isStale(record))
                return false;
            /* The checkpoint covers the record after all earlier ones of its shard were settled. */
            outbox.hurry();
            work.signal();
            ackId = record.ackId();
            of = record.batch.generation;
        } finally {
            lock.unlock();
        }
        /* Another connection than the settler's, because the wait would delay other settlements. */
        try (SettleClient client = new SettleClient(options)) {
            return client.ackPersisted(ackId, this, of);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /* ---- For the settler. ---- */

    /** Waits for what is to be sent. Returns null after the last request of a consumer that closes. */
    List<SettleRequest> awaitRequests() throws InterruptedException {
        lock.lock();
        try {
            while (true) {
                if (failure instanceof SessionTakenOverException)
                    return null;
                long now = System.nanoTime();
                long due = outbox.due(now);
                boolean half = outbox.isHalfOf(maxInFlight, maxInFlightBytes) || closing;
                if (due == 0 || (half && !outbox.isEmpty()))
                    return takeRequests();
                if (closing)
                    return null;
                long third = TimeUnit.MILLISECONDS.toNanos(ackDeadlineMs) / 3;
                long extension = extendedAt + third - now;
                if (!extensions.isEmpty() || (!batches.isEmpty() && extension <= 0))
                    return takeExtensions(now, extension <= 0);
                /* A batch that arrives meanwhile is extended a third of the deadline from now. That is early enough. */
                work.awaitNanos(Math.min(due, batches.isEmpty() ? third : extension));
            }
        } finally {
            lock.unlock();
        }
    }

    private List<SettleRequest> takeRequests() {
        List<SettleRequest> requests = outbox.take(generation);
        unanswered.addAll(requests);
        return requests;
    }

    /** Takes the extensions that the app asked for. `all`: also those of all batches that it has. */
    private List<SettleRequest> takeExtensions(long now, boolean all) {
        List<Settlement> items = new ArrayList<>(extensions);
        extensions.clear();
        if (all) {
            extendedAt = now;
            for (DeliveredBatch batch : batches)
                if (batch.open > 0)
                    extend(batch, now, items);
        }
        return Outbox.extensions(items, generation);
    }

    /** Extends a batch by one item, unless that extended a record which the app has for too long. */
    private void extend(DeliveredBatch batch, long now, List<Settlement> items) {
        List<Delivery> open = batch.openRecords();
        List<Delivery> due = open.stream()
                .filter(record -> now - record.since < options.maxProcessing.toNanos()).toList();
        if (due.size() == open.size())
            items.add(Settlement.extending(batch, ackDeadlineMs));
        else
            due.forEach(record -> items.add(Settlement.extending(record, ackDeadlineMs)));
    }

    /** Notes the answer to a request. `refused`: the reasons of the settlements that failed, by their ids. */
    void answered(SettleRequest request, Map<Object, Object> refused) {
        locked(() -> {
            failed += refused.size();
            if (request.generation() == generation)
                confirm(request, refused);
        });
    }

    /**
     * Notes that the session of a request has ended, or that the request gets no answer any more. The next session frees
     * the lanes of its retries.
     */
    void expired(SettleRequest request) {
        locked(() -> {
            /* After a new session its records are among the unconfirmed ones. */
            if (request.generation() != generation)
                return;
            stale += request.records().count();
            forget(request);
        });
    }

    private void forget(SettleRequest request) {
        unanswered.remove();
        if (!unconfirmed.isEmpty())
            request.records().forEach(record -> unconfirmed.remove(record.position(), record));
    }

    private void confirm(SettleRequest request, Map<Object, Object> refused) {
        forget(request);
        for (Settlement item : request.settlements())
            if (item.hold() != null)
                item.hold().judge(refused.get(item.id()));
        resolveHolds();
    }

    /** Waits before a request is repeated. Returns false if there is no point in it. */
    boolean awaitRepeat(long of, long milliseconds) throws InterruptedException {
        lock.lock();
        try {
            long left = TimeUnit.MILLISECONDS.toNanos(milliseconds);
            while (left > 0 && of == generation && !closing)
                left = ended.awaitNanos(left);
            return of == generation && !closing;
        } finally {
            lock.unlock();
        }
    }

    /* ---- The end. ---- */

    /** Hands out no further records. */
    void stop() {
        locked(() -> {
            stopping = true;
            available.signalAll();
        });
    }

    /** Ends the consumer with a failure. The first one counts. */
    void fail(SidecarException cause) {
        locked(() -> {
            if (failure == null)
                failure = cause;
            stop();
            work.signal();
        });
    }

    /** Sends what waits, and takes no further settlements. */
    void close() {
        locked(() -> {
            stop();
            closing = true;
            work.signal();
            ended.signalAll();
        });
    }

    boolean isClosing() {
        return closing;
    }

    /** Returns true if the consumer may have an open session. */
    boolean hasSession() {
        return generation > 0 && !(failure instanceof SessionTakenOverException);
    }

    /** Throws what ended the consumer, if anything but a stop did. */
    void check() {
        if (failure != null)
            throw failure;
    }

    long stale() {
        return stale;
    }

    long failed() {
        return failed;
    }
}
