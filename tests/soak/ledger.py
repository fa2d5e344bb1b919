# SPDX-License-Identifier: Apache-2.0
"""What clients of a sidecar saw and said, record by record, and what must be true of it at any time.

Rules that a moment could break are asked only where no moment can: a record may be on its way while it is settled, so it must
not come on a connection that was opened after the answer; a checkpoint covers what somebody had begun to settle before.
"""

import bisect
import collections
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import Failure, check  # noqa: E402

FINISHING = ("ack", "drop", "dead_letter")
# Bytes that may be between the sidecar and an app with a small receive buffer that does not read: a chunk of 127 KiB, 128 KiB
# unsent in the socket and the write that passes this mark, and the receive buffer.
UNREAD_BYTES = 400 << 10
MAX_ATTEMPTS = 4


def number_of(position):
    return int(position) if position.isdigit() else -1


def behind(place):
    """The sequence number that a place of a seek is behind; None of an instant."""
    if place["checkpoint"] == "AT_TIMESTAMP":
        return None
    return number_of(place["checkpoint"]) - place["inclusive"]


class Known:
    """One record of the stream."""

    def __init__(self, name):
        self.name = name        # KEY:NUMBER
        self.epochs = set()     # Those in which it came.
        self.finish_at = 0.0    # When a settlement that ends it was begun last; 0: none counts.
        self.finishes = collections.Counter()
        self.finishing = set()  # The epochs in which one was begun.
        self.done = {}          # (Boot, epoch) -> when such a settlement was answered.
        self.persisted_at = 0.0
        self.passed = False     # By a seek.
        self.attempts = set()   # (Boot, epoch, attempt)
        self.sent = set()       # (Boot, epoch, attempt, number of the connection): it had all of it, or may have had.
        self.story = []         # What happened to it, for who reads of a failure: (when, what).
        self.buried = False     # By nobody's wish: there must be a letter.
        self.bytes = 0          # Of its data; 0: not known.
        self.act = None         # The act of slow readers in which it was put.

    def note(self, *what):
        self.story.append((round(time.time(), 3), *what))


class Place:
    """One shard."""

    def __init__(self):
        self.sequences = []     # Of the records that are known, sorted.
        self.seeks = 0          # Odd while one is under way.
        self.epoch = 0
        self.checkpoint = -1
        self.looked = -1        # Up to here all are known to have been settled.
        self.next = None        # The record that a seek went to: its shard stands on it, and it is the next one.
        self.sought_at = 0.0    # When the last seek ended.
        self.excused = []       # [(beyond, up to)]: what a seek passed over or a checkpoint covered, known by then or not.
        self.cumulative = []    # Checkpoints that were asked for.
        self.epochs = {}        # Epoch -> when something of it came first.


class Cumulative:
    """A checkpoint that was asked for. `over`: it took effect before that, if ever. `due`: what it covers, though nobody has seen
    it in this epoch: (sequence, known). `mark`: how far the watermark of the epoch came."""

    def __init__(self, sequence, epoch, boot):
        self.sequence, self.epoch, self.boot = sequence, epoch, boot
        self.due, self.mark = [], -1
        self.over = time.monotonic() + 3600


