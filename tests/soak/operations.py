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
import socket
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import ROOT, SLOW, Failure, Sidecar, check, check_equal, main, test, wait_until  # noqa: E402
from stub import Stub, grpc  # noqa: E402
from ending import SETTLED_SECONDS, heal, judge  # noqa: E402
from ledger import Ledger, behind, number_of  # noqa: E402
from sources import PACKAGE, POLLS, STREAMS, Event, Gone, Poll, Refused, StreamCall, name_of, refused, refused_call  # noqa: E402

SECONDS = int(os.environ.get("KS_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("KS_SOAK_SEED") or time.time())
NAMES = [f"app-{number}" for number in range(6)]
KEYS = [f"key-{number}" for number in range(40)]
OUTCOMES = (("ack", 70), ("retry", 9), ("extend", 6), ("dead_letter", 3), ("drop", 4))
# The problems of docs/API.md: by the end of their type, or by their code, the status that goes with them (calls have none).
STATUS = {"invalid-argument": (400,), "failed-precondition": (400,), "not-found": (404,), "session-fenced": (409,),
          "lease-lost": (409,), "already-redriven": (409,), "ordering-conflict": (409,), "session-expired": (410,),
          "resource-exhausted": (429,),
          "unavailable": (503,), "aborted": (409,), "invalid_argument": (400,), "failed_precondition": (400, 410),
          "not_found": (404,)}
# What may be answered beside 200, by what was asked for.
ALWAYS = {"unavailable", "resource-exhausted"}
MAY = {
    "open": {"ordering-conflict", "aborted", "not-found", "not_found"},  # A shard is not known yet.
    "poll": {"failed-precondition", "failed_precondition"},
    "settle": {"session-fenced", "session-expired", "aborted", "failed_precondition"},
    "checkpoint": {"invalid-argument", "lease-lost", "not-found"},
    "release": {"lease-lost"},
    "seek": {"lease-lost", "failed-precondition"},
    "close": {"not-found"},
    "redrive": {"not-found", "already-redriven"},
    "discard": {"not-found"},
    "replay": {"not-found", "aborted"},
}


def allowed(what, refusal):
    return (refusal.status in (0, *STATUS.get(refusal.kind, ()))) and refusal.kind in ALWAYS | MAY.get(what, set())


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
        self.local = threading.local()
        self.statuses = collections.Counter()
        self.start()

    @property
    def boot(self):
        return f"{self.name}.{self.lives}"

    def start(self):
        self.sidecar.start()
        self.before = self.descriptors()
        self.lives += 1
        self.up.set()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.sidecar.process.pid}/fd"))

    def stub(self):
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

    def end(self, number, alone):
        """Kills it, or has it end by itself, and starts it again. `alone`: nobody else settles meanwhile."""
        self.up.clear()
        self.sidecar.signal(number)
        status = self.sidecar.wait()
        check(number == signal.SIGKILL or status in (0, 1), "it ended with", status)
        ended = time.monotonic()
        self.lives += 1  # Some go on in the middle of a turn, and meet the next one before we do.
        self.sidecar.start()
        self.before = self.descriptors()
        found = {}

        def all_known():
            found.update({shard["shard_id"]: number_of(shard["checkpoint"]) for shard in self.shards()})
            return len(found) == self.sidecar.options["local_shards"]
        wait_until(all_known, 30, "all shards are known again")
        if alone:
            self.ledger.process_ended(found, ended)
        self.up.set()


class World:
    def __init__(self, folder):
        self.chance = random.Random(SEED)
        self.ordering = self.chance.choice(("shard", "shard", "key", "none"))
        self.lanes = self.chance.choice((1, 2, 16, 64))
        self.agreed = self.chance.random() < 0.6  # All say the same ordering.
        self.ledger = Ledger(self.ordering if self.agreed and self.ordering != "key" else None)
        options = options_of(self.chance)
        self.ledger.gives_up = options["max_attempts"] > 0
        self.members = [Member(folder, name, options, self.ledger) for name in ("one", "two")[:self.chance.choice((1, 1, 2))]]
        self.over, self.problem = threading.Event(), None
        self.statuses = collections.Counter()
        self.seeking = threading.Lock()

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
            fate(chance, min(until - time.monotonic(), chance.uniform(2, 15)))
        self.over.set()
        for thread in threads:
            thread.join(120 * SLOW)
        if self.problem:
            raise Failure(self.problem)
        check(not any(thread.is_alive() for thread in threads), "a thread does not end")

    def loop(self, actor, chance):
        try:
            while not self.over.is_set():
                if actor.member.up.wait(0.5):
                    actor.turn(chance)
        except Exception:
            self.problem = self.problem or traceback.format_exc()
            self.over.set()

    def may(self, member, what, act):
        """Does something that may be refused, or find nobody there. None if so."""
        boot = member.boot
        try:
            answer = act()
            self.statuses[what, 200] += 1
            return answer
        except Refused as err:
            self.statuses[what, str(err.status), err.kind] += 1
            check(allowed(what, err), what, "was answered", err)
        except Gone as err:
            self.statuses[what, "gone"] += 1
            check(not member.up.is_set() or member.boot != boot or what == "read", what, "found a broken connection:", err)
        return None


# --- Clients ---

class Client:
    """One app after the other under names that others have, too."""

    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger
        self.source, self.held, self.until = None, {}, 0
        self.batches, self.batch = collections.defaultdict(dict), None  # The last one that anything came of.

    def options(self, chance):
        options = {"client_id": chance.choice(NAMES), "max_in_flight": chance.choice((1, 5, 100, 1000)),
                   "ack_deadline_ms": chance.choice((1000, 1500, 60000)), "heartbeat_ms": chance.choice((100, 1000))}
        if self.world.ordering != "shard" or chance.random() < 0.3:
            options["ordering"] = self.world.ordering
        if self.world.ordering == "key":
            options["lanes"] = self.world.lanes
        if chance.random() < 0.3:
            options["max_in_flight_bytes"] = chance.choice((1, 1000, 100000))
        if chance.random() < 0.15:
            options["max_message_bytes"] = chance.choice((3000, 10000))
        if not self.world.agreed and chance.random() < 0.2:
            options["ordering"] = chance.choice(("shard", "key", "none"))
            if options["ordering"] != "key":
                options.pop("lanes", None)
        if chance.random() < 0.15:
            known = sorted(self.ledger.places)
            if known:
                options["shards"] = ",".join(chance.sample(known, chance.randrange(1, min(len(known), 20) + 1)))
        return options

    def open(self, chance):
        self.held, self.batches = {}, collections.defaultdict(dict)
        if chance.random() < 0.6:
            kind, options = chance.choice(STREAMS), self.options(chance)
            if kind is StreamCall and chance.random() < 0.3:
                options["explicit_credit"] = True
            self.source = self.world.may(self.member, "open", lambda: kind(self.member, options))
        else:
            kind, options = chance.choice(POLLS), self.options(chance)
            if chance.random() < 0.7:
                body = {"clientId": options["client_id"], "ackDeadlineMs": str(options["ack_deadline_ms"]),
                        "maxInFlight": options["max_in_flight"]}
                if self.world.ordering != "shard":
                    body.update(ordering="ORDERING_" + self.world.ordering.upper(), lanes=options.get("lanes", 0))
                self.world.may(self.member, "open", lambda: self.member.ask("POST", f"/{PACKAGE}Consumer/OpenSession", body))
            options["max_records"] = chance.choice((1, 10, 500))
            self.source = kind(self.member, options)
        self.until = time.monotonic() + chance.expovariate(1 / 3)

    def turn(self, chance):
        if self.source is None:
            self.open(chance)
            if self.source is None:
                time.sleep(chance.uniform(0, 0.3))
            return
        lines = self.world.may(self.member, "poll" if isinstance(self.source, Poll) else "read", lambda: self.read(chance))
        if lines is None or self.source.ended:
            return self.leave(chance, gone=True)
        if isinstance(self.source, StreamCall) and chance.random() < 0.2:
            self.say(chance)
        if chance.random() < 0.05:
            time.sleep(chance.uniform(0, 2.5))  # It is stopped, or busy.
        while self.held and chance.random() < 0.8:
            self.settle(chance)
        if time.monotonic() > self.until:
            self.leave(chance)

    def read(self, chance):
        try:
            lines = self.source.read(chance.choice((0, 0.05, 0.3)))
        except Refused as err:
            if not isinstance(self.source, Poll):
                check(allowed("open", err), "a stream was answered", err, self.source)
                raise Gone(str(err)) from err
            raise
        for line in lines:
            if line["type"] == "record":
                self.ledger.came(self.source.boot, self.source, line)
                self.held[line["ack_id"]] = line
                self.batches[line["batch_id"]][line["ack_id"]] = True  # What comes again may be the same batch.
                self.batch = line["batch_id"]
        return lines

    def say(self, chance):
        luck = chance.random()
        if luck < 0.5:
            self.source.say(update=Event(PACKAGE + "SessionLimits", max_in_flight=chance.choice((0, 1, 50)),
                                         max_message_bytes=chance.choice((0, 3000, 1 << 20)),
                                         max_in_flight_bytes=chance.choice((0, 2000, 1 << 20))))
        elif luck < 0.95:
            self.source.say(credit=chance.choice((1, 10, 1000)))
        else:
            self.source.say(close=Event(PACKAGE + "Close"))

    def leave(self, chance, gone=False):
        source = self.source
        if not gone and chance.random() < 0.4:
            while self.held and chance.random() < 0.9:
                self.settle(chance)
            self.world.may(self.member, "close", lambda: self.member.ask("DELETE", "/v1/sessions/" + source.session))
        self.source = None
        source.cut(chance.random() < 0.5)

    # --- Settling ---

    def choose(self, chance):
        """[(ack_id, outcome)]: mostly our own, in any order."""
        own = list(self.held)
        chosen = own[:chance.choice((1, 3, 50, 1000))]
        if chance.random() < 0.3:
            chosen = chance.sample(own, min(len(own), chance.randrange(1, 20)))
        outcome = chance.choices(*zip(*OUTCOMES))[0]
        mixed = chance.random() < 0.3
        items = [(ack_id, chance.choices(*zip(*OUTCOMES))[0] if mixed else outcome) for ack_id in chosen]
        if chance.random() < 0.1:
            with self.ledger.lock:
                others = chance.sample(self.ledger.lately, min(len(self.ledger.lately), 3))
            items = items if chance.random() < 0.5 else []
            items = [(ack_id, chance.choice(("ack", "retry", "extend"))) for ack_id in others] + items
        return items

    def settle(self, chance):
        items = self.choose(chance)
        if not items:
            return
        luck = chance.random()
        for ack_id, outcome in items:
            if outcome != "extend" and chance.random() < 0.95:
                self.held.pop(ack_id, None)
        persisted = chance.random() < 0.25
        wait = {"wait": "persisted", "wait_ms": chance.choice((0, 100, 1000))} if persisted else {}
        if luck < 0.03:
            return self.checkpoint(items[-1][0])
        if luck > 0.85:
            return self.settle_batch(chance, wait)
        seeks = self.ledger.begin(items)
        if luck < 0.10:
            return self.half(chance, items)
        done = self.world.may(self.member, "settle", lambda: self.settle_by(chance, items, wait))
        if done is None:
            return
        accepted, failed, durable = done
        check_equal(accepted + len(failed), len(items), "items and their outcomes", items[:5], failed[:5])
        for ack_id, reason, message in failed:
            check(ack_id in dict(items), "failed, though nobody sent it:", ack_id)
            known = self.ledger.ids[ack_id]
            check(reason in ("FENCED", "EXPIRED") or reason == "UNKNOWN" and known[3] != self.member.boot, reason, message,
                  known, self.ledger.records[known[:2]].story)
        self.ledger.end(items, seeks, {ack_id for ack_id, _, _ in failed}, durable)

    def settle_batch(self, chance, wait):
        """One that is here as a whole, and some of it failed. Of a stream the last one may go on."""
        whole = [batch for batch in self.batches if self.source.polls or batch != self.batch]
        if not whole:
            return
        batch = chance.choice(whole)
        ids = list(self.batches.pop(batch))
        outcome = chance.choices(*zip(*OUTCOMES))[0]
        failing = set(chance.sample(ids, chance.randrange(len(ids) + 1))) if chance.random() < 0.3 else set()
        items = [(ack_id, "retry" if ack_id in failing else outcome) for ack_id in ids]
        settlement = dict(self.more(chance, outcome), batch_id=batch, outcome=outcome, failed_ack_ids=list(failing))
        for ack_id in ids:
            self.held.pop(ack_id, None)
        seeks = self.ledger.begin(items)
        boot = self.source.boot
        answer = self.world.may(self.member, "settle", lambda: self.member.ask(
            "POST", "/v1/records/settle", {"settlements": [settlement], **wait}))
        if answer is None:
            return
        failed = {one["ack_id"]: one["reason"] for one in answer["failed"]}
        for reason in failed.values():
            check(reason in ("FENCED", "EXPIRED") or reason == "UNKNOWN" and boot != self.member.boot, "a batch failed as",
                  answer, settlement)
        if batch in failed:
            failed = dict.fromkeys(ids)
        check(answer["ok"] + len(failed) >= len(ids), "records of a batch and their outcomes", answer, ids)
        self.ledger.end(items, seeks, set(failed), answer["persisted"])

    def settle_by(self, chance, items, wait):
        settlements = [dict(self.more(chance, outcome), ack_id=ack_id, outcome=outcome) for ack_id, outcome in items]
        way = chance.randrange(5)
        outcomes = {outcome for _, outcome in items}
        if way == 0 and len(outcomes) == 1 and outcomes <= {"ack", "retry", "extend"}:
            path = {"ack": "ack", "retry": "nack", "extend": "extend"}[outcomes.pop()]
            answer = self.member.ask("POST", "/v1/records/" + path, {"ack_ids": [ack_id for ack_id, _ in items], **wait})
        elif way == 1:
            body = {"settlements": [{{"ack_id": "ackId", "delay_ms": "delayMs"}.get(name, name):
                                     "OUTCOME_" + value.upper() if name == "outcome" else str(value)
                                     for name, value in item.items()} for item in settlements]}
            if wait:
                body.update(wait="WAIT_PERSISTED", waitMs=str(wait["wait_ms"]))
            answer = self.member.ask("POST", f"/{PACKAGE}Consumer/Settle", body)
            return (int(answer.get("ok", 0)), [(one["ackId"], one["reason"], one["message"]) for one in answer.get("failed", [])],
                    answer.get("persisted", False))
        elif way == 2:
            return self.settle_by_call(settlements, wait)
        else:
            answer = self.member.ask("POST", "/v1/records/settle", {"settlements": settlements, **wait})
        return answer["ok"], [(one["ack_id"], one["reason"], one["message"]) for one in answer["failed"]], answer["persisted"]

    def settle_by_call(self, settlements, wait):
        outcomes = {"ack": 1, "retry": 2, "extend": 3, "dead_letter": 4, "drop": 5}
        items = [dict(item, outcome=outcomes[item["outcome"]]) for item in settlements]
        members = {"wait": 2, "wait_ms": wait["wait_ms"]} if wait else {}
        if isinstance(self.source, StreamCall) and self.source.ended is None and self.source.boot == self.member.boot:
            settlements = [Event(PACKAGE + "Settlement", **item) for item in items]
            return self.settle_in_stream(Event(PACKAGE + "SettleRequest", settlements=settlements, **members))
        try:
            answer = self.member.stub().Settle(timeout=60, settlements=items, **members)
        except grpc.RpcError as err:
            raise refused_call(err) from err
        return answer.ok, [(one.ack_id, one.reason, one.message) for one in answer.failed], answer.persisted

    def settle_in_stream(self, request):
        """Reads on until its answer comes."""
        number = self.source.say(settle=request)
        until = time.monotonic() + 30 * SLOW
        while number not in self.source.answers:
            check(time.monotonic() < until, "no answer in a stream after 30 s:", self.source)
            if self.source.ended:
                raise Refused(409, "session-fenced", "the stream ended")
            self.read(random.Random(0))
        answer = self.source.answers.pop(number)
        if answer.WhichOneof("answer") == "problem":
            raise Refused(answer.problem.status, answer.problem.type.rsplit(":", 1)[-1], answer.problem.detail)
        settled = answer.settled
        return settled.ok, [(one.ack_id, one.reason, one.message) for one in settled.failed], settled.persisted

    @staticmethod
    def more(chance, outcome):
        if outcome == "retry":
            return {"delay_ms": chance.choice((0, 1, 300)), "reason": chance.choice(("", "bad \u00e9", "x" * 300))}
        if outcome == "extend":
            return {"delay_ms": chance.choice((0, 500, 2000))}
        return {"reason": "given up"} if outcome == "dead_letter" else {}

    def half(self, chance, items):
        """A request of which nobody hears the answer, or that is never whole."""
        body = json.dumps({"settlements": [{"ack_id": ack_id, "outcome": outcome} for ack_id, outcome in items]}).encode()
        request = b"POST /v1/records/settle HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        try:
            with socket.create_connection(("127.0.0.1", self.member.sidecar.port), timeout=10) as one:
                one.sendall(request if chance.random() < 0.5 else request[:chance.randrange(1, len(request))])
        except OSError:
            pass

    def checkpoint(self, ack_id):
        with self.ledger.lock:
            shard, sequence, epoch, _, redriven = self.ledger.ids[ack_id]
        if redriven:
            return
        self.ledger.passed_cumulatively(shard, sequence)
        self.world.may(self.member, "checkpoint", lambda: self.member.ask("POST", "/v1/checkpoint", {
            "shard_id": shard, "sequence_number": str(sequence), "epoch": epoch}))


# --- Those beside ---

class Producer:
    def __init__(self, world, member):
        self.world, self.member, self.next = world, member, collections.Counter()

    def turn(self, chance):
        entries = []
        for _ in range(chance.choice((1, 10, 60))):
            key = chance.choice(KEYS)
            size = chance.choice((0, 10, 100)) if chance.random() < 0.98 else chance.choice((1500, 5000, 30000))
            entries.append((key, f"{key}:{self.next[key]} ".encode() + b"x" * size))
            self.next[key] += 1
        body = {"Records": [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in entries]}
        answer = self.world.may(self.member, "put", lambda: self.member.ask("POST", "/v1/local/records", body))
        if answer is not None:
            check_equal(answer["FailedRecordCount"], 0, "put")
            with self.world.ledger.lock:
                for (_, data), placed in zip(entries, answer["Records"]):
                    self.world.ledger.know(placed["ShardId"], int(placed["SequenceNumber"]), name_of(data))
        time.sleep(chance.uniform(0, 0.25))


class Monitor:
    """What the sidecar says of itself."""

    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger

    def turn(self, chance):
        del chance
        with self.ledger.lock:
            seeks = collections.defaultdict(int, {shard: place.seeks for shard, place in self.ledger.places.items()})
        for shard in self.world.may(self.member, "look", self.member.shards) or []:
            for name in ("delivered", "settled", "watermark_gap", "buffered", "in_flight"):
                check(0 <= shard[name] < 1 << 31, f"{name} of", shard)
            if shard["owner"] == self.member.name and shard["state"] in ("held", "paused"):
                self.ledger.looks(shard["shard_id"], shard["epoch"], number_of(shard["checkpoint"]), number_of(shard["watermark"]),
                                  seeks[shard["shard_id"]])
        answer = self.world.may(self.member, "look", lambda: self.member.ask("GET", "/v1/sessions"))
        for session in (answer or {"sessions": ()})["sessions"]:
            self.look_at_session(session)
        time.sleep(0.1)

    @staticmethod
    def look_at_session(session):
        for name in ("in_flight", "in_flight_bytes", "credit", "lanes"):
            check(0 <= session[name] < 1 << 33, f"{name} of", session)
        check(session["in_flight"] > 0 or session["in_flight_bytes"] == 0, "bytes without records:", session)
        check(session["credit"] == 0 or session["in_flight"] + session["credit"] <= session["max_in_flight"], "credit:", session)


NONSENSE = (
    ("POST", "/v1/records/settle", {}, 400), ("POST", "/v1/records/ack", {}, 400), ("POST", "/v1/checkpoint", {}, 400),
    ("POST", "/v1/records/settle", {"settlements": [{"ack_id": "x", "batch_id": "y", "outcome": "ack"}]}, 400),
    ("GET", "/v1/records?max_record=1", None, 400), ("GET", "/v1/records/stream?heartbeat_ms=1", None, 400),
    ("GET", "/v1/records/stream?ordering=key&lanes=65", None, 400), ("POST", "/v1/seek", {"to": "yesterday"}, 400),
    ("POST", "/v1/seek", {"to": "latest", "wait_ms": 60001}, 400), ("POST", "/v1/pause", {"until": "2020-01-01T00:00:00Z"}, 400),
    ("GET", "/v1/shards/shardId-none", None, 404), ("POST", "/v1/dead-letters/nobody.1.0/redrive", None, 404),
    ("DELETE", "/v1/sessions/nobody", None, 404), ("POST", "/v1/shards", {}, 405),
    ("POST", "/kinesis_sidecar.v1.Consumer/None", {}, 501))


class Operator:
    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger
        self.replays = []

    def turn(self, chance):
        act = chance.choices((self.pause, self.resume, self.release, self.seek, self.letters, self.peek, self.replay, self.kick,
                              self.read, self.nonsense),
                             (2, 6, 2, 2, 8, 3, 3, 2, 4, 3))[0]
        act(chance)
        time.sleep(chance.uniform(0, 0.4))

    def ask(self, what, *request):
        return self.world.may(self.member, what, lambda: self.member.ask(*request))

    def some(self, chance):
        with self.ledger.lock:
            known = sorted(self.ledger.places)
        return [] if chance.random() < 0.4 or not known else chance.sample(known, chance.randrange(1, len(known) + 1))

    def pause(self, chance):
        until = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + chance.randrange(5, 7)))
        self.ask("pause", "POST", "/v1/pause", {"shards": self.some(chance), "until": until, "keep_leases": chance.random() < 0.8})

    def resume(self, chance):
        self.ask("resume", "POST", "/v1/resume", {"shards": self.some(chance)})

    def release(self, chance):
        for shard in self.some(chance)[:2]:
            self.ask("release", "POST", f"/v1/leases/{shard}/release", {})
        self.ask("resume", "POST", "/v1/resume", {})

    def seek(self, chance):
        with self.world.seeking, self.ledger.lock:
            known = {shard: list(place.sequences) for shard, place in self.ledger.places.items() if place.sequences}
        shards = self.some(chance)
        if not known:
            return
        to = chance.choice(("trim_horizon", "latest", "sequence", "instant"))
        if to == "sequence":
            shards = [chance.choice(sorted(known))]
            to = str(chance.choice(known[shards[0]]))
        elif to == "instant":
            to = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - chance.randrange(2, 20)))
        body = {"to": to, "shards": shards, "force": chance.random() < 0.7, "dry_run": chance.random() < 0.4, "wait_ms": 20000}
        with self.world.seeking:
            touched = shards or sorted(self.ledger.places)
            began = self.ledger.seek_begins(touched)
            answer = self.ask("seek", "POST", "/v1/seek", body)
            moved = {}
            for row in (answer or {"shards": ()})["shards"]:
                check(row["outcome"] == "dry_run" if body["dry_run"] else row["outcome"] in ("done", "refused"), "seek:", row)
                if row["outcome"] == "done":
                    moved[row["shard_id"]] = (behind(row["before"]) or -1, behind(row["after"]))
            self.ledger.seek_ends(touched, moved, began)

    def letters(self, chance):
        answer = self.ask("letters", "GET", f"/v1/dead-letters?page_size={chance.choice((1, 10, 1000))}")
        for letter in (answer or {"dead_letters": ()})["dead_letters"]:
            place = (letter["shard_id"], int(letter["sequence_number"]))
            self.ledger.letter(*place, letter["cause"])
            check_equal(letter["id"], f"{place[0]}.{place[1]}.0", "the id of a letter")
            if chance.random() < 0.3:
                with self.ledger.lock:
                    self.ledger.redriven.add(place)
                verb = "redrive" if chance.random() < 0.7 else "discard"
                self.ask(verb, "POST", f"/v1/dead-letters/{letter['id']}/{verb}")

    def peek(self, chance):
        for shard in self.some(chance)[:1]:
            start, most = chance.choice(("trim_horizon", "latest")), chance.choice((1, 100))
            answer = self.ask("peek", "GET", f"/v1/peek?shard={shard}&from={start}&max_records={most}")
            sequences = [int(record["sequence_number"]) for record in (answer or {"records": ()})["records"]]
            check_equal(sequences, sorted(set(sequences)), "peek is in order")

    def replay(self, chance):
        if self.replays and chance.random() < 0.6:
            replay = self.replays.pop(chance.randrange(len(self.replays)))
            if chance.random() < 0.3:
                self.ask("replay", "DELETE", "/v1/replays/" + replay)
                return
            self.listen(chance, replay)
            return
        answer = self.ask("replays", "POST", "/v1/replays", {"from": "trim_horizon", "to": "latest", "shards": self.some(chance)})
        if answer is not None:
            self.replays.append(answer["id"])

    def listen(self, chance, replay):
        """Some of it, all of it, or twice at once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.member.sidecar.port, timeout=60 * SLOW)
        furthest = {}
        try:
            connection.request("GET", f"/v1/replays/{replay}/stream")
            response = connection.getresponse()
            if response.status != 200:
                self.world.may(self.member, "replay", lambda: (_ for _ in ()).throw(refused(response.status, response.read())))
                return
            for _ in range(chance.choice((1, 30, 5000))):
                line = response.readline()
                if not line.endswith(b"\n"):
                    return
                line = json.loads(line)
                if line["type"] == "record":
                    check(int(line["sequence_number"]) > furthest.get(line["shard_id"], -1), "a replay out of order:", line)
                    furthest[line["shard_id"]] = int(line["sequence_number"])
                elif line["type"] == "end":
                    return
            self.replays.append(replay)
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            connection.close()

    def kick(self, chance):
        self.ask("close", "DELETE", "/v1/sessions/" + chance.choice(NAMES))

    def read(self, chance):
        path = chance.choice(("/v1/status", "/v1/leases", "/v1/workers", "/v1/config", "/v1/shards?page_size=1",
                              "/v1/openapi.json"))
        self.ask("look", "GET", path)

    def nonsense(self, chance):
        """What API.md says is refused, as it says."""
        method, path, body, status = chance.choice(NONSENSE)
        try:
            answer = self.member.sidecar.call(method, path, body)
        except (OSError, http.client.HTTPException):
            return
        check(answer.status == status or answer.status == 503, method, path, body, "was answered", answer)


class Fate:
    """What becomes of the process."""

    def __init__(self, world):
        self.world = world
        self.happened = collections.Counter()

    def turn(self, chance, seconds):
        if self.world.over.wait(seconds):
            return
        member = chance.choice(self.world.members)
        luck = chance.random()
        if luck < 0.35:
            member.sidecar.signal(signal.SIGSTOP)
            time.sleep(chance.choice((0.2, 1, 3)))
            member.sidecar.signal(signal.SIGCONT)
            self.happened["stopped"] += 1
        else:
            number = signal.SIGKILL if luck < 0.8 else signal.SIGTERM
            self.happened[number.name] += 1
            with self.world.seeking:
                member.end(number, len(self.world.members) == 1)


@test(seconds=SECONDS + SETTLED_SECONDS + 120)
def operations_of_all_kinds(folder):
    print(f"    {SECONDS} s from seed {SEED}", flush=True)
    world = World(folder)
    print(f"    {len(world.members)} sidecars, ordering {world.ordering}, {world.lanes} lanes, "
          f"{world.members[0].sidecar.options}", flush=True)
    fate = Fate(world)
    one, other = world.members[0], world.members[-1]
    try:
        world.run(fate.turn, Producer(world, one), *(Monitor(world, member) for member in world.members), Operator(world, one),
                  Operator(world, other), *(Client(world, world.members[number % len(world.members)]) for number in range(5)))
        heal(world)
        judge(world)
    finally:
        for member in world.members:
            shutil.copy(member.sidecar.log, os.path.join(ROOT, "build", f"operations-{SEED}-{member.name}.log"))
        for what, count in sorted(world.statuses.items(), key=str):
            print("   ", count, *what)
        print(f"    {len(world.ledger.records)} records; {dict(world.ledger.counts)}; {dict(fate.happened)}", flush=True)


if __name__ == "__main__":
    main()
