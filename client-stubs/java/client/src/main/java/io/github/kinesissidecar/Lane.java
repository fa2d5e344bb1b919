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

    Lane(boolean ordered) {
        this.ordered = ordered;
    }

    boolean isReady() {
        return !busy && holds.isEmpty() && !queue.isEmpty();
    }
}