class Ledger:
    def __init__(self, ordering):
        """`ordering` of polls, which take what there is; None if that may be any. It may change."""
        self.lock = threading.RLock()
        self.ordering = ordering
        self.gives_up = False   # Records that fail too often become dead letters.
        self.records = {}       # (Shard, sequence) -> Known
        self.places = collections.defaultdict(Place)
        self.ids = {}           # ack_id -> (shard, sequence, epoch, boot, redriven)
        self.lately = collections.deque(maxlen=3000)  # The ids that came last, whoever's.
        self.redriven = set()   # Letters that somebody ordered again: (shard, sequence).
        self.letters = set()    # Letters that somebody saw.
        self.removed = set()    # Letters that somebody discarded, or acknowledged when they came again.
        self.broken = []        # Connections on which something may have been on its way: (boot, drained at, broke at).
        self.act = None         # The act, if it is one of slow readers: all connections are theirs.
        self.counts = collections.Counter()

    def was_put(self, shard, sequence, name, size, act):
        """`act`: of slow readers, if no other app has been there since before it was put."""
        with self.lock:
            known = self.know(shard, sequence, name)
            known.bytes, known.act = size, act

    def know(self, shard, sequence, name):
        key = (shard, sequence)
        if key not in self.records:
            self.records[key] = known = Known(name)
            known.passed = any(beyond < sequence <= up_to for beyond, up_to in self.places[shard].excused)
            bisect.insort(self.places[shard].sequences, sequence)
        check(self.records[key].name == name, "a record that is another one:", key, name, self.records[key].name)
        return self.records[key]

    # --- Deliveries ---

    def came(self, boot, connection, line):
        """A record came. `connection` has `began`, when it was opened or its poll was asked
        for, `polls`, `options` and `furthest`, which is ours."""
        shard, sequence, epoch = line["shard_id"], int(line["sequence_number"]), int(line["epoch"])
        with self.lock:
            known = self.know(shard, sequence, line["name"])
            redriven = bool(line.get("redriven"))
            said = f"{line} on a connection of {connection.began:.3f} ({connection})"
            known.epochs.add(epoch)
            self.places[shard].epochs.setdefault(epoch, time.monotonic())
            known.note("came", boot, epoch, line["attempt"], connection.session)
            self.counts["redriven" if redriven else "delivered"] += 1
            self.ids[line["ack_id"]] = (shard, sequence, epoch, boot, redriven)
            if not connection.private:
                self.lately.append(line["ack_id"])
            if redriven:
                check((shard, sequence) in self.redriven, "delivered again though nobody ordered it:", said)
                check(epoch == 0, "the epoch of a letter:", said)
                return
            # A seek may have moved it, and its answer be on its way.
            check(not known.persisted_at or known.persisted_at > connection.began or self.places[shard].seeks % 2 == 1,
                  f"came again after it was settled for good at {known.persisted_at:.3f}:", said)
            done_at = known.done.get((boot, epoch))
            check(done_at is None or done_at > connection.began, f"came again after it was settled at {done_at}:", said)
            attempt = (boot, epoch, int(line["attempt"]))
            check(attempt not in known.attempts, "one attempt came twice:", said, known.story)
            known.attempts.add(attempt)
            known.sent.add((*attempt, connection.number))
            self.check_order(connection, shard, epoch, sequence, int(line["attempt"]), line["name"].split(":")[0], said)

    def half(self, connection, line, size):
        """A reader has `size` bytes of the record's line, and not all. Returns whether the sidecar may have sent all of it."""
        place, epoch = (line["shard_id"], int(line["sequence_number"])), int(line["epoch"])
        with self.lock:
            known = self.records.get(place)
            if known is None:
                return True  # Its producer has not heard of it yet.
            self.ids.setdefault(line["ack_id"], (*place, epoch, connection.boot, bool(line.get("redriven"))))
            if not known.bytes or known.bytes * 4 // 3 <= size + UNREAD_BYTES:
                known.sent.add((connection.boot, epoch, int(line["attempt"]), connection.number))
            return any(one[:2] == (connection.boot, epoch) for one in known.sent)

    def is_fresh(self, place):
        """Nothing but a settlement by an app that has it can settle it."""
        with self.lock:
            known = self.records[place]
            return not (known.epochs or known.finish_at or known.passed or self.places[place[0]].seeks % 2)

    def check_order(self, connection, shard, epoch, sequence, attempt, key, said):
        ordering = connection.options.get("ordering", "shard") if not connection.polls else self.ordering
        if ordering in ("none", None):
            return
        key = key if ordering == "key" else ""
        furthest, last = connection.furthest.get((shard, epoch, key), (-1, sequence))
        check(attempt > 1 or sequence > furthest, f"a first attempt behind {furthest}:", said)
        connection.furthest[shard, epoch, key] = max(furthest, sequence), sequence
        if not self.gives_up:
            self.check_none_skipped(shard, epoch, key, last, sequence, said)

    def check_none_skipped(self, shard, epoch, key, last, sequence, said):
        """A lane goes on behind `last` only with what is settled in between: what was recalled comes again first."""
        place = self.places[shard]
        covered = max((one.sequence for one in place.cumulative if one.epoch == epoch), default=-1)
        first = bisect.bisect_right(place.sequences, max(last, covered))
        for between in place.sequences[first:bisect.bisect_left(place.sequences, sequence)]:
            known = self.records[shard, between]
            check(epoch in known.finishing or key not in ("", known.name.split(":")[0]),
                  f"skips {between} ({known.name}), which is not settled, behind {last}:", said, known.story)

    def broke(self, connection):
        """What was on its way there was delivered, and nobody saw it; not what was written before `drained`."""
        with self.lock:
            self.broken.append((connection.boot, connection.drained, time.monotonic()))

    # --- Settlements ---

    def begin(self, items):
        """Just before a request: [(ack_id, outcome)]. Returns what `end` wants back."""
        with self.lock:
            now = time.monotonic()
            for ack_id, outcome in items:
                if ack_id in self.ids and outcome in FINISHING:
                    shard, sequence, epoch, _, redriven = self.ids[ack_id]
                    known = self.records[shard, sequence]
                    if not redriven:
                        known.finish_at = now
                        known.finishing.add(epoch)
                    elif outcome != "dead_letter":
                        self.removed.add((shard, sequence))
                    known.finishes[outcome] += 1
                    known.note(outcome)
            return {shard: place.seeks for shard, place in self.places.items()}

    def end(self, items, seeks, failed, persisted):
        """It was answered 200: `failed` are the ids of which nothing was accepted."""
        with self.lock:
            now = time.monotonic()
            for ack_id, outcome in items:
                if ack_id not in self.ids or ack_id in failed or outcome not in FINISHING:
                    continue
                shard, sequence, epoch, boot, redriven = self.ids[ack_id]
                known, place = self.records[shard, sequence], self.places[shard]
                self.counts["settled"] += 1
                if redriven:
                    continue
                known.done.setdefault((boot, epoch), now)
                known.note("done", boot, epoch, persisted)
                if persisted and place.seeks % 2 == 0 and place.seeks == seeks.get(shard):
                    known.persisted_at = known.persisted_at or now

    def passed_cumulatively(self, shard, sequence, epoch, boot):
        """Just before a checkpoint: all that was delivered up to there may be settled by it. Returns it."""
        with self.lock:
            asked = Cumulative(sequence, epoch, boot)
            place = self.places[shard]
            place.cumulative.append(asked)
            place.excused.append((-1, sequence))
            for one in place.sequences:
                if one <= sequence:
                    known = self.records[shard, one]
                    # While it is moved nobody knows where this epoch began.
                    if not (known.finish_at or known.passed or epoch in known.epochs or place.seeks % 2):
                        asked.due.append((one, known))
                    known.finish_at = time.monotonic()
                    known.finishes["checkpoint"] += 1
                    known.note("checkpoint", sequence)
            return asked

    # --- Seeks, kills ---

    def seek_begins(self, shards):
        with self.lock:
            for shard in shards:
                self.places[shard].seeks += 1
        return time.monotonic()

    def sought_since(self, instant):
        """True if a seek is under way, or was after this instant: it ended lease epochs."""
        with self.lock:
            return any(place.seeks % 2 == 1 or place.sought_at > instant for place in self.places.values())

    def seek_ends(self, shards, moved, began):
        """`moved`: shard -> (before, after) of those that were moved: the last ones that are behind; None for an instant."""
        with self.lock:
            for shard in shards:
                place = self.places[shard]
                place.seeks += 1
                place.sought_at = time.monotonic()
                if shard not in moved:
                    continue
                before, after = moved[shard]
                if after is None:
                    before, after, passed = -1, -1, place.sequences[-1] if place.sequences else -1
                else:
                    passed = after
                place.excused.append((before, passed))
                for sequence in place.sequences:
                    known = self.records[shard, sequence]
                    known.note("seek", before, after, passed)
                    known.passed = known.passed or before < sequence <= passed
                    if sequence > after:
                        known.persisted_at = 0.0
                        known.passed = sequence <= passed
                        if known.finish_at < began:
                            known.finish_at = 0.0
                place.next = after + 1
                place.checkpoint = min(place.checkpoint, after)
                place.looked = min(place.looked, after)

    def last(self, shard):
        """The last record that is to be settled: not one that a seek to an instant has passed, or may have. -1: none."""
        with self.lock:
            return next((one for one in reversed(self.places[shard].sequences) if not self.records[shard, one].passed), -1)

    def process_ended(self, checkpoints, ended):
        """What was settled before and not durable comes again. `checkpoints`: shard -> number."""
        with self.lock:
            for shard, place in self.places.items():
                durable = checkpoints.get(shard, -1)
                for sequence in place.sequences[bisect.bisect_right(place.sequences, durable):]:
                    known = self.records[shard, sequence]
                    if known.finish_at < ended:
                        known.note("not durable", durable)
                        known.finish_at = 0.0
                place.looked = min(place.looked, durable)

    # --- Looking ---

    def looks(self, shard, epoch, checkpoint, watermark, seeks):
        """What an owner says of its shard; `seeks` as it was before it was asked."""
        with self.lock:
            place = self.places[shard]
            if place.seeks % 2 == 1 or place.seeks != seeks or epoch < place.epoch:
                return  # Of an owner who does not know yet that he is none.
            place.epoch = epoch
            check(checkpoint >= place.checkpoint, f"the checkpoint of {shard} went back from {place.checkpoint} to {checkpoint}")
            check(watermark >= checkpoint, f"the watermark of {shard}, {watermark}, is behind its checkpoint {checkpoint}")
            place.checkpoint = checkpoint
            self.check_settled(shard, watermark)
            for asked in place.cumulative:
                if asked.epoch == epoch:
                    asked.mark = max(asked.mark, watermark - (watermark == place.next))

    def check_settled(self, shard, up_to):
        place = self.places[shard]
        up_to -= up_to == place.next
        first = bisect.bisect_right(place.sequences, place.looked)
        for sequence in place.sequences[first:bisect.bisect_right(place.sequences, up_to)]:
            known = self.records[shard, sequence]
            if not known.finish_at and not known.passed and self.gives_up:
                known.buried = True
            elif not known.finish_at and not known.passed:
                raise Failure(f"{shard} stands on {up_to}, and {sequence} ({known.name}) was not settled: {known.story}; "
                              f"excused {place.excused[-3:]}")
        place.looked = max(place.looked, up_to)

    def letter(self, shard, sequence, cause):
        with self.lock:
            known = self.records.get((shard, sequence))
            self.letters.add((shard, sequence))
            check(self.gives_up if cause != "asked" else known is not None and known.finishes["dead_letter"] > 0,
                  f"a dead letter that nobody asked for: {shard} {sequence} {cause}")
            if known is None or cause == "asked" or known.act is None or known.act != self.act or known.bytes < UNREAD_BYTES or (
                    shard, sequence) in self.redriven:
                return
            self.counts["large letters"] += 1
            sent = collections.Counter(one[:2] for one in known.sent)
            check(max(sent.values(), default=0) >= MAX_ATTEMPTS,
                  f"a dead letter of a record that was not sent {MAX_ATTEMPTS} times: {shard} {sequence}: {known.story}; {sent}")

    def letters_that_stay(self):
        """What any later list must hold, if nobody begins to remove it meanwhile."""
        with self.lock:
            return self.letters - self.removed

    def letters_are(self, found, stayed):
        """A whole list, and what `letters_that_stay` said before it was asked for."""
        with self.lock:
            for shard, sequence in stayed - self.removed - found:
                raise Failure(f"the dead letter {shard} {sequence} is lost: {self.records[shard, sequence].story}")

    def letters_at_the_end(self, found):
        with self.lock:
            for (shard, sequence), known in self.records.items():
                only = list(known.finishes) == ["dead_letter"] and known.persisted_at and not known.passed
                if (only or known.buried) and (shard, sequence) not in self.redriven | self.removed:
                    check((shard, sequence) in found, f"the dead letter {shard} {sequence} ({known.name}) is lost",
                          "nobody asked for it" if known.buried else "an app asked for it", known.story)

    # --- The end ---

    def all_came(self):
        """A checkpoint settles what was delivered, and nothing else: what it covers and the watermark has passed came in that
        epoch, then or later, or had been on its way on a connection that broke."""
        with self.lock:
            for shard, place in self.places.items():
                for asked in place.cumulative:
                    unseen = [known.story for sequence, known in asked.due
                              if sequence <= asked.mark and asked.epoch not in known.epochs]
                    since = place.epochs[asked.epoch] - 5
                    self.counts["covered"] += len(asked.due)
                    self.counts["covered unseen"] += len(unseen)
                    check(not unseen or any(boot == asked.boot and drained < asked.over and broke > since
                                            for boot, drained, broke in self.broken),
                          f"settled by the checkpoint {asked.sequence} of epoch {asked.epoch} of {shard}, though nobody saw it then,"
                          f" {len(unseen)} records:", unseen[:3])
