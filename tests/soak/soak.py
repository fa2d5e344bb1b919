#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A soak: two sidecars share a stream of 64 shards and more for a long time, while everything goes wrong by chance.

    make soak SECONDS=900            KS_SOAK_SECONDS=900 tests/soak/soak.py by_fanout

By polling, and then by enhanced fan-out, SECONDS each.

Kinesis is our double, the lease table an emulator; each sidecar reaches both through networks of its own (fault proxies)
that are late, cut, half-open, lose answers, refuse and spoil; the double throttles as AWS does, lets iterators and
subscriptions expire, cuts answers and events, damages them, answers nonsense. Shards are split and merged, apps settle by chance (app.py), leave, are killed, and come back,
so that leases are handed over all the time. Data is KEY:NUMBER and padding; the numbers of a key count from 0.

At the end everything is healed. Then it must be true that
    - each record that was put came at least once, and none of a key before an earlier one of that key had come;
    - within an epoch of a shard, which has one owner, first attempts come in the order of the shard;
    - nothing is unsettled, in flight or beyond a checkpoint;
    - memory and file descriptors are flat: see the bounds below.

KS_SOAK_SECONDS (60) and KS_SOAK_SEED (from the clock) say how long, and what chance brings. It prints what it used.
"""

import base64
import collections
import heapq
import os
import random
import signal
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import (SLOW, Double, Failure, FaultProxy, Sidecar, check, lease_rows, main,  # noqa: E402
                 need_emulators, spawn, test, wait_until)
from judge import judge  # noqa: E402

SECONDS = int(os.environ.get("KS_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("KS_SOAK_SEED") or time.time())
SETTLED_SECONDS = 120            # To come to rest when nothing goes wrong any more.

STREAM = "soak"
SHARDS, SHARDS_MAX = 64, 80      # Open ones.
KEYS = 640
TICK, TICK_RECORDS = 0.1, 40
SIZES = ((0.80, 100, 1000), (0.19, 1000, 5000), (0.0095, 5000, 50000), (0.0005, 50000, 300000))
SUBSCRIPTION_MS = 45000          # So that subscriptions are renewed often.
RETENTION_MS = 300000            # So that the double forgets, and rows of old shards are cleaned up.
LEASE_MS = 4000
BUDGET_BYTES = 32 << 20

# Memory is judged when there was time to become flat: tables and pools grow to what is used at most, once.
FLAT_SECONDS = 300
# What a process holds follows what there is to do: an open feed has 80 KB, and what is freed stays for up to 10 s. A leak
# raises the least that it holds. So the least of the last third is compared with that of the middle one, which has as many
# faults: of what is in use by the allocator's count, where in 15 minutes with 400 records a second the bound is a leak of five
# bytes a record (a buffer of 256 KiB may be there or not when it is least); and of what is resident, which pages that a few
# small things keep would raise, too, and rightly a row for each new shard (2 KB).
GROWTH_HEAP_BYTES = 640 << 10
GROWTH_BYTES = 2 << 20
# And how much there is at a time: the median of both beside the process as it was before its first lease. While nothing but
# the top of the heap was given back, it stood 13 to 23 MB above the start.
WORK_BYTES = 13 << 20
# File descriptors: connections are opened and given up all the time, as many as there is to do at once, and those that
# nobody needs are kept for 45 s. So they are counted at the end, when there is nothing to do for longer than that, beside
# what a sidecar had at least in its first third.
REST_SECONDS = 60
GROWTH_FDS = 16


class World:
    """The double with its stream, two sidecars, their networks and their apps."""

    def __init__(self, folder, retrieval):
        self.folder = folder
        self.double = Double(folder)
        self.double.control(limits=1, retention_span=RETENTION_MS, subscription_span=SUBSCRIPTION_MS, seed=SEED)
        self.client = self.double.client()
        self.client.must("CreateStream", StreamName=STREAM, ShardCount=SHARDS)
        wait_until(self.is_active, 10, "the stream is active")
        self.table = "soak-" + os.path.basename(folder).replace("_", "-")
        self.chance = random.Random(SEED)
        self.retrieval = retrieval
        self.members = [Member(self, name) for name in ("one", "two")]

    def is_active(self):
        """The sidecars ask, too: the limit of the operation is for all."""
        answer = self.client.ask("DescribeStreamSummary", StreamName=STREAM)
        return answer.status == 200 and answer.body["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"

    def shards(self):
        shards, more = [], {"StreamName": STREAM}
        while more:
            answer = self.client.must("ListShards", **more)
            shards += answer["Shards"]
            more = {"NextToken": answer["NextToken"]} if "NextToken" in answer else None
        return shards

    def diaries(self):
        return {member.name: member.diary for member in self.members}


class Member:
    """A sidecar, its networks, and its app."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.diary = os.path.join(world.folder, name + ".diary")
        self.stream_network = FaultProxy(world.folder, world.double.url, name + "-stream")
        self.table_network = FaultProxy(world.folder, os.environ["KS_DYNAMODB_URL"], name + "-table")
        self.sidecar = Sidecar.on_emulators(world.folder, name, stream=STREAM, application=world.table,
                                            retrieval=world.retrieval,
                                            lease_duration_ms=LEASE_MS, checkpoint_interval_ms=1000, idle_release_ms=1000,
                                            memory_budget_bytes=BUDGET_BYTES, log_level="warn")
        self.sidecar.env.update(AWS_ENDPOINT_URL_KINESIS=self.stream_network.url,
                                AWS_ENDPOINT_URL_DYNAMODB=self.table_network.url)
        self.sidecar.start()
        self.app = None

    def start_app(self):
        self.app = spawn([sys.executable, os.path.join(HERE, "app.py"), self.sidecar.url, "app-" + self.name, self.diary,
                          str(self.world.chance.random())], os.path.join(self.world.folder, self.name + "-app.log"))

    def end_app(self, number):
        self.app.send_signal(number)
        self.app.wait()

    def numbers(self):
        """What is watched over time."""
        fds = len(os.listdir(f"/proc/{self.sidecar.process.pid}/fd"))
        with open(f"/proc/{self.sidecar.process.pid}/status", encoding="ascii") as status:
            rss = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))
        told = metrics(self.sidecar)
        return Sample(rss, fds, *(told.get(name, 0) for name in (
            "memory_heap_used_bytes", "memory_budget_used_bytes", "leases_held", "records_delivered_total",
            "records_redelivered_total", "in_flight_records", "millis_behind_latest")))


