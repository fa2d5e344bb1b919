// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/** The records of one scope that wait for the app, in order. The lock of the state guards it. */
final class Lane {
    final ArrayDeque<Delivery> queue = new ArrayDeque<>();
    /** Retries that have no answer or no barrier yet. No record of the lane is handed out until then. */
    final List<Hold> holds = new ArrayList<>(1);
    /** False if its records have no order, so that no retry takes any of them back. */
    final boolean ordered;
    /** True while a handler of a run has a record of it. */
    boolean busy;
    /** True while it is in the list of lanes that are ready. */
    boolean listed;
    /** The last record that was delivered: its lease epoch, and the last barrier before it. */
    private long epoch;
    private long barrierSeen;
    /** The sidecar took all records after this one back; null: none. */
    private Delivery end;

    Lane(boolean ordered) {
        this.ordered = ordered;
    }

    /** Notes a delivery. The first delivery of a record has no delivered ones behind it. */
    void enter(Delivery record, long barrierSeen) {
        epoch = record.epoch;
        this.barrierSeen = barrierSeen;
        end = record.attempt > 1 ? record.place() : null;
    }

    /** Notes what a retry took back, although the app has it. */
    void takeBack(Hold hold) {
        if (hold.mayTakeBack(epoch, barrierSeen) && !hasTakenBack(hold.failed))
            end = hold.failed.place();
    }

    /** Returns true if a record that the app has was taken back, and not redelivered yet. */
    boolean hasTakenBack(Delivery record) {
        return ordered && end != null && record.isAfter(end);
    }

    boolean isReady() {
        return !busy && holds.isEmpty() && !queue.isEmpty();
    }
}
