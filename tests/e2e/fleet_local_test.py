#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet on one machine: sidecars that share one SQLite file and one local stream.

They divide the shards within one, hand over without losing or repeating anything while the apps settle in time, tell
their sessions before, and say in /v1/events, /v1/workers and /v1/leases who holds what and why. A pinned worker id
belongs to one process, and a process that was killed is followed at once by the next one of its id.
"""

import base64
import http.client
import json
import os
import signal
import threading
import time

from lib import PATIENCE, SLOW, Sidecar, check, check_equal, crowd, main, test, wait_until

SHARDS = 8
LEASE_MS = 2000


class App:
    """Consumes one sidecar's stream and acknowledges each record after a moment; remembers all that it saw."""

    def __init__(self, sidecar, name, diary, think=0.0):
        self.sidecar, self.name, self.diary, self.think = sidecar, name, diary, think
        self.events, self.failed, self.over = [], [], False
        self.connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=30 * PATIENCE)
        self.connection.request("GET", f"/v1/records/stream?client_id={name}&heartbeat_ms=200&max_in_flight=50")
        self.response = self.connection.getresponse()
        check_equal(self.response.status, 200, "stream")
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            for line in iter(self.response.readline, b""):
                line = json.loads(line)
                if line["type"] == "record":
                    self.handle(line)
                elif line["type"] != "heartbeat":
                    self.events.append(dict(line, seen_at=time.monotonic()))
        except (OSError, ValueError, http.client.HTTPException, AttributeError) as err:
            self.events.append({"type": "broken", "why": repr(err), "seen_at": time.monotonic()})
        self.over = True

    def handle(self, record):
        self.diary.append((time.monotonic(), self.name, record["shard_id"], record["epoch"], record["sequence_number"],
                           base64.b64decode(record["data"]).decode()))
        if self.think:
            time.sleep(self.think)
        answer = self.sidecar.call("POST", "/v1/records/ack?ack_id=" + record["ack_id"])
        self.failed += answer.json["failed"]

    def told(self, kind):
        return [event for event in list(self.events) if event["type"] == kind]