Sample = collections.namedtuple("Sample", "rss fds heap budget leases delivered again in_flight behind_ms")


def metrics(sidecar):
    """The sums of all series: name -> number."""
    sums = collections.Counter()
    for line in sidecar.ops("/metrics").body.decode().split("\n"):
        if line and line[0] != "#":
            name, number = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
            sums[name.replace("kinesis_sidecar_", "", 1)] += float(number)
    return sums


# --- What goes on all the time, each on a thread of its own ---

class Task:
    """Has `turn` called until it is stopped; returns how long to wait before the next one."""

    def __init__(self, turn):
        self.turn, self.over, self.problem = turn, threading.Event(), None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.over.wait(self.turn()):
                pass
        except Exception as err:  # Told by stop().
            self.problem = err

    def stop(self):
        self.over.set()
        self.thread.join(60 * SLOW)
        if self.problem is not None:
            raise Failure(f"{self.turn.__qualname__}: {self.problem!r}") from self.problem
        check(not self.thread.is_alive(), self.turn.__qualname__, "does not end")


class Producer:
    """Puts some keys each tick. A key that was refused is put again with the same number."""

    def __init__(self, world):
        self.client, self.chance = world.double.client(), random.Random(SEED + 1)
        self.next = collections.Counter()  # Key -> the number that comes next.
        self.last = {}                     # Shard -> its last sequence number.
        self.count = self.bytes = self.refused = 0

    def padding(self):
        luck = self.chance.random()
        for part, least, most in SIZES:
            if luck < part:
                break
            luck -= part
        return b"x" * self.chance.randrange(least, most)

    def turn(self):
        started = time.monotonic()
        keys = [f"key-{number}" for number in self.chance.sample(range(KEYS), TICK_RECORDS)]
        data = [f"{key}:{self.next[key]} ".encode() + self.padding() for key in keys]
        answer = self.client.must("PutRecords", StreamName=STREAM, Records=[
            {"PartitionKey": key, "Data": encoded(one)} for key, one in zip(keys, data)])
        for key, one, placed in zip(keys, data, answer["Records"]):
            if "SequenceNumber" not in placed:
                self.refused += 1
                continue
            self.next[key] += 1
            self.count += 1
            self.bytes += len(one)
            self.last[placed["ShardId"]] = max(int(placed["SequenceNumber"]), self.last.get(placed["ShardId"], 0))
        return max(0.0, TICK - (time.monotonic() - started))


