// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.testing;

import io.github.kinesissidecar.SidecarRecord;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;

/** A record that a test makes. It keeps its outcome. */
public final class FakeRecord implements SidecarRecord {
    private final String partitionKey;
    private final byte[] data;
    private final String sequenceNumber;
    private final int attempt;
    private String outcome = "";
    private String reason = "";
    private Duration delay = Duration.ZERO;

    FakeRecord(String partitionKey, byte[] data, long sequenceNumber, int attempt) {
        this.partitionKey = partitionKey;
        this.data = data;
        this.sequenceNumber = Long.toString(sequenceNumber);
        this.attempt = attempt;
    }

    /**
     * Returns {@code ack}, {@code retry}, {@code dead_letter}, {@code drop}, or an empty text if there is no outcome.
     */
    public synchronized String outcome() {
        return outcome;
    }

    /** Returns the reason of a retry or of a dead letter, or an empty text. */
    public synchronized String reason() {
        return reason;
    }

    /** Returns the delay of a retry. Zero is the back-off of the sidecar. */
    public synchronized Duration delay() {
        return delay;
    }

    private synchronized void settle(String first, String why, Duration notBefore) {
        if (!outcome.isEmpty())
            return;
        outcome = first;
        reason = why;
        delay = notBefore;
    }

    @Override
    public byte[] data() {
        return data;
    }

    @Override
    public String partitionKey() {
        return partitionKey;
    }

    @Override
    public String stream() {
        return "test";
    }

    @Override
    public String shardId() {
        return "shardId-000000000000";
    }

    @Override
    public String sequenceNumber() {
        return sequenceNumber;
    }

    @Override
    public long subSequenceNumber() {
        return 0;
    }

    @Override
    public long epoch() {
        return 1;
    }

    @Override
    public int attempt() {
        return attempt;
    }

    @Override
    public Instant arrivedAt() {
        return Instant.EPOCH;
    }

    @Override
    public boolean aggregated() {
        return false;
    }

    @Override
    public boolean redriven() {
        return false;
    }

    @Override
    public void ack() {
        settle("ack", "", Duration.ZERO);
    }

    @Override
    public boolean ackPersisted() {
        ack();
        return outcome().equals("ack");
    }

    @Override
    public void retry(Duration notBefore, String why) {
        settle("retry", why, notBefore);
    }

    @Override
    public void deadLetter(String why) {
        settle("dead_letter", why, Duration.ZERO);
    }

    @Override
    public void drop() {
        settle("drop", "", Duration.ZERO);
    }

    @Override
    public void extend(Duration duration) {
        // A fake has no deadlines.
    }

    @Override
    public String toString() {
        return "record " + sequenceNumber + " " + new String(data, StandardCharsets.UTF_8);
    }
}
