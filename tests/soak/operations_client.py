# SPDX-License-Identifier: Apache-2.0
"""The apps of random operations: each takes and settles records in all ways."""

import collections
import json
import os
import random
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import SLOW, check, check_equal  # noqa: E402
from stub import grpc  # noqa: E402
from sources import (PACKAGE, POLLS, STREAMS, Event, Gone, HttpStream, Poll, Refused, SseStream,  # noqa: E402
                     StreamCall, allowed, refused_call)

NAMES = [f"app-{number}" for number in range(6)]
OUTCOMES = (("ack", 70), ("retry", 9), ("extend", 6), ("dead_letter", 3), ("drop", 4))


class Client:
    """One app after the other under names that others have, too."""
    slow = False  # Takes part in acts of slow readers.

    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger
        self.source, self.held, self.until = None, {}, 0
        self.away = False  # Between two acts.
        self.batches, self.batch = collections.defaultdict(dict), None  # The last one that anything came of.

    def options(self, chance):
        options = {"client_id": chance.choice(NAMES), "max_in_flight": chance.choice((1, 5, 100, 1000)),
                   "ack_deadline_ms": chance.choice((1000, 1500, 60000)), "heartbeat_ms": chance.choice((100, 1000))}
        act = self.world.act
        if act.ordering != "shard" or chance.random() < 0.3:
            options["ordering"] = act.ordering
        if act.ordering == "key":
            options["lanes"] = act.lanes
        if chance.random() < 0.3:
            options["max_in_flight_bytes"] = chance.choice((1, 1000, 100000))
        if chance.random() < 0.15:
            options["max_message_bytes"] = chance.choice((3000, 10000))
        if not act.agreed and chance.random() < 0.2:
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
            if kind in (HttpStream, SseStream) and chance.random() < 0.4:
                options["encoding"] = chance.choice(("utf8", "json"))
            if kind is StreamCall and chance.random() < 0.3:
                options["explicit_credit"] = True
            self.source = self.world.may(self.member, "open", lambda: kind(self.member, options))
        else:
            kind, options = chance.choice(POLLS), self.options(chance)
            if chance.random() < 0.7:
                body = {"clientId": options["client_id"], "ackDeadlineMs": str(options["ack_deadline_ms"]),
                        "maxInFlight": options["max_in_flight"]}
                if self.world.act.ordering != "shard":
                    body.update(ordering="ORDERING_" + self.world.act.ordering.upper(), lanes=options.get("lanes", 0))
                self.world.may(self.member, "open", lambda: self.member.ask("POST", f"/{PACKAGE}Consumer/OpenSession", body))
            options["max_records"] = chance.choice((1, 10, 500))
            options["encoding"] = chance.choice(("base64", "utf8", "json"))
            self.source = kind(self.member, options)
        self.until = time.monotonic() + chance.expovariate(1 / 3)

    def turn(self, chance):
        if not self.world.playing.is_set() or self.world.act.slow and not self.slow:
            if self.source:
                self.leave(chance)
            self.away = True
            time.sleep(0.1)
            return
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
            lines = self.take(chance)
        except Gone:
            self.ledger.broke(self.source)
            raise
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

    def take(self, chance):
        return self.source.read(chance.choice((0, 0.05, 0.3)))

    def say(self, chance):
        luck = chance.random()
        if luck < 0.5:
            if self.world.act.steady:
                return
            self.source.say(update=Event(PACKAGE + "SessionLimits", max_in_flight=chance.choice((0, 1, 50)),
                                         max_message_bytes=chance.choice((0, 3000, 1 << 20)),
                                         max_in_flight_bytes=chance.choice((0, 2000, 1 << 20))))
        elif luck < 0.95:
            self.source.say(credit=chance.choice((1, 10, 1000)))
        else:
            self.source.say(close=Event(PACKAGE + "Close"))

    def leave(self, chance, gone=False):
        source, polite = self.source, self.world.act.polite
        if not gone and (polite or chance.random() < 0.4):
            while self.held and chance.random() < 0.9:
                self.settle(chance)
            self.world.may(self.member, "close", lambda: self.member.ask("DELETE", "/v1/sessions/" + source.session))
            if polite and not source.polls:
                self.world.may(self.member, "read", lambda: self.read_out(chance))
        rudely = not polite and chance.random() < 0.5
        if source.polls:
            source.begin_at()  # It asks once more: the process that is there now.
        if not gone and (rudely if source.polls else not source.ended):
            self.ledger.broke(source)
        self.source = None
        source.cut(rudely)

    def read_out(self, chance):
        """What was on its way when its session ended."""
        until = time.monotonic() + 20 * SLOW
        while not self.source.ended and time.monotonic() < until:
            self.read(chance)

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
        items = [(ack_id, "dead_letter" if self.held[ack_id].get("redriven") and chance.random() < 0.4 else outcome)
                 for ack_id, outcome in items]
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
        if luck < 0.05:
            return self.checkpoint(items[-1][0])
        if luck > 0.85:
            return self.settle_batch(chance, wait)
        seeks = self.ledger.begin(items)
        if luck < 0.12:
            return self.half(chance, items)
        done = self.world.may(self.member, "settle", lambda: self.settle_by(chance, items, wait))
        if done is None:
            return
        accepted, failed, durable = done
        check_equal(accepted + len(failed), len(items), "items and their outcomes", items[:5], failed[:5])
        for ack_id, reason, message in failed:
            check(ack_id in dict(items), "failed, though nobody sent it:", ack_id)
            known = self.ledger.ids[ack_id]
            check(reason in ("FENCED", "EXPIRED") or reason == "SETTLED" and (ack_id, "retry") in items or
                  reason == "UNKNOWN" and known[3] != self.member.boot, reason, message, known, self.source,
                  self.ledger.records[known[:2]].story)
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
        boots = {self.ledger.ids[ack_id][3] for ack_id in ids}
        answer = self.world.may(self.member, "settle", lambda: self.member.ask(
            "POST", "/v1/records/settle", {"settlements": [settlement], **wait}))
        if answer is None:
            return
        failed = {one["ack_id"]: one["reason"] for one in answer["failed"]}
        for reason in failed.values():
            check(reason in ("FENCED", "EXPIRED") or reason == "SETTLED" and "retry" in dict(items).values() or
                  reason == "UNKNOWN" and boots != {self.member.boot}, "a batch failed as", answer, settlement)
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
            shard, sequence, epoch, boot, redriven = self.ledger.ids[ack_id]
        if redriven:
            return
        asked = self.ledger.passed_cumulatively(shard, sequence, epoch, boot)
        if self.world.may(self.member, "checkpoint", lambda: self.member.ask("POST", "/v1/checkpoint", {
                "shard_id": shard, "sequence_number": str(sequence), "epoch": epoch})):
            asked.over = time.monotonic()
