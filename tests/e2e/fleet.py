# SPDX-License-Identifier: Apache-2.0
"""What the tests of fleets share: sidecars with their apps, on emulators or on one SQLite file, while records are put, and the
judge of what the apps saw.

Each sidecar has an app of its own beside it (consumer.py) and, on DynamoDB, its own network to the table (a fault proxy).
Records are put all the time. Their data is KEY:NUMBER, the numbers of a key count from 0: so an app's diary alone shows
whether a record is lost, is delivered twice or overtakes another one. What is measured is printed.
"""

import collections
import hashlib
import json
import os
import sqlite3
import sys
import threading
import time

from lib import (HERE, PATIENCE, SLOW, Failure, FaultProxy, Sidecar, check, check_equal, crowd, dynamodb,
                 lease_rows, make_stream, put_kinesis, read_lines, spawn, wait_until)

LEASE = float(os.environ.get("KS_LEASE_SECONDS", "3"))  # A longer one to see what users see by default.
MARGIN = LEASE / 20
TAKE_OVER = LEASE * 4 / 3 + 2     # From a death to the first delivery of the successor.
HAND_OVER = 2.0                   # From the last delivery of the old owner to the first of the new one; the median of a story.
CHILD = LEASE / 3 + 1.5           # From the last ack of a parent to the first delivery of a child: a beat tells the leader.
BALANCED = 20.0                   # Until the leases are even again.
TICK = 0.1                        # Between two puts.
EIGHTHS = 8                       # Two keys for each eighth of the hash-key range: every shard has some.
WORK_US = 5000                    # Of an app on a record: at a hand-over some are in its hands.


