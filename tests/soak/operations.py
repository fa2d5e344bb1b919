#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random operations on one sidecar: everything that API.md has, by every protocol, at the same time, from a seed.

    make operations SECONDS=300          KS_SOAK_SEED=7 tests/soak/operations.py

The sidecar stands on a local stream. Clients take numbered records (KEY:NUMBER) by streams and polls of all kinds, settle them
in all ways, also twice, late, and those of others, take each other's sessions over, and break off. Operators pause, resume,
release, seek, look beside, redrive and discard; the process is stopped, ended and killed. What must hold meanwhile stands in
ledger.py and here; at the end all is healed, and each record must have been settled by somebody, all that was held must be
free again, and the process must never have died by itself.

KS_SOAK_SECONDS (60) and KS_SOAK_SEED (from the clock) say how long, and what chance brings. It prints what it used.
"""

import base64
import collections
import http.client
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import ROOT, SLOW, Failure, Sidecar, check, check_equal, main, test, wait_until  # noqa: E402
from stub import Stub, grpc  # noqa: E402
from ending import SETTLED_SECONDS, heal, judge, leave  # noqa: E402
from ledger import Ledger, number_of  # noqa: E402
from operations_client import Client  # noqa: E402
from operations_operator import Operator  # noqa: E402
from operations_reader import Reader  # noqa: E402
from sources import PACKAGE, Gone, Refused, allowed, name_of, refused  # noqa: E402

SECONDS = int(os.environ.get("KS_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("KS_SOAK_SEED") or time.time())
KEYS = [f"key-{number}" for number in range(40)]
LARGEST_BYTES = 700100  # Of a record, with its name and its key.


def options_of(chance):
    return {"local_shards": chance.choice((1, 3, 8, 40)), "lease_duration_ms": chance.choice((1000, 2000)),
            "checkpoint_interval_ms": chance.choice((100, 500, 2000)), "idle_release_ms": chance.choice((500, 30000)),
            "drain_timeout_ms": 2000, "retry_backoff_ms": chance.choice(("", "1", "100,500")), "memory_budget_bytes": 32 << 20,
            "max_attempts": chance.choice((0, 0, 4)), "log_level": "debug"}


class Member:
    """A sidecar, through its lives."""

    def __init__(self, folder, name, options, ledger):
        self.name, self.ledger = name, ledger
        self.sidecar = Sidecar.local(folder, name, **options)
        self.up = threading.Event()
        self.lives = 0
        self.drains_since = 0  # Its drain began: readers read on to the end of their streams. 0: none is under way.
        self.local = threading.local()
        self.start()
        self.lives += 1
        self.up.set()

    @property
    def boot(self):
        return f"{self.name}.{self.lives}"

    def start(self):
        """Returns when all shards are known: their rows by their ids."""
        self.sidecar.start()
        self.before = self.descriptors()
        found = {}

        def all_known():
            found.update({shard["shard_id"]: shard for shard in self.shards()})
            return len(found) == self.sidecar.options["local_shards"]
        wait_until(all_known, 30, "all shards are known")
        return found

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.sidecar.process.pid}/fd"))

    def stub(self):
        if not self.up.is_set():
            raise Gone("it is not there")  # A channel to nobody would wait before it tries again.
        if getattr(self.local, "boot", 0) != self.boot:
            self.local.boot = self.boot
            self.local.channel = grpc.insecure_channel(self.sidecar.options["listen"],
                                                       options=(("grpc.use_local_subchannel_pool", 1),))
            self.local.stub = Stub(self.local.channel, PACKAGE + "Consumer")
        return self.local.stub

    def ask(self, method, path, body=None, seconds=90):
        """JSON of a 200. Refused, or Gone."""
        try:
            answer = self.sidecar.call(method, path, body, timeout=seconds)
        except (OSError, http.client.HTTPException) as err:
            raise Gone(f"{method} {path} {len(json.dumps(body))} {err!r}") from err
        if answer.status == 200:
            return answer.json
        raise refused(answer.status, answer.body)

    def shards(self):
        return self.ask("GET", "/v1/shards")["shards"]

    def end(self, how, alone, left):
        """Kills it, or has it end by itself, and starts it again. `alone`: nobody else settles meanwhile.
        `left`: whether the readers have reached the ends of their streams."""
        self.up.clear()
        held = [shard for shard in self.shards() if shard["owner"] == self.name]
        if how == "drained":
            # One that is returned already has a deadline of its own.
            self.held = {(shard["shard_id"], shard["epoch"]) for shard in held if shard["state"] == "held"}
            self.drains_since = time.monotonic()
            self.drain()
            wait_until(left, 40, "drained streams end")
            self.drains_since = 0
        if how in ("SIGKILL", "SIGTERM"):
            self.sidecar.signal(getattr(signal, how))
        else:
            self.told("/v1/quit")
        status = self.sidecar.wait()
        check(how == "SIGKILL" or status in (0, 1), "it ended with", status)
        ended = time.monotonic()
        self.lives += 1  # Some go on in the middle of a turn, and meet the next one before we do.
        found = self.start()
        if alone and how != "SIGKILL" and status == 0:
            self.all_was_saved(held, found)
        if alone:
            self.ledger.process_ended({name: number_of(shard["checkpoint"]) for name, shard in found.items()}, ended)
        self.up.set()

    def drain(self):
        """It stays, and holds nothing."""
        self.told("/v1/drain")
        status = self.ask("GET", "/v1/status")
        row = status["subscriptions"][0]
        check_equal((status["state"], row["leases_held"], row["sessions"], row["in_flight"], row["in_flight_bytes"]),
                    ("draining", 0, 0, 0, 0), "a drain left")

    def told(self, path):
        """What it says to its end."""
        answer = self.sidecar.call("POST", path, timeout=60 * SLOW)
        check(answer.status == 200 and json.loads(answer.body.splitlines()[-1])["type"] == "drained", path, "said", answer)

    @staticmethod
    def all_was_saved(held, found):
        """What was settled when it began to drain is in the table, unless the lease was lost before."""
        for shard in held:
            later = found[shard["shard_id"]]
            check(later["epoch"] > shard["epoch"] + 1 or number_of(later["checkpoint"]) >= number_of(shard["watermark"]),
                  "drained, and not saved:", shard, later)


class Act:
    """How apps take records for a while."""

    def __init__(self, chance):
        self.ordering = chance.choice(("shard", "shard", "key", "key", "none"))
        self.lanes = chance.choice((1, 2, 16, 64))
        self.agreed = chance.random() < 0.7  # All say the same ordering.
        self.polite = chance.random() < 0.5  # All read what is on its way before they leave.
        self.steady = chance.random() < 0.5  # Nobody changes the limits of a session that is open.
        self.slow = chance.random() < 0.4  # Only slow readers are there.

    def __repr__(self):
        return (f"by {self.ordering}{f' in {self.lanes} lanes' if self.ordering == 'key' else ''}"
                f"{'' if self.agreed else ', not agreed'}{', polite' if self.polite else ''}{', steady' if self.steady else ''}{', slow' if self.slow else ''}")


class World:
    def __init__(self, folder):
        self.chance = random.Random(SEED)
        self.ledger = Ledger(None)
        self.playing, self.acts = threading.Event(), []
        self.clients = []
        options = options_of(self.chance)
        self.ledger.gives_up = options["max_attempts"] > 0
        self.members = [Member(folder, name, options, self.ledger) for name in ("one", "two")[:self.chance.choice((1, 1, 2))]]
        self.over, self.problem = threading.Event(), None
        self.statuses = collections.Counter()
        self.seeking = threading.Lock()
        self.next_act()

    @property
    def act(self):
        return self.acts[-1]

    def next_act(self):
        """All leave first, for the order is that of the first session."""
        self.playing.clear()
        for client in self.clients:
            client.away = False
        wait_until(lambda: self.over.is_set() or all(client.away for client in self.clients), 60, "all apps have left")
        for member in self.members:
            wait_until(lambda member=member: leave(member) == 0, 30, "nobody is there")
        self.look_at_letters()
        self.acts.append(Act(self.chance))
        with self.ledger.lock:
            self.ledger.ordering = self.act.ordering if self.act.agreed else None
            self.ledger.act = len(self.acts) if self.act.slow else None
        self.playing.set()

    def look_at_letters(self):
        """While the act is known in which they were written."""
        for member in self.members:
            for letter in member.ask("GET", "/v1/dead-letters?page_size=1000")["dead_letters"]:
                self.ledger.letter(letter["shard_id"], int(letter["sequence_number"]), letter["cause"])

    def run(self, fate, *actors):
        """Each on a thread of its own, with a chance of its own, until the time is over or one finds something. Fate is not:
        what a thread starts ends with it."""
        threads = [threading.Thread(target=self.loop, args=(actor, random.Random(SEED + 1 + number)), daemon=True)
                   for number, actor in enumerate(actors)]
        for thread in threads:
            thread.start()
        chance = random.Random(SEED)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not self.over.is_set():
            fate(chance, min(until - time.monotonic(), chance.uniform(2, 10)))
        self.over.set()
        for thread in threads:
            thread.join(120 * SLOW)
        if self.problem:
            raise Failure(self.problem)
        check(not any(thread.is_alive() for thread in threads), "a thread does not end")

    def loop(self, actor, chance):
        try:
            while not self.over.is_set():
                if actor.member.up.wait(0.5) or isinstance(actor, Reader) and actor.member.drains_since:
                    actor.turn(chance)
        except Exception:
            self.problem = self.problem or traceback.format_exc()
            self.over.set()

    def may(self, member, what, act):
        """Does something that may be refused, or find nobody there. None if so."""
        boot, up, began = member.boot, member.up.is_set(), time.monotonic()
        try:
            answer = act()
            self.statuses[what, 200] += 1
            return answer
        except Refused as err:
            self.statuses[what, str(err.status), err.kind] += 1
            check(allowed(what, err), what, "was answered", err)
        except Gone as err:
            self.statuses[what, "gone"] += 1
            # An answer to a poll is cut if one of its epochs ends while it is half-way.
            cut = what == "read" or what == "poll" and self.ledger.sought_since(began)
            check(not up or not member.up.is_set() or member.boot != boot or cut, what, "found a broken connection:", err)
        return None


# --- Those beside ---

class Producer:
    def __init__(self, world, member):
        self.world, self.member, self.next = world, member, collections.Counter()

    def turn(self, chance):
        entries, act = [], self.world.ledger.act
        for _ in range(chance.choice((1, 10, 60) if act is None else (1, 3, 8))):
            key = chance.choice(KEYS)
            size = self.size(chance, act)
            data = f"{key}:{self.next[key]} ".encode() + b"x" * size
            entries.append((key, data if chance.random() < 0.7 else b'"' + data + b'"'))
            self.next[key] += 1
        body = {"Records": [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in entries]}
        answer = self.world.may(self.member, "put", lambda: self.member.ask("POST", "/v1/local/records", body))
        if answer is not None:
            check_equal(answer["FailedRecordCount"], 0, "put")
            with self.world.ledger.lock:
                act = act if act == self.world.ledger.act else None
                for (_, data), placed in zip(entries, answer["Records"]):
                    self.world.ledger.was_put(placed["ShardId"], int(placed["SequenceNumber"]), name_of(data), len(data), act)
        time.sleep(chance.uniform(0, 0.25 if act is None else 0.6))

    @staticmethod
    def size(chance, act):
        """Slow readers get records that are larger than their buffers, and some that are larger than all on the way."""
        if act is None:
            return chance.choice((0, 10, 100)) if chance.random() < 0.98 else chance.choice((1500, 5000, 30000, 100000))
        luck = chance.random()
        return chance.choice((0, 100)) if luck < 0.5 else chance.randrange(20000, 100000) if luck < 0.85 else \
            chance.randrange(500000, 700000)


class Monitor:
    """What the sidecar says of itself."""

    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger

    def turn(self, chance):
        del chance
        boot = self.member.boot
        with self.ledger.lock:
            seeks = collections.defaultdict(int, {shard: place.seeks for shard, place in self.ledger.places.items()})
        for shard in self.world.may(self.member, "look", self.member.shards) or []:
            for name in ("delivered", "settled", "watermark_gap", "buffered", "in_flight"):
                check(0 <= shard[name] < 1 << 31, f"{name} of", shard)
            with self.ledger.lock:
                # What a process said that has ended since may not be durable.
                if (shard["owner"] == self.member.name and shard["state"] in ("held", "paused") and self.member.up.is_set()
                        and self.member.boot == boot):
                    self.ledger.looks(shard["shard_id"], shard["epoch"], number_of(shard["checkpoint"]),
                                      number_of(shard["watermark"]), seeks[shard["shard_id"]])
        act = self.world.act
        answer = self.world.may(self.member, "look", lambda: self.member.ask("GET", "/v1/sessions"))
        for session in (answer or {"sessions": ()})["sessions"]:
            self.look_at_session(session, act.steady and act is self.world.act)
        time.sleep(0.1)

    @staticmethod
    def look_at_session(session, steady):
        for name in ("in_flight", "in_flight_bytes", "assigned", "assigned_bytes", "credit", "lanes"):
            check(0 <= session[name] < 1 << 33, f"{name} of", session)
        for name in ("in_flight", "assigned"):
            check(session[name] > 0 or session[name + "_bytes"] == 0, "bytes without records:", session)
        used = session["in_flight"] + session["assigned"]
        used_bytes = session["in_flight_bytes"] + session["assigned_bytes"]
        # Only one by itself may be larger than what is left.
        check(not steady or used_bytes < session["max_in_flight_bytes"] + LARGEST_BYTES, "bytes:", session)
        check(session["credit"] == 0 and not steady or used + session["credit"] <= session["max_in_flight"], "credit:", session)


class Fate:
    """What becomes of the process."""

    def __init__(self, world):
        self.world = world
        self.happened = collections.Counter()

    def turn(self, chance, seconds):
        if self.world.over.wait(seconds):
            return
        if chance.random() < 0.4:
            self.world.next_act()
        member = chance.choice(self.world.members)
        luck = chance.random()
        if luck < 0.35:
            member.sidecar.signal(signal.SIGSTOP)
            time.sleep(chance.choice((0.2, 1, 3)))
            member.sidecar.signal(signal.SIGCONT)
            self.happened["stopped"] += 1
        else:
            how = chance.choices(("SIGKILL", "SIGTERM", "drained", "quit"), (60, 14, 14, 12))[0]
            self.happened[how] += 1
            with self.world.seeking:
                member.end(how, len(self.world.members) == 1, lambda: self.world.over.is_set() or not any(
                    isinstance(client, Reader) and client.member is member and client.source for client in self.world.clients))


@test(seconds=SECONDS + SETTLED_SECONDS + 120)
def operations_of_all_kinds(folder):
    print(f"    {SECONDS} s from seed {SEED}", flush=True)
    world = World(folder)
    print(f"    {len(world.members)} sidecars, {world.members[0].sidecar.options}", flush=True)
    fate = Fate(world)
    one, other = world.members[0], world.members[-1]
    world.clients = [Client(world, world.members[number % len(world.members)]) for number in range(5)]
    world.clients += [Reader(world, world.members[number % len(world.members)], f"reader-{number}") for number in range(3)]
    operators = Operator(world, one), Operator(world, other)
    try:
        world.run(fate.turn, Producer(world, one), *(Monitor(world, member) for member in world.members), *operators,
                  *world.clients)
        for operator in operators:
            operator.forget_replays()
        heal(world)
        judge(world)
    finally:
        for member in world.members:
            shutil.copy(member.sidecar.log, os.path.join(ROOT, "build", f"operations-{SEED}-{member.name}.log"))
        for what, count in sorted(world.statuses.items(), key=str):
            print("   ", count, *what)
        print(f"    {len(world.ledger.records)} records; {dict(world.ledger.counts)}; {dict(fate.happened)}; "
              f"{world.acts}", flush=True)


if __name__ == "__main__":
    main()
