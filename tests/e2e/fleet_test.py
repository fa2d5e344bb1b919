#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real sidecars share a stream through what happens to fleets: deploys, crashes, pauses, a store out of reach, reshards.
fleet.py has their worlds, and the judge."""

import os
import signal
import tempfile
import time

from fleet import CHILD, LEASE, MARGIN, TAKE_OVER, Cloud, OneFile, a_fleet, check_silent, stands_still
from lib import SLOW, check, check_equal, crowd, kinesis, main, need_emulators, test, wait_until

# --- Stories ---

def a_rolling_restart(world):
    names = ("w1", "w2", "w3")
    fleet = a_fleet(world, *names)
    for name in names:
        fleet.stop(name)
        fleet.start(name)
        print(f"    {name} is back, balanced after {fleet.wait_balanced(*names):.1f} s")
    fleet.finish(*names)


def kills(world, *names):
    """The leader; then the leader and another one at once; then one that comes back at once."""
    fleet = a_fleet(world, *names)
    for count, back_at_once in ((1, False), (2, False), (1, True)):
        leader = world.leader()  # The door of OneFile may lead after a while: it is spared.
        victims = sorted(names, key=lambda name: (name == leader) == back_at_once)[:count]
        epochs = fleet.fault(*victims)
        for victim in victims:
            fleet.sidecars[victim].kill()
        if back_at_once:
            fleet.start(*victims)
        took = fleet.wait_taken_over(epochs)
        print(f"    {' and '.join(victims)} killed{' (a leader)' if leader in victims else ''}"
              f"{', back at once' if back_at_once else ''}: taken over within {took:.2f} s (at most {TAKE_OVER:.2f} s)")
        if not back_at_once:
            fleet.start(*victims)
        fleet.wait_balanced(*names)
    fleet.finish(*names)


def a_pause(world):
    names = ("w1", "w2", "w3")
    fleet = a_fleet(world, *names)
    leader = world.leader()
    for victim in (leader, next(name for name in names if name != leader)):
        epochs = fleet.fault(victim)
        fleet.sidecars[victim].signal(signal.SIGSTOP)
        took = fleet.wait_taken_over(epochs)
        time.sleep(1)
        woken_at = time.monotonic()
        fleet.sidecars[victim].signal(signal.SIGCONT)
        balanced = fleet.wait_balanced(*names)
        check_silent(fleet, victim, woken_at, epochs)
        print(f"    {victim} stopped{' (the leader)' if victim == leader else ''}: taken over within {took:.2f} s (at most "
              f"{TAKE_OVER:.2f} s), woken after {woken_at - fleet.faults[-1][0]:.1f} s, then balanced after {balanced:.1f} s")
    fleet.finish(*names)


@test(seconds=60)
def on_dynamodb_a_rolling_restart(folder):
    a_rolling_restart(Cloud(folder, 6))


@test(seconds=60)
def on_one_file_a_rolling_restart(folder):
    a_rolling_restart(OneFile(folder, 6))


@test(seconds=90)
def on_dynamodb_kills(folder):
    kills(Cloud(folder, 8), "w1", "w2", "w3", "w4", "w5")


@test(seconds=90)
def on_one_file_kills(folder):
    kills(OneFile(folder, 6), "w1", "w2", "w3")


@test(seconds=90)
def on_dynamodb_a_pause(folder):
    a_pause(Cloud(folder, 6))


@test(seconds=90)
def a_store_out_of_reach_for_one(folder):
    names = ("w1", "w2", "w3")
    fleet = a_fleet(Cloud(folder, 6), *names)
    leader = fleet.world.leader()
    # Refused at once, then half-open: there what was sent arrives when others have taken over long ago.
    for fault, victim in (("cut", leader), ("hang", next(name for name in names if name != leader))):
        epochs = fleet.fault(victim)
        fleet.sidecars[victim].proxy.do(fault)
        cut_at = time.monotonic()
        took = fleet.wait_taken_over(epochs)
        time.sleep(1)
        fleet.sidecars[victim].proxy.do("heal")
        healed = fleet.wait_balanced(*names)
        # The app notes a record a moment after it was written; all the same before anybody may take over.
        check_silent(fleet, victim, cut_at + (LEASE + MARGIN) * SLOW, epochs)
        last = max(delivery.at for delivery in fleet.deliveries() if delivery.worker == victim and
                   delivery.epoch == epochs.get(delivery.shard)) - cut_at
        print(f"    {fault}{' (the leader)' if victim == leader else ''}: last delivery after {last:.2f} s (deadline "
              f"{LEASE - MARGIN:.2f} s), taken over within {took:.2f} s (at most {TAKE_OVER:.2f} s), healed: balanced "
              f"after {healed:.1f} s")
    fleet.finish(*names)


@test(seconds=60)
def a_split_and_a_merge(folder):
    world = Cloud(folder, 4)
    fleet = a_fleet(world, "w1", "w2", "w3")

    def active():
        return kinesis("DescribeStreamSummary", StreamName=world.name)["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"
    shards = {shard["ShardId"]: shard for shard in kinesis("ListShards", StreamName=world.name)["Shards"]}
    ids = sorted(shards)
    first = shards[ids[0]]["HashKeyRange"]
    # One of the merged two is late: its app rests, though not for so long that it would lose anything.
    late = fleet.apps[world.rows()[ids[1]]["owner"].rsplit("#", 1)[0]]
    late.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    kinesis("SplitShard", StreamName=world.name, ShardToSplit=ids[0],
            NewStartingHashKey=str((int(first["StartingHashKey"]) + int(first["EndingHashKey"])) // 2))
    wait_until(active, 10, "the split is done")
    kinesis("MergeShards", StreamName=world.name, ShardToMerge=ids[1], AdjacentShardToMerge=ids[2])
    wait_until(active, 10, "the merge is done")
    time.sleep(max(0.0, started + 1 - time.monotonic()))
    late.send_signal(signal.SIGCONT)
    children = {shard["ShardId"]: [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if shard.get(name)]
                for shard in kinesis("ListShards", StreamName=world.name)["Shards"] if shard.get("ParentShardId")}
    check_equal(sorted(map(len, children.values())), [1, 1, 2], "children of a split and a merge")
    wait_until(lambda: children.keys() <= {delivery.shard for delivery in fleet.deliveries()}, 20, "the children deliver",
               every=0.1)
    fleet.wait_balanced("w1", "w2", "w3")
    time.sleep(2)
    fleet.finish("w1", "w2", "w3")

    deliveries, acked, rows = fleet.deliveries(), fleet.acked(), world.rows()
    gaps = []
    for child, parents in children.items():
        begun = next(delivery.at for delivery in deliveries if delivery.shard == child)
        settled = max(acked[delivery.data] for delivery in deliveries if delivery.shard in parents)
        check(settled <= begun, f"{child} delivered {begun - settled:.3f} s before {parents} were settled")
        check_equal({rows[parent]["checkpoint"] for parent in parents}, {"SHARD_END"}, "the rows of the parents")
        gaps.append(begun - settled)
    check(max(gaps) <= CHILD * SLOW + crowd() or stands_still(),
          f"children deliver {gaps} s after the last ack of their parents, the bound is {CHILD} s and {crowd():.2f} s for the machine")
    print(f"    children deliver {', '.join(f'{gap:.2f}' for gap in gaps)} s after the last ack of their parents; all within "
          f"{max(next(d.at for d in deliveries if d.shard == child) for child in children) - started:.2f} s")


@test(seconds=90)
def from_one_to_five_and_back(folder):
    names = ["w1", "w2", "w3", "w4", "w5"]
    fleet = a_fleet(Cloud(folder, 8), "w1")
    fleet.start(*names[1:])
    took = fleet.wait_balanced(*names)
    print(f"    five: balanced after {took:.1f} s, {sorted(len(shards) for shards in fleet.held().values())}")
    for name in names[:4]:
        fleet.stop(name)
    took = fleet.wait_balanced("w5")
    print(f"    one again: it holds all after {took:.1f} s")
    fleet.finish("w5")


need_emulators("dynoxide", "kinesis-local")
# A disk that stalls for seconds is a store that is away: another story, told by the others on purpose.
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"
if __name__ == "__main__":
    main()
