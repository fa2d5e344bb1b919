// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;

/** A record that was delivered. The decoder fills the fields of the message. The lock of the state guards the rest. */
final class Delivery implements SidecarRecord {
    private static final byte[] NONE = {};

    final ConsumerState state;

    /* Decoded when they are asked for: for most records nothing asks. */
    byte[] ackId = NONE;
    byte[] sequenceNumber = NONE;
    byte[] partitionKey = NONE;
    String batchId = "";
    String stream = "";
    String shardId = "";
    long epoch;
    long subSequenceNumber;
    long arrivedAtMs;
    int attempt;
    boolean aggregated;
    boolean redriven;
    byte[] data = NONE;
    /** The number of its lane in the shard, with ordering by key. */
    int laneNumber;

    /** The batch of the last delivery of this record. */
    DeliveredBatch batch;
    Lane lane;
    /** The lease epoch of its last delivery. */
    long leaseEpoch;
    /** When the first delivery that the app has arrived, in nanoseconds. */
    long since;
    /** The last barrier before its last delivery. */
    long barrierSeen;
    /** Null: none. */
    Outcome outcome;
    /** Of the outcome; 0: none. */
    long delayMs;
    /** Of the outcome; empty: none. */
    String reason = "";
    /** True after the app got the record. */
    boolean begun;

    Delivery(ConsumerState state) {
        this.state = state;
    }

    Position position() {
        return new Position(shardId, sequenceNumber(), subSequenceNumber, redriven);
    }

    String ackId() {
        return text(ackId);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Returns a copy that has the place in the shard alone: a record would keep its data in memory. */
    Delivery place() {
        Delivery place = new Delivery(state);
        place.sequenceNumber = sequenceNumber;
        place.subSequenceNumber = subSequenceNumber;
        return place;
    }

    /** Returns true if the record is later in the shard. Sequence numbers are decimal numbers without leading zeros. */
    boolean isAfter(Delivery other) {
        int order = Integer.compare(sequenceNumber.length, other.sequenceNumber.length);
        if (order == 0)
            order = Arrays.compare(sequenceNumber, other.sequenceNumber);
        return order > 0 || (order == 0 && subSequenceNumber > other.subSequenceNumber);
    }

    @Override
    public byte[] data() {
        return data;
    }

    @Override
    public String partitionKey() {
        return text(partitionKey);
    }

    @Override
    public String stream() {
        return stream;
    }

    @Override
    public String shardId() {
        return shardId;
    }

    @Override
    public String sequenceNumber() {
        return text(sequenceNumber);
    }

    @Override
    public long subSequenceNumber() {
        return subSequenceNumber;
    }

    @Override
    public long epoch() {
        return epoch;
    }

    @Override
    public int attempt() {
        return attempt;
    }

    @Override
    public Instant arrivedAt() {
        return Instant.ofEpochMilli(arrivedAtMs);
    }

    @Override
    public boolean aggregated() {
        return aggregated;
    }

    @Override
    public boolean redriven() {
        return redriven;
    }

    @Override
    public void ack() {
        state.settle(this, Outcome.ACK, 0, "");
    }

    @Override
    public boolean ackPersisted() {
        return state.ackPersisted(this);
    }

    @Override
    public void retry(Duration delay, String reason) {
        long delayMs = Options.within("delay (ms)", delay.toMillis(), 0, Options.MAX_DELAY_MS);
        state.settle(this, Outcome.RETRY, delayMs, reason);
    }

    @Override
    public void deadLetter(String reason) {
        state.settle(this, Outcome.DEAD_LETTER, 0, reason);
    }

    @Override
    public void drop() {
        state.settle(this, Outcome.DROP, 0, "");
    }

    @Override
    public void extend(Duration duration) {
        state.extend(this, Options.within("duration (ms)", duration.toMillis(), 1, Options.MAX_DELAY_MS));
    }

    @Override
    public String toString() {
        return "record " + shardId + " " + sequenceNumber() + " attempt " + attempt;
    }
}
