# SPDX-License-Identifier: Apache-2.0
"""The slow readers of random operations: apps with a small receive buffer that stop in the middle of a record, settle it or
acknowledge late, break off after any byte, or open the next stream before they leave the last one."""

import calendar
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import PATIENCE, check  # noqa: E402
from operations_client import Client  # noqa: E402
from sources import Gone, HttpStream, SseStream, WatchCall  # noqa: E402

DRAIN_SECONDS = 1  # A drain lasts up to drain_timeout_ms, 2000, less the time for the last writes.


def seconds_of(instant):
    """Of an RFC 3339 instant with milliseconds."""
    return calendar.timegm(time.strptime(instant[:19], "%Y-%m-%dT%H:%M:%S")) + int(instant[20:23]) / 1000


class Reader(Client):
    """`faithful`: only acknowledges, in time, and what it holds first when a lease returns."""
    slow = True

    def __init__(self, world, member, name):
        super().__init__(world, member)
        self.name, self.faithful = name, False
        self.over = set()  # Shards of which an epoch ended in this stream: what comes late may be of that one.
        self.leases = set()  # (shard, epoch) of each record of this stream.

    def options(self, chance):
        options = super().options(chance)
        options.update(client_id=self.name, max_in_flight=chance.choice((5, 100, 1000)))
        for name in ("max_message_bytes", "max_in_flight_bytes"):
            options.pop(name, None)
        if self.faithful:
            options["ack_deadline_ms"] = 60000
        return options

    def open(self, chance):
        self.held, self.over, self.leases = {}, set(), set()
        self.batches.clear()
        self.faithful = chance.random() < 0.35
        options = self.options(chance)
        if not self.world.act.slow and chance.random() < 0.25:
            self.source = self.world.may(self.member, "open", lambda: WatchCall(self.member, options))
        else:
            kind, size = chance.choice((HttpStream, SseStream)), chance.choice((2048, 8192, 32768))
            self.source = self.world.may(self.member, "open", lambda: kind(self.member, options, size))
        if self.source:
            self.source.private, self.source.slow = self.faithful, True
        self.until = time.monotonic() + chance.expovariate(1 / 5)

    def turn(self, chance):
        if self.member.drains_since:
            return self.source and self.read_on(chance)
        if self.source is None or not self.world.playing.is_set():
            return super().turn(chance)
        act = chance.choices((self.read_some, self.stop, self.settle_half, self.settle_some, self.replace, self.break_off),
                             (60, 10, 10, 20, 2, 2))[0]
        act(chance)
        if self.source and time.monotonic() > self.until and not self.member.drains_since:
            self.leave(chance)

    def take(self, chance):
        seconds = chance.choice((0, 0.05, 0.3))
        if not isinstance(self.source, HttpStream):
            return self.source.read(seconds)
        return self.source.read_bytes(seconds, chance.choice((1, 100, 3000, 60000, 400000, 1000000)))

    def read(self, chance):
        try:
            lines = super().read(chance)
        finally:
            self.note_half()
        self.leases |= {(line["shard_id"], line["epoch"]) for line in lines if line["type"] == "record"}
        if self.faithful and isinstance(self.source, HttpStream):
            for number, line in enumerate(lines):
                if line["type"] in ("lease_returning", "draining"):
                    later = {one["ack_id"] for one in lines[number:] if one["type"] == "record"}
                    self.acknowledge([one for one in self.held.values() if one["shard_id"] == line.get("shard_id", one["shard_id"])
                                      and one["shard_id"] not in self.over and one["ack_id"] not in later],
                                     seconds_of(line["deadline"]))
                if line["type"] in ("lease_returning", "lease_lost"):
                    self.over.add(line["shard_id"])
        return lines

    def note_half(self):
        """(line, whether all of it may have been sent) of the record that was read in part; None if there is none."""
        torn = self.source.torn() if isinstance(self.source, HttpStream) else None
        return torn and (torn[0], self.ledger.half(self.source, *torn))

    def read_some(self, chance):
        lines = self.world.may(self.member, "read", lambda: self.read(chance))
        if lines is None or self.source.ended:
            self.leave(chance, gone=True)

    def stop(self, chance):
        """Reads nothing for a while."""
        source = self.source
        if isinstance(source, WatchCall):
            source.may_read.clear()
        until = time.monotonic() + chance.choice((0.2, 1.2, 3))
        while time.monotonic() < until and self.world.playing.is_set() and not self.member.drains_since:
            time.sleep(0.05)
        if isinstance(source, WatchCall):
            source.may_read.set()

    def settle_some(self, chance):
        if not self.held:
            return
        if self.faithful:
            self.acknowledge(list(self.held.values())[:chance.choice((1, 10, 1000))])
        else:
            self.settle(chance)

    def replace(self, chance):
        """The next stream takes the session over, while this one is open and nobody reads it."""
        last = self.source
        self.ledger.broke(last)
        self.open(chance)
        self.ledger.broke(last)
        last.cut(chance.random() < 0.5)

    def break_off(self, chance):
        self.ledger.broke(self.source)
        source, self.source = self.source, None
        source.cut(chance.random() < 0.5)

    def leave(self, chance, gone=False):
        """What was on its way may never come, also if its stream has ended."""
        self.ledger.broke(self.source)
        super().leave(chance, gone)

    # --- Settling ---

    def acknowledge(self, lines, deadline=None):
        """`deadline` of the return of their leases, by the clock on the wall: until then all are accepted."""
        items = [(line["ack_id"], "ack") for line in lines]
        if not items:
            return
        for ack_id, _ in items:
            self.held.pop(ack_id, None)
        fresh = self.only_ours(lines, 0)
        seeks = self.ledger.begin(items)
        boot = self.source.boot
        answer = self.world.may(self.member, "settle", lambda: self.member.ask("POST", "/v1/records/ack", {
            "ack_ids": [ack_id for ack_id, _ in items]}))
        answered = time.time()
        if answer is None:
            return
        failed = {one["ack_id"]: one for one in answer["failed"]}
        if deadline and answered < deadline and boot == self.member.boot and len(self.world.members) == 1:
            self.ledger.counts["acknowledged in a return"] += len(items)
            for line in self.only_ours(lines, 1):
                check(line not in fresh or line["ack_id"] not in failed or self.sought(line, seeks),
                      "not accepted before the deadline of a return:", failed.get(line["ack_id"]), line,
                      self.ledger.records[line["shard_id"], int(line["sequence_number"])].story)
        self.ledger.end(items, seeks, set(failed), answer["persisted"])

    def only_ours(self, lines, most):
        """Those of which nobody else has begun a settlement, by a checkpoint neither."""
        with self.ledger.lock:
            return [line for line in lines if not line.get("redriven") and sum(self.ledger.records[
                line["shard_id"], int(line["sequence_number"])].finishes.values()) <= most]

    def sought(self, line, seeks):
        """A seek ended its lease epoch, or may have: the record may have been on its way since the stream began."""
        place = self.ledger.places[line["shard_id"]]
        return place.seeks % 2 == 1 or place.seeks != seeks.get(line["shard_id"]) or place.sought_at > self.source.began

    def settle_half(self, chance):
        """By the id of a record that was read in part: it counts only if all of it was sent."""
        half = self.note_half()
        if self.faithful or half is None:
            return
        line, sent = half
        place = line["shard_id"], int(line["sequence_number"])
        if place not in self.ledger.records or line.get("redriven"):
            return
        fresh, items = self.ledger.is_fresh(place), [(line["ack_id"], "ack")]
        seeks = self.ledger.begin(items) if sent else None
        answer = self.world.may(self.member, "settle", lambda: self.member.ask("POST", "/v1/records/ack", {
            "ack_ids": [line["ack_id"]]}))
        if answer is None:
            return
        self.ledger.counts[f"half {'sent' if sent else 'unsent'} {'accepted' if answer['ok'] else 'failed'}"] += 1
        if sent:
            self.ledger.end(items, seeks, {one["ack_id"] for one in answer["failed"]}, answer["persisted"])
        else:
            check(not answer["ok"] or not fresh or not self.ledger.is_fresh(place),
                  "settled by an app that cannot have it:", line, half, answer)

    # --- A drain ---

    def read_on(self, chance):
        """To the end of a stream of a sidecar that drains, which is `ended: drained`."""
        source, since = self.source, self.member.drains_since
        until = time.monotonic() + 30 * PATIENCE
        opened = source.began < since
        try:
            while not source.ended:
                check(time.monotonic() < until, "a stream of a drained sidecar does not end:", source)
                self.read(chance)
                if self.faithful:
                    self.acknowledge(list(self.held.values()))
        except Gone as err:
            passed = time.monotonic() - since
            self.ledger.counts["cut by a drain"] += 1
            # A record that is half-way is finished until the deadline, unless its lease epoch was over before. If none of its
            # bytes left the sidecar, some epoch was.
            lease = None if isinstance(source, WatchCall) else source.torn_lease()
            if lease is None:
                late = self.leases - self.member.held or self.ledger.sought_since(source.began)
            else:
                late = passed >= DRAIN_SECONDS or lease not in self.member.held
            check(not opened or isinstance(source, WatchCall) or late,
                  f"a stream broke {passed:.2f} s after a drain began:", err, source, getattr(source, "rest", b"")[-300:])
        else:
            if isinstance(source, HttpStream):
                check(not opened or source.ended == "drained", "a stream of a drained sidecar ended with", source.ended)
                self.ledger.counts["ended by a drain"] += 1
        self.leave(chance, gone=True)