class Events:
    """GET /v1/events, followed."""

    def __init__(self, sidecar):
        self.lines = []
        self.connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=30 * PATIENCE)
        self.connection.request("GET", "/v1/events?heartbeat_ms=500")
        self.response = self.connection.getresponse()
        check_equal(self.response.status, 200, "events")
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            for line in iter(self.response.readline, b""):
                self.lines.append(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass

    def of(self, kind):
        return [line for line in list(self.lines) if line["type"] == kind]


class Feeder:
    """Puts a few numbered records at a time through whichever sidecar is up."""

    def __init__(self):
        self.count, self.sidecar, self.going = 0, None, True

    def start(self, sidecar):
        self.sidecar = sidecar
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.going:
            entries = [{"PartitionKey": f"key-{self.count + n}",
                        "Data": base64.b64encode(f"{self.count + n}".encode()).decode()} for n in range(10)]
            answer = self.sidecar.call("POST", "/v1/local/records", {"Records": entries})
            check_equal(answer.json["FailedRecordCount"], 0, "put")
            self.count += len(entries)
            time.sleep(0.02)

    def stop(self):
        self.going = False
        self.thread.join()


def held(sidecars):
    return [sidecar.get("/v1/status")["subscriptions"][0]["leases_held"] for sidecar in sidecars]


def balanced(sidecars):
    counts = held(sidecars)
    return sum(counts) == SHARDS and max(counts) - min(counts) <= 1


def wait_balanced(sidecars):
    wait_until(lambda: balanced(sidecars), 15, f"{SHARDS} leases are divided within one", every=0.1)


def check_diary(diary, count):
    """Everything came exactly once, and in order within each shard."""
    seen = {}
    last = {}
    for _, name, shard, epoch, sequence, data in diary:
        check(data not in seen, f"record {data} came twice: to {seen.get(data)} and to", (name, shard, epoch))
        seen[data] = (name, shard, epoch)
        check(int(sequence) > last.get(shard, 0), "out of order in", shard)
        last[shard] = int(sequence)
    check_equal(sorted(map(int, seen)), list(range(count)), "records")


def longest_gap(diary, since):
    """The longest time from the last record of one owner of a shard to the first of the next."""
    gaps, before = [0.0], {}
    for at, _, shard, epoch, _, _ in diary:
        if shard in before and before[shard][1] != epoch and at > since:
            gaps.append(at - before[shard][0])
        before[shard] = (at, epoch)
    return max(gaps)


@test(seconds=55)
def one_becomes_three_and_one_again(folder):
    fleet = [Sidecar.local(folder, f"pod-{n}", local_shards=SHARDS, lease_duration_ms=LEASE_MS,
                           drain_timeout_ms=5000) for n in range(3)]
    diary, feeder = [], Feeder()

    fleet[0].start()
    events = Events(fleet[0])
    apps = [App(fleet[0], "app-0", diary)]
    wait_balanced(fleet[:1])
    feeder.start(fleet[0])

    started = time.monotonic()
    for n in (1, 2):
        fleet[n].start()
        apps.append(App(fleet[n], f"app-{n}", diary))
    wait_balanced(fleet)
    moved = SHARDS - max(held(fleet[:1]))

    def shards_told(kind):
        return {event["shard_id"] for event in apps[0].told(kind)}
    # The table may be balanced before the events have reached the app.
    for kind in ("lease_returning", "lease_lost"):
        wait_until(lambda kind=kind: len(shards_told(kind)) >= moved, 10, f"app-0 gets {kind} of the leases that left")
    for event in apps[0].told("lease_returning"):
        check(event["shard_id"] and event["deadline"], event)
    check_equal(shards_told("lease_lost"), shards_told("lease_returning"), "told of the end of what was announced")
    check_equal(len(shards_told("lease_returning")), moved, "moves are the least possible")
    check_says_who_holds_what(fleet, events)
    time.sleep(1)

    for n in (2, 1):
        fleet[n].stop(seconds=10)
        wait_balanced(fleet[:n])
        check(apps[n].told("draining"), f"app-{n} was told of the drain")
    time.sleep(0.5)
    feeder.stop()
    wait_until(lambda: len({entry[5] for entry in diary}) >= feeder.count, 10, "all records came")
    check_diary(list(diary), feeder.count)
    check_equal([app.failed for app in apps], [[], [], []], "refused acks")
    gap = longest_gap(list(diary), started)
    check(gap < 2 * SLOW + crowd(), f"a hand-over took {gap:.2f} s")
    fleet[0].stop()


def check_says_who_holds_what(fleet, events):
    workers = {worker["worker_id"]: worker for worker in fleet[0].get("/v1/workers")["workers"]}
    check_equal(sorted(workers), ["pod-0", "pod-1", "pod-2"], "workers")
    for worker in workers.values():
        check_equal((worker["life"], worker["mode"], worker["capacity"]), ("live", "active", 0), worker)
    check_equal(sum(worker["leader"] for worker in workers.values()), 1, "leaders")
    wait_until(lambda: all(worker["load"] > 0 and worker["leases_held"] > 0
                           for worker in fleet[0].get("/v1/workers")["workers"]), 10, "each tells what it carries")
    for sidecar in fleet:
        leases = sidecar.get("/v1/leases")["leases"]
        check_equal(len(leases), SHARDS, "leases as told by", sidecar.options["worker_id"])
        counts = {}
        for lease in leases:
            counts[lease["owner"]] = counts.get(lease["owner"], 0) + 1
        check_equal(sorted(counts.values()), [2, 3, 3], counts)
        own = [lease for lease in leases if lease["owner"] == sidecar.options["worker_id"]]
        for lease in own:
            check(lease["since"] is not None and lease["reason"], lease)
    moved = [lease for lease in fleet[0].get("/v1/leases")["leases"] if lease["owner"] != "pod-0"]
    for lease in moved:
        check_equal(lease["since"] is not None, True, lease)
        check(lease["owner"] in lease["reason"] or "released" in lease["reason"], lease)
    for kind in ("reshard", "lease_acquired", "lease_returning", "lease_lost"):
        check(events.of(kind), f"an event {kind}")
        for event in events.of(kind):
            check(event["shard_id"] in event["message"] and event["at"].endswith("Z"), event)
    check(all(event["epoch"] >= 1 for event in events.of("lease_acquired")), "epochs of events")
    check("epoch" not in events.of("reshard")[0], "an event about no epoch")


@test(seconds=30)
def a_worker_takes_no_more_than_it_wants(folder):
    small = Sidecar.local(folder, "small", local_shards=SHARDS, max_leases=2).start()
    large = Sidecar.local(folder, "large", local_shards=SHARDS).start()
    diary = []
    apps = [App(small, "app-small", diary), App(large, "app-large", diary)]
    wait_until(lambda: held([small, large]) == [2, SHARDS - 2], 15, "two for the small one, the rest for the other")
    capacities = {worker["worker_id"]: worker["capacity"] for worker in large.get("/v1/workers")["workers"]}
    check_equal(capacities, {"small": 2, "large": 0}, "capacities")
    large.stop()
    time.sleep(1)
    check_equal(held([small]), [2], "and no more when it is alone")
    check(not apps[0].over, "the stream goes on")
    small.stop()


@test(seconds=30)
def a_pinned_id_belongs_to_one_process(folder):
    first = Sidecar.local(folder, "pod-0").start()
    App(first, "app", [])
    wait_until(lambda: held([first]) == [4], 10, "all leases")

    # On this machine the lock says so at once.
    second = Sidecar.local(folder, "second", worker_id="pod-0").start(ready=False)
    check_equal(second.wait(10), 1, "status of the second one")
    boot = first.get("/v1/workers")["workers"][0]["boot_id"]
    check("pod-0" in second.said() and boot in second.said(), second.said())

    # Elsewhere there is no such lock, and the row says so.
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere)
    third = Sidecar.local(folder, "third", worker_id="pod-0", state_dir=elsewhere).start(ready=False)
    check_equal(third.wait(10), 1, "status of the third one")
    check("alive elsewhere" in third.said() and boot in third.said(), third.said())
    check_equal(held([first]), [4], "the first one is not disturbed")
    first.stop()


@test(seconds=30)
def a_killed_worker_is_followed_at_once_by_the_next_of_its_id(folder):
    first = Sidecar.local(folder, "pod-0", lease_duration_ms=60000).start()
    App(first, "app", [])
    wait_until(lambda: held([first]) == [4], 15, "all leases")
    first.kill()
    started = time.monotonic()
    second = Sidecar.local(folder, "pod-0", lease_duration_ms=60000).start()
    App(second, "app", [])
    wait_until(lambda: held([second]) == [4], 15, "all leases again")
    took = time.monotonic() - started
    check(took < 40, f"it took {took:.1f} s, as if the lease had to run out")
    second.signal(signal.SIGTERM)
    check_equal(second.wait(20), 0, "status")


if __name__ == "__main__":
    main()