def keys_of_all_shards():
    found = collections.defaultdict(list)
    number = 0
    while len(found) < EIGHTHS or any(len(keys) < 2 for keys in found.values()):
        key = f"key-{number}"
        found[hashlib.md5(key.encode()).digest()[0] * EIGHTHS // 256].append(key)
        number += 1
    return [[keys[turn] for keys in found.values()] for turn in range(2)]


def spread(counts):
    return max(counts) - min(counts)


# --- Where they live ---

class Cloud:
    """A stream and a table in the emulators. Sidecars run the program `binary`, by default the present one."""

    def __init__(self, folder, shards, binary=None):
        self.folder, self.binary = folder, binary
        self.name = "fleet-" + os.path.basename(folder).replace("_", "-")
        make_stream(self.name, shards)

    def sidecar(self, name):
        # The API's own time-outs are not the subject: a drain ends when everything is given away.
        sidecar = Sidecar.on_emulators(self.folder, name, stream=self.name, application=self.name,
                                       lease_duration_ms=int(LEASE * 1000), drain_timeout_ms=10000)
        sidecar.binary = self.binary
        sidecar.proxy = FaultProxy(self.folder, os.environ["KS_DYNAMODB_URL"], name + "-proxy")
        sidecar.env["AWS_ENDPOINT_URL_DYNAMODB"] = sidecar.proxy.url
        return sidecar

    def open(self):
        pass

    def put(self, records):
        return put_kinesis(self.name, records)

    def rows(self):
        return lease_rows(self.name)

    def leader(self):
        item = dynamodb("GetItem", TableName=self.name, ConsistentRead=True,
                        Key={"p": {"S": "w"}, "k": {"S": "#leader"}}).get("Item", {})
        return item.get("holder", {"S": ""})["S"].rsplit("#", 1)[0]


class OneFile:
    """The same on one machine: a local stream and a SQLite table. A sidecar without an app, that holds nothing, takes the
    puts; nothing happens to it, and it comes too late to be the leader."""

    def __init__(self, folder, shards, binary=None):
        self.folder, self.shards, self.binary, self.door = folder, shards, binary, None

    def open(self):
        self.door = self.sidecar("door").start()

    def sidecar(self, name):
        sidecar = Sidecar.local(self.folder, name, local_shards=self.shards, lease_duration_ms=int(LEASE * 1000),
                                drain_timeout_ms=10000)
        sidecar.binary = self.binary
        return sidecar

    def put(self, records):
        return self.door.put(records)

    def select(self, what):
        with sqlite3.connect(f"file:{self.folder}/leases.db?mode=ro", uri=True, timeout=10) as db:
            db.row_factory = sqlite3.Row
            return [{name: str(row[name]) for name in row.keys() if row[name] is not None}
                    for row in db.execute("SELECT * FROM lease_table WHERE " + what)]

    def rows(self):
        return {row["k"]: row for row in self.select("p = 's'")}

    def leader(self):
        return next((row.get("holder", "") for row in self.select("k = '#leader'")), "").rsplit("#", 1)[0]


# --- Who lives there ---

class Producer:
    """Puts one record of each second key each tick, until it is stopped; `placed`: data -> (shard, sequence number)."""

    def __init__(self, world):
        self.world, self.placed, self.over, self.problem = world, {}, False, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        numbers = collections.Counter()
        sets = keys_of_all_shards()
        try:
            while not self.over:
                started = time.monotonic()
                records = [(key, f"{key}:{numbers[key]}".encode()) for key in sets[0]]
                for (_, data), place in zip(records, self.world.put(records)):
                    self.placed[data.decode()] = place
                numbers.update(sets[0])
                sets.reverse()
                time.sleep(max(0.0, TICK - (time.monotonic() - started)))
        except (OSError, Failure) as err:
            self.problem = err

    def stop(self):
        self.over = True
        self.thread.join(30 * PATIENCE)
        check(self.problem is None and not self.thread.is_alive(), "the producer:", self.problem)


Delivery = collections.namedtuple("Delivery", "at worker shard sequence attempt epoch data")


class Fleet:
    """Sidecars with their apps, and what is known about them."""

    def __init__(self, world):
        self.world = world
        self.sidecars, self.apps = {}, {}
        self.faults = []  # (instant, workers): what they held then may be taken over, and may come twice.
        self.producer = None

    def start(self, *names):
        for name in names:
            if name not in self.sidecars:
                self.sidecars[name] = self.world.sidecar(name)
            self.sidecars[name].start(ready=False)
        for name in names:
            self.sidecars[name].wait_ready()
            if name not in self.apps:
                self.apps[name] = spawn([sys.executable, os.path.join(HERE, "consumer.py"), self.sidecars[name].url,
                                         "app-of-" + name, self.diary(name), str(WORK_US), "0"],
                                        os.path.join(self.world.folder, "app-of-" + name + ".log"))
        if self.producer is None:
            self.world.open()
            self.producer = Producer(self.world)

    def stop(self, name):
        self.sidecars[name].stop(15)

    def diary(self, name):
        return os.path.join(self.world.folder, name + ".diary")

    def entries(self, name):
        return [json.loads(line) for line in read_lines(self.diary(name))]

    def deliveries(self):
        """All deliveries to all apps, in the order of time."""
        return sorted(Delivery(entry[1], name, *entry[2:]) for name in self.apps for entry in self.entries(name)
                      if entry[0] == "record")

    def acked(self):
        return {entry[2]: entry[1] for name in self.apps for entry in self.entries(name) if entry[0] == "acked"}

    def open_rows(self):
        return {shard: row for shard, row in self.world.rows().items() if row.get("checkpoint") != "SHARD_END"}

    def held(self):
        """Worker -> its leases, by the table."""
        held = collections.defaultdict(set)
        for shard, row in self.open_rows().items():
            held[row.get("owner", "").rsplit("#", 1)[0]].add(shard)
        return held

    def is_balanced(self, names):
        held = self.held()
        return (held and set(held) <= set(names) and spread([len(held[name]) for name in names]) <= 1 and
                not any("next_owner" in row for row in self.open_rows().values()))

    def wait_balanced(self, *names):
        """Even within one, no move open, and every shard delivers. Returns how long it took."""
        started = time.monotonic()
        wait_until(lambda: self.is_balanced(names), BALANCED, f"balanced over {names}", every=0.1)
        took = time.monotonic() - started
        rows = self.open_rows()

        def all_flow():
            flows = {(delivery.shard, str(delivery.epoch)) for delivery in self.deliveries()}
            return all((shard, row["epoch"]) in flows for shard, row in rows.items())
        wait_until(lambda: all_flow() or not self.is_balanced(names), 30, "every shard delivers", every=0.1)
        return took

    def fault(self, *names):
        """Something is about to happen to these. Returns what they hold: shard -> epoch."""
        epochs = {shard: int(row["epoch"]) for shard, row in self.open_rows().items()
                  if row.get("owner", "").rsplit("#", 1)[0] in names}
        check(epochs, names, "hold nothing")
        self.faults.append((time.monotonic(), names))
        return epochs

    def wait_taken_over(self, epochs):
        """Waits until all these shards are delivered in later epochs; returns the longest time since the last fault."""
        at, victims = self.faults[-1]

        def firsts():
            first = {}
            for delivery in self.deliveries():
                if delivery.epoch > epochs.get(delivery.shard, 1 << 60):
                    first.setdefault(delivery.shard, delivery.at)
            return first if len(first) == len(epochs) else None
        took = max(wait_until(firsts, TAKE_OVER + 10, "taken over", every=0.1).values()) - at
        check(took <= TAKE_OVER * SLOW + crowd() or stands_still(),
              f"the take-over from {victims} took {took:.2f} s, the bound is {TAKE_OVER:.2f} s and {crowd():.2f} s for the machine")
        return took

    def finish(self, *names):
        """Stops the producer, waits until the table says that everything is done, and judges. `names` are alive."""
        self.producer.stop()
        last = {}
        for shard, sequence in self.producer.placed.values():
            last[shard] = max(last.get(shard, 0), int(sequence))

        def done():
            rows = self.world.rows()
            return all(rows[shard]["checkpoint"] in (str(sequence), "SHARD_END") for shard, sequence in last.items())
        wait_until(done, 20, "checkpoints at the ends of all shards", every=0.2)
        check(self.is_balanced(names), "not balanced at the end:", dict(self.held()))
        ended = [name for name, app in self.apps.items() if app.poll() is not None]
        ended += [name for name in names if self.sidecars[name].process.poll() is not None]
        check_equal(ended, [], "ended by themselves")
        judge(self)


# --- What must be true of every story ---

def check_nothing_lost(fleet, deliveries):
    placed = fleet.producer.placed
    for delivery in deliveries:
        check_equal((delivery.shard, delivery.sequence), placed.get(delivery.data), f"where {delivery.data} is")
    missing = placed.keys() - {delivery.data for delivery in deliveries}
    check(not missing, "put, but never delivered:", sorted(missing)[:20])
    missing = placed.keys() - fleet.acked().keys()
    check(not missing, "put, but never acknowledged:", sorted(missing)[:20])


def check_order(deliveries, acked):
    """Numbers of a key come one by one. Who goes on elsewhere, or in a new epoch, has no earlier one unsettled before
    him, or it comes again first."""
    expected = collections.Counter()  # The next number of each key, over all.
    here = {}                         # And of each (key, shard, epoch).
    for delivery in deliveries:
        key, number = delivery.data.split(":")
        number = int(number)
        check(number <= expected[key], f"{delivery} overtook {key}:{expected[key]}")
        if number == expected[key]:
            expected[key] += 1
        at = here.get((key, delivery.shard, delivery.epoch))
        if at is None:
            before = f"{key}:{number - 1}"
            check(number == 0 or acked.get(before, 1e99) <= delivery.at, f"{delivery} came before {before} was settled")
        else:
            check(number <= at, f"{delivery} overtook {key}:{at} within its epoch")
        here[(key, delivery.shard, delivery.epoch)] = max(at or 0, number + 1)


def stands_still():
    """The machine was so late that leases run out though everybody lives, and apps hear late of what was sent in time: then
    only that nothing is lost, and the order, can be judged."""
    return crowd() > LEASE


def check_one_owner(deliveries):
    """An epoch has one worker, and is over when a later one has delivered."""
    worker, latest = {}, {}
    for delivery in deliveries:
        one = worker.setdefault((delivery.shard, delivery.epoch), delivery.worker)
        check_equal(delivery.worker, one, f"{delivery}: the owner of the epoch")
        last = latest.get(delivery.shard, delivery)
        check(delivery.epoch >= last.epoch or stands_still(), f"{delivery} came after {last}")
        latest[delivery.shard] = delivery


def tell_transitions(fleet, deliveries):
    """Checks the changes of owner, by what caused them; returns (gaps of planned ones, duplicates)."""
    by_epoch = collections.defaultdict(lambda: collections.defaultdict(list))
    for delivery in deliveries:
        by_epoch[delivery.shard][delivery.epoch].append(delivery)
    gaps, seen, duplicates = [], set(), 0
    for shard, epochs in by_epoch.items():
        before = None
        for epoch in sorted(epochs):
            now = epochs[epoch]
            forced = before is not None and any(before[-1].worker in workers and before[-1].at < at + LEASE and
                                                now[0].at > at for at, workers in fleet.faults)
            again = sum(delivery.data in seen for delivery in now)
            if forced:
                duplicates += again
            elif before is not None:
                gap = now[0].at - before[-1].at
                gaps.append((gap, f"{shard}: {before[-1].worker} -> {now[0].worker} (epoch {epoch})"))
                check(again == 0 or stands_still(), again, f"came twice at a planned hand-over, {gaps[-1][1]}")
            seen.update(delivery.data for delivery in now)
            twice = len(now) - len({delivery.data for delivery in now})
            check(twice == 0 or stands_still() or any(now[0].worker in workers for _, workers in fleet.faults), twice,
                  f"came twice within {shard} epoch {epoch}")
            duplicates += twice
            before = now
    return sorted(gaps), duplicates


def judge(fleet):
    deliveries = fleet.deliveries()
    check_nothing_lost(fleet, deliveries)
    check_order(deliveries, fleet.acked())
    check_one_owner(deliveries)
    gaps, duplicates = tell_transitions(fleet, deliveries)
    said = f"    {len(fleet.producer.placed)} records, {duplicates} came twice, {len(gaps)} planned hand-overs"
    if gaps:
        said += f" (median {gaps[len(gaps) // 2][0]:.2f} s, longest {gaps[-1][0]:.2f} s, {gaps[-1][1]})"
    print(said, flush=True)
    if stands_still():
        print(f"    the machine stood still ({crowd():.1f} s): hand-overs are not judged", flush=True)
        return
    if gaps:
        check(gaps[len(gaps) // 2][0] <= HAND_OVER * SLOW + crowd(),
              f"the bound of a hand-over is {HAND_OVER} s, and {crowd():.2f} s for the machine")
    slow = [f"{gap:.2f} s {where}" for gap, where in gaps if gap > TAKE_OVER * SLOW + crowd()]
    check(not slow, "hand-overs that took as long as a take-over:", "; ".join(slow))


def check_silent(fleet, name, since, epochs):
    """Nothing of these epochs came out of this worker since then."""
    late = [delivery for delivery in fleet.deliveries() if delivery.worker == name and delivery.at > since and
            delivery.epoch <= epochs.get(delivery.shard, 0)]
    check_equal(late, [], f"{name} delivered past its deadline")


def a_fleet(world, *names):
    fleet = Fleet(world)
    fleet.start(*names)
    fleet.wait_balanced(*names)
    return fleet
