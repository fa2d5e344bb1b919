#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two sidecars on one lease table: one dies, or is stopped and wakes up late.

On DynamoDB and Kinesis (emulated), and on one SQLite file with a local stream.
"""

import base64
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import threading
import time

from lib import (PATIENCE, SLOW, Sidecar, check, check_equal, crowd, lease_rows, main, make_stream, need_emulators, put_kinesis, test,
                 wait_until)

SHARDS = 4
LEASE_MS = 2000


class Listener:
    """An open record stream, read in a thread as fast as it comes; acknowledges nothing by itself."""

    def __init__(self, sidecar, client_id, **query):
        self.records, self.lines, self.over = [], [], False
        query = dict({"heartbeat_ms": 200}, **query)
        words = "&".join(f"{name}={value}" for name, value in query.items())
        self.connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=60 * PATIENCE)
        self.connection.request("GET", f"/v1/records/stream?client_id={client_id}&{words}")
        self.response = self.connection.getresponse()
        check_equal(self.response.status, 200, "stream")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                line = self.response.readline()
                if not line:
                    break
                line = json.loads(line)
                line["read_at"] = time.monotonic()
                (self.records if line["type"] == "record" else self.lines).append(line)
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        self.over = True

    def data(self):
        return [base64.b64decode(record["data"]).decode() for record in list(self.records)]

    def close(self):
        try:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass


class Cloud:
    """A stream and a table in the emulators."""

    def __init__(self, folder):
        self.folder = folder
        # One stream and one table for each test of this file.
        self.name = "takeover-" + os.path.basename(folder).replace("_", "-")
        make_stream(self.name, SHARDS)

    def sidecar(self, name):
        return Sidecar.on_emulators(self.folder, name, stream=self.name, application=self.name,
                                    lease_duration_ms=LEASE_MS)

    def put(self, _, records):
        return put_kinesis(self.name, records)

    def rows(self):
        return lease_rows(self.name)

    def is_locked_by(self, _):
        return False


class Embedded:
    """The same in two SQLite files."""

    def __init__(self, folder):
        self.folder = folder

    def sidecar(self, name):
        return Sidecar.local(self.folder, name, local_shards=SHARDS, lease_duration_ms=LEASE_MS)

    def put(self, sidecar, records):
        return sidecar.put(records)

    def is_locked_by(self, pid):
        """True if the process keeps the write lock: byte 120 of the shared memory (sqlite.org/walformat.html)."""
        inode = os.stat(os.path.join(self.folder, "leases.db-shm")).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            return any(re.match(rf"\d+: POSIX +\S+ +WRITE {pid} \w+:\w+:{inode} 120 ", line) for line in locks)

    def rows(self):
        with sqlite3.connect(os.path.join(self.folder, "leases.db"), timeout=10) as db:
            db.row_factory = sqlite3.Row
            found = db.execute("SELECT * FROM lease_table WHERE p = 's'").fetchall()
        return {row["k"]: {name: str(row[name]) for name in row.keys() if row[name] is not None} for row in found}


def owners(world):
    return [row.get("owner", "#").rsplit("#", 1)[0] for row in world.rows().values()]


def all_owned_by(world, name):
    return owners(world) == [name] * SHARDS


def ack(sidecar, records, wait_ms=5000):
    answer = sidecar.call("POST", "/v1/records/settle",
                          {"settlements": [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records],
                           "wait": "persisted", "wait_ms": wait_ms})
    check_equal(answer.status, 200, answer)
    return answer.json


def two_sidecars(world):
    """The first holds everything, for it was there first and nothing is ever taken from the living."""
    first = world.sidecar("first").start()
    one = Listener(first, "one", max_in_flight=10)
    wait_until(lambda: all_owned_by(world, "first"), 15, "the first one holds all shards")
    second = world.sidecar("second").start()
    two = Listener(second, "two")
    return first, one, second, two


def numbered(prefix, count):
    return [(f"key-{number}", f"{prefix}-{number:03d}".encode()) for number in range(count)]


def names(records):
    return {data.decode() for _, data in records}


def the_second_takes_over_from_a_killed_one(world):
    first, one, second, two = two_sidecars(world)
    before = numbered("before", 40)
    world.put(first, before)
    wait_until(lambda: len(one.records) >= 10, 10, "the first one delivers")
    answer = ack(first, one.records[:3])
    check_equal((answer["ok"], answer["persisted"]), (3, True), "acks of the first one", answer)

    killed_at = time.monotonic()
    first.kill()
    bound = LEASE_MS / 1000 * 4 / 3 + 2

    def taken():
        leases = second.get("/v1/leases")["leases"]
        return len(leases) == SHARDS and all(row["owner"] == "second" and row["state"] == "held" for row in leases)
    wait_until(taken, bound + 10, "the second one holds all shards")
    took = time.monotonic() - killed_at
    # A sanitized or crowded machine is slow, not wrong: there the bound has some slack.
    check(took <= bound * SLOW + crowd(), f"the take-over took {took:.2f} s, the bound is {bound:.2f} s")
    print(f"    taken over within {took:.2f} s (at most {bound:.2f} s)")

    after = numbered("after", 40)
    world.put(second, after)
    # The first records of a delivery are the first of their shards: a checkpoint covers them.
    rest = names(before) - set(one.data()[:3]) | names(after)
    wait_until(lambda: rest <= set(two.data()), 15, "it delivers the rest")
    check_equal(set(two.data()) - rest, set(), "acknowledged, persisted, and came back")
    check_equal(ack(second, two.records)["failed"], [], "acks of the second one")
    check_equal({row["epoch"] for row in world.rows().values()}, {"2"}, "epochs")
    two.close()
    second.stop()


def checkpoints(world):
    return {shard: row["checkpoint"] for shard, row in world.rows().items()}


def stop_outside_of_a_write(world, first, second, two):
    """Stops the first one. Between BEGIN and COMMIT of a write it keeps the lease table's lock: then nobody takes over, the
    log of the second one names it, and it is woken and stopped again. Says which case it met."""
    while True:
        before = checkpoints(world)
        first.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, first.process.pid, os.WSTOPPED)
        if not world.is_locked_by(first.process.pid):
            print("    stopped outside of a write of the lease table")
            return
        print("    stopped inside a write of the lease table")
        named = re.compile(rf"locked, held by process {first.process.pid} \([^)]*, stopped\)")
        wait_until(lambda: named.search(second.said()), 20, "the second one names the process that keeps the lock")
        check_equal(checkpoints(world), before, "the table while it is locked")
        check_equal(two.data(), [], "delivered by the second one, which holds nothing")
        first.signal(signal.SIGCONT)
        wait_until(lambda: not world.is_locked_by(first.process.pid), 10, "the write is over")


def a_stopped_one_delivers_and_checkpoints_nothing_when_it_wakes(world):
    first, one, second, two = two_sidecars(world)
    records = numbered("record", 60)
    world.put(first, records)
    wait_until(lambda: len(one.records) == 10, 10, "the first one delivers as much as it may")
    time.sleep(0.5)  # It has read more than it may deliver, and holds it in memory.

    stop_outside_of_a_write(world, first, second, two)
    wait_until(lambda: all_owned_by(world, "second"), LEASE_MS / 1000 * 4 / 3 + 10, "the second one took over")
    wait_until(lambda: names(records) <= set(two.data()), 15, "the second one delivers everything")
    check_equal(ack(second, two.records)["failed"], [], "acks of the second one")
    settled = checkpoints(world)

    # What it may do wrong when it wakes: hand out what it holds, now that there is credit for it; take the acks that wait
    # in its socket for good, and write them down.
    late_acks = list(one.records)
    answers = []
    settling = threading.Thread(target=lambda: answers.append(ack(first, late_acks, 1500)), daemon=True)
    settling.start()
    time.sleep(0.3)
    woken_at = time.monotonic()
    first.signal(signal.SIGCONT)
    settling.join(20 * PATIENCE)
    check(answers, "the first one does not answer any more")
    # Until it has heard that it is fenced it may note an ack, but never say that it is durable.
    check(answers[0]["ok"] == 0 or not answers[0]["persisted"], "late acks were said to be durable:", answers[0])
    check(all(failure["reason"] == "FENCED" for failure in answers[0]["failed"]), "reasons:", answers[0])
    wait_until(lambda: "fenced by the fleet" in first.said(), 10, "it notices that it was fenced")
    time.sleep(LEASE_MS / 1000 * 1.5)
    late = [record for record in one.records if record["read_at"] > woken_at]
    check_equal(late, [], "delivered after it woke")
    check_equal(checkpoints(world), settled, "the table after it woke")

    # It is a good member of the fleet again, was given its share of the leases, and takes over in its turn.
    second.kill()
    wait_until(lambda: all_owned_by(world, "first"), LEASE_MS / 1000 * 4 / 3 + 10, "the first one takes over again")
    again = numbered("again", 8)
    world.put(first, again)
    wait_until(lambda: names(again) <= set(one.data()), 10, "and delivers")
    check_equal({data for data in one.data()} - names(again) - names(records), set(), "and nothing else")
    ack(first, [record for record in one.records if record["read_at"] > woken_at])
    one.close()
    first.stop()


@test(seconds=60)
def on_dynamodb_the_second_takes_over_from_a_killed_one(folder):
    the_second_takes_over_from_a_killed_one(Cloud(folder))


@test(seconds=60)
def on_sqlite_the_second_takes_over_from_a_killed_one(folder):
    the_second_takes_over_from_a_killed_one(Embedded(folder))


@test(seconds=80)
def on_dynamodb_a_stopped_one_delivers_and_checkpoints_nothing_when_it_wakes(folder):
    a_stopped_one_delivers_and_checkpoints_nothing_when_it_wakes(Cloud(folder))


@test(seconds=80)
def on_sqlite_a_stopped_one_delivers_and_checkpoints_nothing_when_it_wakes(folder):
    a_stopped_one_delivers_and_checkpoints_nothing_when_it_wakes(Embedded(folder))


@test(seconds=60)
def on_one_local_stream_two_sidecars_share_the_shards(folder):
    world = Embedded(folder)
    # Both have sessions before leases are given out: they are shared. Each serves records that the other one has put.
    sidecars = [world.sidecar(name).start() for name in ("first", "second")]
    listeners = [Listener(sidecar, "app") for sidecar in sidecars]
    wait_until(lambda: "" not in owners(world) and len(owners(world)) == SHARDS, 15, "all shards are given out")
    check_equal(sorted(owners(world)), ["first", "first", "second", "second"], "owners")
    for sidecar, prefix in zip(sidecars, ("a", "b")):
        sidecar.put(numbered(prefix, 50))
    expected = names(numbered("a", 50)) | names(numbered("b", 50))
    wait_until(lambda: expected == set(listeners[0].data()) | set(listeners[1].data()), 15, "all records")
    check(not set(listeners[0].data()) & set(listeners[1].data()), "a record went to both")
    for sidecar, listener in zip(sidecars, listeners):
        check_equal(ack(sidecar, listener.records)["failed"], [], "acks")
    # The first leaves politely; the second gets its shards without waiting for anything to run out.
    leaving = time.monotonic()
    sidecars[0].stop()
    wait_until(lambda: all_owned_by(world, "second"), 10, "the second one holds all")
    check(time.monotonic() - leaving < LEASE_MS / 1000 * SLOW + crowd(), "a drained one hands over at once")
    count = len(listeners[1].records)
    sidecars[1].put(numbered("c", 20))
    wait_until(lambda: names(numbered("c", 20)) <= set(listeners[1].data()), 10, "records of all shards")
    check_equal(len(listeners[1].records), count + 20, "and nothing twice")
    listeners[1].close()
    sidecars[1].stop()


need_emulators("dynoxide", "kinesis-local")
if __name__ == "__main__":
    main()
