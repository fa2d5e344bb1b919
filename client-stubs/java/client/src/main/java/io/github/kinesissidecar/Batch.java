// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.time.Duration;
import java.util.Iterator;
import java.util.List;

/** Records that are handed out together. */
public interface Batch extends Iterable<SidecarRecord> {
    /** Returns the records, at least one. */
    List<SidecarRecord> records();

    /** Returns the number of records. */
    default int size() {
        return records().size();
    }

    @Override
    default Iterator<SidecarRecord> iterator() {
        return records().iterator();
    }

    /** Acknowledges all records that have no outcome. */
    default void ack() {
        records().forEach(SidecarRecord::ack);
    }

    /** Retries all records that have no outcome, after the back-off of the sidecar. */
    default void retry() {
        retry(Duration.ZERO, "");
    }

    /**
     * Retries all records that have no outcome, not before the delay. A delay of zero is the back-off of the sidecar.
     */
    default void retry(Duration delay, String reason) {
        /* A retry takes the later records back, and then these cannot be retried any more. So the last one is first. */
        for (int i = size() - 1; i >= 0; i--)
            records().get(i).retry(delay, reason);
    }
}
