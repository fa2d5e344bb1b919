// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.ArrayList;
import java.util.List;

/** The records that the sidecar wrote under one batch_id. The lock of the state guards it. */
final class DeliveredBatch {
    final String id;
    /** Of the session. In a later one its records cannot be settled. */
    final long generation;
    /** When its first record arrived, in nanoseconds. */
    final long since;
    final List<Delivery> records = new ArrayList<>();
    /** Records that were acknowledged and are in no request yet. */
    List<Delivery> unsent = new ArrayList<>();
    /** True if no further record of it comes. */
    boolean complete;
    /** Records that were acknowledged. */
    int acked;
    /** Records without an outcome. */
    int open;

    DeliveredBatch(String id, long generation, long since) {
        this.id = id;
        this.generation = generation;
        this.since = since;
    }

    /** Returns the records without an outcome. Those that were redelivered are in the list of their last batch, too. */
    List<Delivery> openRecords() {
        return records.stream().filter(record -> record.batch == this && record.outcome == null).toList();
    }

    boolean isAcknowledgedWhole() {
        return complete && acked == records.size();
    }
}
