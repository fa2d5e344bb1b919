// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.time.Duration;
import java.time.Instant;

/**
 * One record of the stream. The first outcome of a record ({@link #ack}, {@link #retry}, {@link #deadLetter} or
 * {@link #drop}) is final; further calls do nothing. All methods may be called from any thread.
 */
public interface SidecarRecord {
    /** Returns the data as it was put. The array is not a copy. */
    byte[] data();

    /**
     * Parses the data as JSON. Returns a Map, List, String, BigDecimal or Boolean, or null. Throws
     * IllegalArgumentException if the data is not JSON.
     */
    default Object json() {
        return Json.parse(data());
    }

    /** Returns the partition key. */
    String partitionKey();

    /** Returns the name or the ARN of the stream. */
    String stream();

    /** Returns the id of the shard. */
    String shardId();

    /** Returns the sequence number: a decimal number of up to 128 bits. Compare it as {@link java.math.BigInteger}. */
    String sequenceNumber();

    /**
     * Returns the place of the record in an aggregate of the Kinesis Producer Library, from 0. It is 0 without an
     * aggregate.
     */
    long subSequenceNumber();

    /** Returns the lease epoch. It is 0 for a redriven record. */
    long epoch();

    /** Returns the number of the delivery in the lease epoch, from 1. */
    int attempt();

    /** Returns the approximate time of arrival at the stream. */
    Instant arrivedAt();

    /** Returns whether the record is an aggregate that could not be taken apart. */
    boolean aggregated();

    /** Returns whether the record is a dead letter that is delivered again. */
    boolean redriven();

    /** Acknowledges the record. */
    void ack();

    /**
     * Acknowledges the record and waits until the checkpoint in the lease table covers it, for 10 s at most. Returns
     * whether the checkpoint covers the record.
     */
    boolean ackPersisted();

    /** Redelivers the record after the back-off of the sidecar. */
    default void retry() {
        retry(Duration.ZERO, "");
    }

    /**
     * Redelivers the record after the back-off of the sidecar. The sidecar keeps 1000 bytes of the reason, for people.
     */
    default void retry(String reason) {
        retry(Duration.ZERO, reason);
    }

    /** Redelivers the record, not before a delay of up to 12 h. A delay of zero is the back-off of the sidecar. */
    void retry(Duration delay, String reason);

    /** Gives the record up. The sidecar keeps it as a dead letter, with 1000 bytes of the reason. */
    void deadLetter(String reason);

    /** Gives the record up without keeping it. */
    void drop();

    /** Moves the ack deadline to the duration from now, up to 12 h. */
    void extend(Duration duration);
}
