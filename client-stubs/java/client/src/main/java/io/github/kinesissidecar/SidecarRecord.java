// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.time.Duration;
import java.time.Instant;

/**
 * One record of the stream. The first outcome of a record ({@link #ack}, {@link #retry}, {@link #deadLetter} or
 * {@link #drop}) is final; further calls do nothing. All methods may be called from any thread.
 */
public interface SidecarRecord {
    /**
     * Returns the data as it was put. The array is not a copy.
     *
     * @return the data
     */
    byte[] data();

    /**
     * Parses the data as JSON.
     *
     * @return a Map, List, String, BigDecimal or Boolean, or null
     * @throws IllegalArgumentException if the data is not JSON
     */
    default Object json() {
        return Json.parse(data());
    }

    /**
     * Returns the partition key.
     *
     * @return the partition key
     */
    String partitionKey();

    /**
     * Returns the stream.
     *
     * @return the name or the ARN of the stream
     */
    String stream();

    /**
     * Returns the shard.
     *
     * @return the id of the shard
     */
    String shardId();

    /**
     * Returns the sequence number.
     *
     * @return a decimal number of up to 128 bits; compare it as {@link java.math.BigInteger}
     */
    String sequenceNumber();

    /**
     * Returns the place of the record in an aggregate of the Kinesis Producer Library.
     *
     * @return the place, from 0; 0 also for a record of no aggregate
     */
    long subSequenceNumber();

    /**
     * Returns the lease epoch.
     *
     * @return the epoch; 0 for a redriven record
     */
    long epoch();

    /**
     * Returns the number of the delivery in the lease epoch.
     *
     * @return the number, from 1
     */
    int attempt();

    /**
     * Returns the approximate time of arrival at the stream.
     *
     * @return the instant
     */
    Instant arrivedAt();

    /**
     * Returns whether the record is an aggregate that could not be taken apart.
     *
     * @return true for such an aggregate
     */
    boolean aggregated();

    /**
     * Returns whether the record is a dead letter that is delivered again.
     *
     * @return true for a redriven dead letter
     */
    boolean redriven();

    /** Acknowledges the record. */
    void ack();

    /**
     * Acknowledges the record and waits until the checkpoint in the lease table covers it, for 10 s at most.
     *
     * @return whether the checkpoint covers the record
     */
    boolean ackPersisted();

    /** Redelivers the record after the back-off of the sidecar. */
    default void retry() {
        retry(Duration.ZERO, "");
    }

    /**
     * Redelivers the record after the back-off of the sidecar.
     *
     * @param reason the reason, for people; the sidecar keeps 1000 bytes
     */
    default void retry(String reason) {
        retry(Duration.ZERO, reason);
    }

    /**
     * Redelivers the record, not before a delay.
     *
     * @param delay the delay, up to 12 h; zero: the back-off of the sidecar
     * @param reason the reason, for people; the sidecar keeps 1000 bytes
     */
    void retry(Duration delay, String reason);

    /**
     * Gives the record up. The sidecar keeps it as a dead letter.
     *
     * @param reason the reason, for people; the sidecar keeps 1000 bytes
     */
    void deadLetter(String reason);

    /** Gives the record up without keeping it. */
    void drop();

    /**
     * Moves the ack deadline.
     *
     * @param duration the new deadline, from now, up to 12 h
     */
    void extend(Duration duration);
}
