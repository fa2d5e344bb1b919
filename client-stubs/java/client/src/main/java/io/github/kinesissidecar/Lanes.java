// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.function.Predicate;

/**
 * The records that wait for the app, by scope: a lane of a shard, with ordering by shard the whole shard. The lock of
 * the state guards it.
 */
final class Lanes {
    /** By shard, then by the number of the lane. */
    private final Map<String, Map<Integer, Lane>> shards = new HashMap<>();
    /** Of all records without order: those of an ordering NONE, and those that are redriven. */
    private final Lane unordered = new Lane(false);
    /** Lanes with a retry that is not resolved. */
    private final Set<Lane> held = new LinkedHashSet<>();
    private final ArrayDeque<Lane> ready = new ArrayDeque<>();
    private final Ordering ordering;
    private final Condition available;
    /** The lane of the record before, which is mostly that of the next one, too. */
    private Lane last;
    private String lastShard = "";
    private int lastNumber;

    Lanes(Ordering ordering, Condition available) {
        this.ordering = ordering;
        this.available = available;
    }

    /** Sets the lane of a record. */
    void assign(Delivery record) {
        if (ordering == Ordering.NONE || record.redriven) {
            record.lane = unordered;
            return;
        }
        int number = ordering == Ordering.KEY ? record.laneNumber : 0;
        if (number != lastNumber || !record.shardId.equals(lastShard)) {
            lastShard = record.shardId;
            lastNumber = number;
            last = shards.computeIfAbsent(lastShard, shard -> new HashMap<>())
                    .computeIfAbsent(number, any -> new Lane(true));
        }
        record.lane = last;
    }

    /** Adds a record that has a lane. */
    void add(Delivery record) {
        record.lane.queue.add(record);
        list(record.lane);
    }

    /** Puts a record that was taken back before the later ones of its lane. */
    void putBack(Delivery record) {
        List<Delivery> waiting = List.copyOf(record.lane.queue);
        record.lane.queue.removeIf(other -> !record.lane.ordered || other.isAfter(record));
        record.lane.queue.add(record);
        waiting.stream().filter(other -> !record.lane.ordered || other.isAfter(record)).forEach(record.lane.queue::add);
        list(record.lane);
    }

    /** Removes a record that has its outcome, although no one has taken it again. */
    void remove(Delivery record) {
        record.lane.queue.remove(record);
    }

    /**
     * Removes the records of the lane from the position of a redelivery on, and returns them. The sidecar delivers a
     * lane in order: it took them back, and redelivers them after this one.
     */
    List<Delivery> replace(Delivery redelivery) {
        List<Delivery> replaced = new ArrayList<>();
        ArrayDeque<Delivery> queue = redelivery.lane.queue;
        while (redelivery.lane.ordered && !queue.isEmpty() && !redelivery.isAfter(queue.peekLast()))
            replaced.add(queue.pollLast());
        return replaced;
    }

    /** Takes the next record. `exclusive`: no other record of an ordered lane is taken until the lane is released. */
    Delivery take(boolean exclusive) {
        for (Lane lane; (lane = ready.poll()) != null;) {
            lane.listed = false;
            if (!lane.isReady())
                continue;
            Delivery record = lane.queue.poll();
            record.begun = true;
            lane.busy = exclusive && lane.ordered;
            list(lane);
            wake();
            return record;
        }
        return null;
    }

    /** Wakes one waiting thread if a lane is ready. That thread wakes the next one, so as few run as keep up. */
    void wake() {
        if (!ready.isEmpty())
            available.signal();
    }

    void release(Lane lane) {
        lane.busy = false;
        list(lane);
    }

    /** Returns the hold that a retry puts on its lane, or null: without order nothing is taken back. */
    Hold hold(Delivery failed) {
        if (!failed.lane.ordered)
            return null;
        Hold hold = new Hold(failed);
        failed.lane.holds.add(hold);
        held.add(failed.lane);
        return hold;
    }

    /** Forgets the hold of a retry that is in no request yet. */
    void forgetHold(Delivery failed) {
        failed.lane.holds.removeIf(hold -> hold.failed == failed);
    }

    /**
     * Has the redelivery of a retried record stand for the answer and the barrier: the sidecar has taken the later
     * records of the lane back, and redelivers them after this one. Returns those that it took back.
     */
    List<Delivery> confirm(Delivery redelivery) {
        List<Delivery> takenBack = new ArrayList<>();
        for (Hold hold : redelivery.lane.holds) {
            if (!hold.isOf(redelivery))
                continue;
            hold.accepted = true;
            remove(redelivery.lane, hold::takesBack, takenBack);
            hold.barrier = 0;
        }
        return takenBack;
    }

    /** Frees the lanes whose retries are all resolved. Returns the records that the sidecar took back with them. */
    List<Delivery> resolve(long barrierSeen) {
        List<Delivery> takenBack = new ArrayList<>();
        for (Iterator<Lane> lanes = held.iterator(); lanes.hasNext();) {
            Lane lane = lanes.next();
            if (!lane.holds.stream().allMatch(hold -> hold.isResolved(barrierSeen)))
                continue;
            remove(lane, record -> lane.holds.stream().anyMatch(hold -> hold.takesBack(record)), takenBack);
            lane.holds.forEach(lane::takeBack);
            lane.holds.clear();
            lanes.remove();
            list(lane);
        }
        wake();
        return takenBack;
    }

    /** Forgets all retries: their session has ended. */
    void forgetHolds() {
        for (Lane lane : held) {
            lane.holds.clear();
            list(lane);
        }
        held.clear();
    }

    /** Removes records that the app has not begun, and returns them. */
    List<Delivery> remove(Predicate<Delivery> which) {
        List<Delivery> removed = new ArrayList<>();
        remove(unordered, which, removed);
        shards.values().stream().map(Map::values).flatMap(Collection::stream)
                .forEach(lane -> remove(lane, which, removed));
        return removed;
    }

    private static void remove(Lane lane, Predicate<Delivery> which, List<Delivery> removed) {
        lane.queue.removeIf(record -> which.test(record) && removed.add(record));
    }

    private void list(Lane lane) {
        if (lane.listed || !lane.isReady())
            return;
        lane.listed = true;
        ready.add(lane);
    }
}