def encoded(data):
    return base64.b64encode(data).decode()


class Resharder:
    """Splits a shard, or merges two that are neighbours."""

    def __init__(self, world):
        self.world, self.chance = world, random.Random(SEED + 2)
        self.splits = self.merges = 0

    def turn(self):
        ranges = sorted((int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]),
                         shard["ShardId"]) for shard in self.world.shards()
                        if "EndingSequenceNumber" not in shard["SequenceNumberRange"])
        split = len(ranges) == SHARDS or (len(ranges) < SHARDS_MAX and self.chance.random() < 0.5)
        at = self.chance.randrange(len(ranges) - 1)
        first, last, shard = ranges[at]
        if split and last - first > 2 << 64:
            self.world.client.must("SplitShard", StreamName=STREAM, ShardToSplit=shard,
                                   NewStartingHashKey=str((first + last) // 2))
            self.splits += 1
        elif not split:
            self.world.client.must("MergeShards", StreamName=STREAM, ShardToMerge=shard,
                                   AdjacentShardToMerge=ranges[at + 1][2])
            self.merges += 1
        wait_until(self.world.is_active, 10, "the stream is active again")
        return self.chance.uniform(4, 12)


class Apps:
    """Has an app leave, for so long that its leases go to the other sidecar; sometimes it is killed. Not a task: what a
    thread starts ends with it."""

    def __init__(self, world):
        self.world, self.chance = world, random.Random(SEED + 3)
        self.left = self.killed = 0
        self.away = None

    def turn(self):
        if self.away is not None:
            self.away.start_app()
            self.away = None
            return self.chance.uniform(8, 20)
        self.away = self.chance.choice(self.world.members)
        if self.chance.random() < 0.3:
            self.away.end_app(signal.SIGKILL)
            self.killed += 1
        else:
            self.away.end_app(signal.SIGTERM)
            self.left += 1
        return self.chance.uniform(0.2, 6)

    def stop(self):
        if self.away is not None:
            self.away.start_app()


class Trouble:
    """One fault after the other, each healed before the next one comes to the same place."""

    def __init__(self, world):
        self.world, self.chance = world, random.Random(SEED + 4)
        self.healing = []  # (instant, number, what heals it)
        self.busy = set()
        self.happened = collections.Counter()

    def later(self, place, seconds, heal):
        self.busy.add(place)
        self.happened["all"] += 1
        heapq.heappush(self.healing, (time.monotonic() + seconds, self.happened["all"], place, heal))

    def heal(self, until):
        while self.healing and self.healing[0][0] <= until:
            _, _, place, heal = heapq.heappop(self.healing)
            heal()
            self.busy.discard(place)

    def turn(self):
        self.heal(time.monotonic())
        self.chance.choice((self.trouble_stream_network, self.trouble_table_network, self.trouble_double))()
        return self.chance.uniform(0.2, 1.5)

    def stop(self):
        self.heal(float("inf"))

    def network(self, network, name, line, seconds, back="heal"):
        if name in self.busy:
            return
        network.do(line)
        self.happened[name + " " + line.rstrip("0123456789 ")] += 1
        self.later(name, seconds, lambda: network.do(back))

    def refuse(self, network, name, codes):
        """To the next requests, beside whatever else is wrong."""
        line = self.chance.choice(codes + ("lose", "wrong-crc"))
        network.do(f"{line} {self.chance.randrange(1, 20)}")
        self.happened[f"{name} {line}"] += 1

    def trouble_stream_network(self):
        member = self.chance.choice(self.world.members)
        name, network = "stream", member.stream_network
        kind = self.chance.randrange(6)
        place = f"{name} of {member.name}"
        if kind == 0:
            self.network(network, place, f"latency {self.chance.randrange(20, 300)}", self.chance.uniform(2, 6), "latency 0")
        elif kind == 1:
            self.network(network, place, "cut", self.chance.uniform(0.2, 2))
        elif kind == 2:
            self.network(network, place, "hang", self.chance.uniform(0.5, 4))
        elif kind == 3:
            self.network(network, place, "drop-answers", self.chance.uniform(0.5, 3))
        else:
            self.refuse(network, place, ("refuse 500 InternalFailure", "refuse 503 ServiceUnavailable",
                                         "refuse 400 ProvisionedThroughputExceededException",
                                         "refuse 400 ExpiredIteratorException", "refuse 400 LimitExceededException"))

    def trouble_table_network(self):
        """Mostly shorter than a lease; sometimes long enough to lose all leases."""
        member = self.chance.choice(self.world.members)
        network = member.table_network
        kind = self.chance.randrange(6)
        place = f"table of {member.name}"
        long = self.chance.random() < 0.05
        seconds = LEASE_MS / 1000 * self.chance.uniform(1.2, 1.8) if long else self.chance.uniform(0.2, 1.5)
        if kind == 0:
            self.network(network, place, f"latency {self.chance.randrange(20, 200)}", self.chance.uniform(2, 5), "latency 0")
        elif kind == 1:
            self.network(network, place, "cut", seconds)
        elif kind == 2:
            self.network(network, place, "hang", seconds)
        elif kind == 3:
            self.network(network, place, "drop-answers", seconds)
        else:
            self.refuse(network, place, ("refuse 500 InternalServerError", "refuse 503 ServiceUnavailable",
                                         "refuse 400 ThrottlingException",
                                         "refuse 400 ProvisionedThroughputExceededException"))

    def trouble_double(self):
        kind = self.chance.choice(READING[self.world.retrieval])
        if kind in PASSING:
            if kind not in self.busy:
                self.world.double.control(**{kind: PASSING[kind][0]})
                self.later(kind, self.chance.uniform(1, 4),
                           lambda: self.world.double.control(**{kind: PASSING[kind][1]}))
        else:
            self.world.double.control(faults=[{
                "kind": kind, "operation": OPERATION[self.world.retrieval], "code": self.chance.choice(CODES), "percent": 20,
                "delay_ms": self.chance.randrange(100, 3000), "count": self.chance.randrange(1, 20)}])
        self.happened["double " + kind] += 1


# What goes wrong with a read: faults of the double (kinesis_rules.c) and, for a while, some of its knobs.
OPERATION = {"polling": "GetRecords", "fanout": "SubscribeToShard"}
ANSWERS = ("cut", "garbage", "lose", "refuse", "late", "hang", "error")
READING = {"polling": (*ANSWERS, "iterator_span", "empty_reads"),
           "fanout": (*ANSWERS, "exception", "stream-error", "bad-crc", "cut-event", "garbage-event", "silence", "end",
                      "no-initial", "subscription_span")}
PASSING = {"iterator_span": (300, 300000), "empty_reads": (3, 0), "subscription_span": (3000, SUBSCRIPTION_MS)}
CODES = ("KMSThrottlingException", "InternalFailure", "ServiceUnavailable", "ProvisionedThroughputExceededException",
         "ExpiredIteratorException", "LimitExceededException", "ResourceInUseException")


# --- What is watched ---

class Watch:
    """Samples once a second, and prints some of them."""

    def __init__(self, world, producer):
        self.world, self.producer = world, producer
        self.samples = {member.name: [] for member in world.members}
        self.started = time.monotonic()
        self.print_every = max(2, SECONDS // 30)
        columns = "leases  RSS MB  heap MB  fds  budget MB  delivered   again in flight  behind s"
        print(f"    time s      put   {columns} | {columns}", flush=True)

    def turn(self):
        said = []
        for member in self.world.members:
            check(member.sidecar.process.poll() is None, f"the sidecar {member.name} ended")
            sample = member.numbers()
            self.samples[member.name].append(sample)
            said.append(f"{sample.leases:6.0f} {sample.rss / 1e6:7.1f} {sample.heap / 1e6:8.1f} {sample.fds:4d} "
                        f"{sample.budget / 1e6:10.2f} {sample.delivered:10.0f} {sample.again:7.0f} {sample.in_flight:9.0f} {sample.behind_ms / 1e3:9.1f}")
        now = time.monotonic() - self.started
        if len(self.samples[member.name]) % self.print_every == 1:
            print(f"    {now:6.0f} {self.producer.count:8d}   {' | '.join(said)}", flush=True)
        return 1.0 - now % 1.0

    def judge(self):
        """Flat: see the bounds above. The apps have left."""
        if SECONDS >= FLAT_SECONDS:
            time.sleep(REST_SECONDS)
        rest = {member.name: member.numbers() for member in self.world.members}
        problems = []
        for name, samples in self.samples.items():
            third = len(samples) // 3
            middle, last = samples[third:2 * third], samples[2 * third:]
            check(all(sample.heap > 0 for sample in samples) or SLOW > 1, "the sidecar counts what is in use")
            for what, found, bound in (
                    ("least heap in use of the last third", least(last, "heap"), least(middle, "heap") + GROWTH_HEAP_BYTES),
                    ("least memory of the last third", least(last, "rss"), least(middle, "rss") + GROWTH_BYTES),
                    ("memory of the last two thirds", median_rss(middle + last), samples[0].rss + WORK_BYTES),
                    ("descriptors at rest", rest[name].fds, least(samples[:third], "fds") + GROWTH_FDS)):
                said = f"{name}: {what} {found:.0f}, bound {bound:.0f}"
                print("    " + said, flush=True)
                if SECONDS >= FLAT_SECONDS and found > bound:
                    problems.append(said)
        check(not problems, "not flat:", "; ".join(problems))


def median_rss(samples):
    return statistics.median(sample.rss for sample in samples)


def least(samples, what):
    return min(getattr(sample, what) for sample in samples)


def unsettled(world, producer):
    """What is in flight, or beyond the checkpoints in the table; empty when everything is at rest."""
    rows = lease_rows(world.table)
    there = {shard["ShardId"] for shard in world.shards()}
    found = {shard: rows.get(shard) for shard, last in producer.last.items()
             if shard in there and rows.get(shard, {}).get("checkpoint") not in (str(last), "SHARD_END")}
    found.update({member.name: sample for member in world.members if (sample := member.numbers()).in_flight > 0})
    return found


def wait_at_rest(world, producer):
    until = time.monotonic() + SETTLED_SECONDS * SLOW
    while found := unsettled(world, producer):
        if time.monotonic() > until:
            for member in world.members:
                print(f"    {member.name}: {member.numbers()} {member.sidecar.get('/v1/status')} "
                      f"{member.sidecar.get('/v1/sessions')} app {member.app.poll()}")
            check(False, f"not at rest {SETTLED_SECONDS} s after the last fault:", found)
        time.sleep(0.5)


def soak(folder, retrieval):
    print(f"    {SECONDS} s from seed {SEED}", flush=True)
    world = World(folder, retrieval)
    for member in world.members:
        member.start_app()
    producer, resharder, apps, trouble = Producer(world), Resharder(world), Apps(world), Trouble(world)
    watch = Watch(world, producer)
    tasks = [Task(one.turn) for one in (producer, resharder, trouble, watch)]
    until = time.monotonic() + SECONDS
    pause_until = 0
    while time.monotonic() < until and not any(task.problem for task in tasks):
        if time.monotonic() >= pause_until:
            pause_until = time.monotonic() + apps.turn()
        time.sleep(0.1)
    for task in tasks:
        task.stop()
    apps.stop()
    trouble.stop()
    world.double.control(heal=True)
    healed = time.monotonic()
    wait_at_rest(world, producer)
    print(f"    settled {time.monotonic() - healed:.1f} s after the last fault; {producer.count} records of "
          f"{producer.bytes / 1e6:.0f} MB put, {resharder.splits} splits, {resharder.merges} merges, apps left {apps.left} "
          f"times and were killed {apps.killed} times")
    print("    faults:", ", ".join(f"{count} {what}" for what, count in sorted(trouble.happened.items())))
    for member in world.members:
        member.end_app(signal.SIGTERM)
    judge(world.diaries(), producer.next)
    check(resharder.splits > 0 and resharder.merges + resharder.splits > 2, "there were reshards")
    watch.judge()
    for member in world.members:
        member.sidecar.stop()


@test(seconds=SECONDS + SETTLED_SECONDS * 2 + 120)
def by_polling(folder):
    soak(folder, "polling")


@test(seconds=SECONDS + SETTLED_SECONDS * 2 + 120)
def by_fanout(folder):
    soak(folder, "fanout")


if __name__ == "__main__":
    need_emulators("dynoxide")
    main()
