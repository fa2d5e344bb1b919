# SPDX-License-Identifier: Apache-2.0
"""The state of one consumer, without I/O and without a clock: what the stream brings, what the app may have, and what has to
be sent. One thread, or the event loop, calls it. `Record` and the code that hands records out may run in other threads:
they use `decided`, `extend`, `begin`, `may_begin`, `give_back`, `is_held`, `wants_request` and the queues alone."""

from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Iterable, Iterator

from ._errors import SessionTakenOver, SidecarError
from ._record import ACK, RETRY, TAKEN_BACK, Record, Settlement

ITEMS_MAX = 1000  # In one settle request.
HEARTBEATS_MISSED = 3
RETRY_AFTER_MAX_SECONDS = 30.0
SESSION_GONE = (409, 410)
REDELIVERED = ("EXPIRED", "FENCED")  # Reasons of a refusal: the sidecar redelivers the record.
NOWHERE = (-1, 0)  # A position before all others.


class Group:
    """The records of one batch_id."""

    __slots__ = ("batch_id", "shard_id", "since", "adopted", "count", "open", "bytes", "acked", "unsent", "records", "whole",
                 "current", "live")

    def __init__(self, batch_id: str, shard_id: str, now: float):
        self.batch_id = batch_id
        self.shard_id = shard_id
        self.since = now
        self.adopted: dict[Record, float] = {}  # Records that arrived before; since when the app has them.
        self.count = 0       # Records received.
        self.open = 0        # Records without an outcome.
        self.bytes = 0       # Of the records.
        self.acked = 0       # Records acknowledged by the app.
        self.unsent: list[Record] = []   # Acknowledged, and not sent.
        self.records: list[Record] = []
        self.whole = False   # No further record of the batch follows.
        self.current = True  # The app may begin its records: their connection and their lease are there.
        self.live = True     # The sidecar accepts settlements: their session is there.


class Hold:
    """A retry that waits for its answer and its barrier, or for the redelivery of its record."""

    __slots__ = ("record", "barrier", "accepted")

    def __init__(self, record: Record):
        self.record = record
        self.barrier = 0                   # 0: not sent, or redelivered.
        self.accepted: bool | None = None  # None: not answered.

    def is_resolved(self, barriers_seen: int) -> bool:
        return self.accepted is not None and barriers_seen >= self.barrier

    def takes_back(self, record: Record) -> bool:
        """A record of a lost lease takes nothing back: `lease_lost` has dropped the others of its epoch."""
        return self.accepted is True and self.record._group.current and record.barriers < self.barrier and \
            record.position > self.record.position


class Resolved:
    """No retry holds the scope any more: what was set aside may be handed out."""

    __slots__ = ("scope",)

    def __init__(self, scope: Any):
        self.scope = scope


class Request:
    """The body of a settle request, and what its answer decides."""

    __slots__ = ("body", "holds", "records", "members")

    def __init__(self) -> None:
        self.body: dict[str, Any] = {"settlements": []}
        self.holds: list[Hold] = []
        self.records: list[Record] = []  # With an outcome; none in an extension.
        self.members: set[Record] | None = None  # The same; None: nobody has asked.

    def add(self, item: dict[str, Any], records: Iterable[Record] = ()) -> None:
        self.body["settlements"].append(item)
        self.records.extend(records)

    @property
    def is_full(self) -> bool:
        return len(self.body["settlements"]) >= ITEMS_MAX

    def settles(self, record: Record) -> bool:
        """Of a request that is complete."""
        if self.members is None:
            self.members = set(self.records)
        return record in self.members

    def refusals(self, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The items that count as refused. A retry counts as accepted if the sidecar redelivers its record: an earlier
        copy of the request, or a missed ack deadline, has taken the later records of the scope back."""
        if not self.records:
            return
        retries = {item["ack_id"] for item in self.body["settlements"] if item["outcome"] == RETRY}
        for failure in answer.get("failed") or ():
            if failure.get("ack_id") not in retries or failure.get("reason") not in REDELIVERED:
                yield failure


class Earlier:
    """The records of this session that may be unconfirmed, for the redeliveries. It has all but those of the last batch, and
    some that are confirmed."""

    __slots__ = ("records", "scopes", "scope_of", "first", "bytes")

    def __init__(self, unconfirmed: Iterable[Record], groups: Iterable[Group], scope_of: Callable[[Record], Any]):
        # By identity: the last delivery of each record.
        self.records = {record.identity: record for record in unconfirmed}
        # By scope: records that a redelivery may take back, in the order of their delivery.
        self.scopes: dict[Any, list[Record]] = {}
        self.scope_of = scope_of
        for group in groups:
            self.add(group)
        self.first = len(self.records)
        self.bytes = 0  # Of the records that were added later.

    def add(self, group: Group) -> None:
        for record in group.records:
            self.records[record.identity] = record
            if record.outcome is None:
                self.scopes.setdefault(self.scope_of(record), []).append(record)

    def taken_back_by(self, redelivery: Record) -> Iterator[Record]:
        """Removes the records of the scope from its position on."""
        records = self.scopes.get(self.scope_of(redelivery), [])
        while records and records[-1].position >= redelivery.position:
            yield records.pop()


class Engine:
    """`hand_out(item)` gets a list of records for the app, in order, or Resolved; `on_event(event)` gets events; `wake()` asks for
    a call of `request` soon; `ack_persisted(record)` does what the name says; `done` is the result of an `ack` that does not
    wait.

    A *scope* is the unit of order: a shard, or a lane of it. A retry takes the later records of its scope back. While it holds
    the scope, none of them is handed to the app."""

    def __init__(self, options: Any, record_type: type, hand_out: Callable[[list[Record] | Resolved], Any],
                 on_event: Callable[[dict[str, Any]], Any], wake: Callable[[], Any], ack_persisted: Callable[[Record], Any], done: Any):
        self.options = options
        self.record_type = record_type
        self.hand_out = hand_out
        self.on_event = on_event
        self.wake = wake
        self.ack_persisted = ack_persisted
        self.done = done

        self.outcomes: collections.deque[Record] = collections.deque()  # With an outcome that is not processed.
        self.extensions: collections.deque[tuple[Record, Settlement]] = collections.deque()
        self.held: dict[Any, list[Hold]] = {}  # By scope.
        self.lock = threading.Lock()           # Of `held`, and of records that begin or are taken back.

        self.session_open = False
        self.max_in_flight = options.max_in_flight
        self.max_in_flight_bytes = options.max_in_flight_bytes
        self.ack_deadline = options.ack_deadline
        self.heartbeat = options.heartbeat
        self.barriers_seen = 0
        self.barriers_sent = 0
        self.group: Group | None = None      # Of the last record.
        self.groups: dict[Group, None] = {}  # With records that have no outcome.
        self.acked: dict[Group, float] = {}  # With acknowledgements to send; since when.
        self.unsent = 0                      # Acknowledgements in them.
        self.mean_bytes = 0                  # Of a record of the last batch.
        self.urgent: collections.deque[Record] = collections.deque()  # With another outcome to send.
        self.pending: Request | None = None  # Sent without an answer.
        self.retry_at = 0.0                  # When it is sent again.
        self.extend_at = float("inf")
        self.aside: dict[Any, list[Record]] = {}  # Records of `begin` that a retry holds, by scope.
        # The app has them, or the sidecar has not confirmed their outcome, and their session has ended.
        self.adoptable: dict[tuple[Any, ...], Record] = {}
        # None: no record was redelivered for a while.
        self.earlier: Earlier | None = None
        # Without an outcome, and begun or given back: they wait in the place of their redelivery, now or when it comes.
        self.ahead: set[Record] = set()
        self.lease_lost = False  # Records of a lost lease may have no outcome yet.
        self.heads: dict[str, tuple[int, int]] = {}  # By shard: position of the first record of its last batch.

        self.stale = 0
        self.failed = 0

    # --- For the threads of the app ---

    def decided(self, record: Record) -> None:
        """The record has an outcome that is not an acknowledgement."""
        if record.outcome == RETRY:
            self._hold(record)
        self.outcomes.append(record)
        self.wake()

    def extend(self, record: Record, settlement: Settlement) -> None:
        self.extensions.append((record, settlement))
        self.wake()

    def may_begin(self, record: Record) -> bool:
        """Marks the record as begun. False if it is not the app's any more: it is redelivered."""
        with self.lock:
            self.ahead.discard(record)
            if record.outcome is not None or record.begun or not record._group.current:
                return False
            record.begun = True
            return True

    def give_back(self, records: Iterable[Record]) -> list[Record]:
        """The app left a loop: it may begin the records again that have no outcome. Returns those that are handed out before
        all others. The others wait in the place of their redelivery."""
        with self.lock:
            given = [record for record in records if record.outcome is None]
            for record in given:
                record.begun = False
            return [record for record in given if record not in self.ahead]

    def is_held(self, scope: Any) -> bool:
        return scope in self.held

    def scope_of(self, record: Record) -> Any:
        """None: no retry takes it back."""
        if self.options.ordering == "none" or record.redriven:
            return None
        return record.shard_id if self.options.ordering == "shard" else (record.shard_id, record.lane)

    def begin(self, item: list[Record] | Resolved) -> Iterator[Record]:
        """The records that the app may have now. Others are set aside until no retry holds their scope."""
        for record in self.aside.pop(item.scope, ()) if isinstance(item, Resolved) else item:
            if (self.held or self.aside) and self._set_aside(record):
                continue
            if self.may_begin(record):
                yield record

    def _set_aside(self, record: Record) -> bool:
        scope = self.scope_of(record)
        if scope not in self.aside and not self.is_held(scope):
            return False
        self.aside.setdefault(scope, []).append(record)
        return True

    def _hold(self, record: Record) -> None:
        scope = self.scope_of(record)
        if scope is None:
            return
        with self.lock:
            holds = self.held.setdefault(scope, [])
            if all(hold.record is not record for hold in holds):
                holds.append(Hold(record))

    # --- The stream ---

    def receive(self, messages: Iterable[tuple[str | None, Any, int]], now: float) -> None:
        """Takes what a decoder found. Raises SessionTakenOver."""
        records: list[Record] = []
        make = self.record_type
        group = self.group
        for batch_id, message, size in messages:
            if batch_id is None:
                self._hand(records)
                records = []
                self._event(message, now)
                group = self.group
                continue
            if group is None or group.batch_id != batch_id:
                group = self._next_group(batch_id, message, now)
            record = make(message, self, group)
            group.records.append(record)
            group.count += 1
            group.open += 1
            group.bytes += size
            if record.attempt > 1:
                self._replace(record)
            if record.attempt > 1 or self.adoptable or self.lease_lost:
                record = self._adopted_by(record)
            records.append(record)
        self._hand(records)

    def _hand(self, records: list[Record]) -> None:
        if records:
            self.hand_out(records)

    def _next_group(self, batch_id: str, message: Any, now: float) -> Group:
        """Events may come between the records of a batch: only the first record of another batch ends it."""
        if self.group is not None:
            self.group.whole = True
            self.mean_bytes = self.group.bytes // self.group.count
            if self.earlier is not None:
                self._add_earlier(self.earlier, self.group)
        shard_id = message["shard_id"] if isinstance(message, dict) else message.shard_id
        self.group = Group(batch_id, shard_id, now)
        self.groups[self.group] = None
        first = self.record_type(message, self, self.group)
        if not first.redriven:
            self.heads[shard_id] = first.position
        return self.group

    def _event(self, event: dict[str, Any], now: float) -> None:
        kind = event.get("type")
        if kind == "barrier":
            self.barriers_seen = max(self.barriers_seen, int(event["barrier"]))  # A repeated request repeats its barrier.
            self._resolve()
            return
        if kind == "session":
            self._opened(event, now)
        elif kind == "lease_lost":
            for group in self.groups:
                if group.shard_id == event.get("shard_id") and not group.records[0].redriven:
                    with self.lock:
                        group.current = False
                    self.lease_lost = True
        self.on_event(event)
        if kind == "ended" and event.get("reason") == "taken_over":
            self.session_open = False
            raise SessionTakenOver(f"another process uses the client_id {self.options.client_id}")

    def _opened(self, event: dict[str, Any], now: float) -> None:
        """A new session: settlements of the earlier one are stale, and its records are redelivered."""
        self._drain(now)
        self.adoptable = {identity: record for identity, record in self.adoptable.items()
                          if not self._is_settled(record)}
        self.adoptable.update((record.identity, record) for record in self._unconfirmed())
        self.heads = {}
        self.earlier = None
        self.ahead.clear()
        self.disconnected()
        for group in set(self.groups) | set(self.acked):
            group.live = False
        self.groups, self.acked, self.unsent, self.pending, self.lease_lost = {}, {}, 0, None, False
        self.urgent.clear()
        with self.lock:
            held, self.held = self.held, {}
        for scope in held:
            self.hand_out(Resolved(scope))
        self.session_open = True
        self.barriers_seen = self.barriers_sent = 0
        self.max_in_flight = event.get("max_in_flight") or self.max_in_flight
        self.max_in_flight_bytes = event.get("max_in_flight_bytes") or self.max_in_flight_bytes
        self.ack_deadline = event.get("ack_deadline_ms", 0) / 1000 or self.ack_deadline
        self.heartbeat = event.get("heartbeat_ms", 0) / 1000 or self.heartbeat
        self.extend_at = now + self.ack_deadline / 3

    def _is_settled(self, record: Record) -> bool:
        """True if the session delivered a later record of the shard, and not this one. A redriven one has no order."""
        head = self.heads.get(record.shard_id, NOWHERE)
        return record.outcome is not None and (record.redriven or head > record.position)

    def _unconfirmed(self) -> Iterator[Record]:
        """Records that the app has, and those whose outcome the sidecar has not confirmed."""
        for group in self.groups:
            yield from (record for record in group.records if record.begun and not record.processed)
        for group in self.acked:
            yield from group.unsent
        yield from self.urgent
        if self.pending is not None:
            yield from self.pending.records

    def disconnected(self) -> None:
        """The connection of the stream has ended. The session accepts settlements until the next one begins."""
        self.group = None
        with self.lock:
            for group in self.groups:
                group.current = False

    def _adopted_by(self, redelivery: Record) -> Record:
        """The earlier delivery of the record, if the app has it, or its outcome settles this one. Else the redelivery."""
        record = self.adoptable.pop(redelivery.identity, None) or self._earlier(redelivery)
        if record is None or (record.outcome is None and not record.begun and record not in self.ahead):
            # The app never had it, or has given it back.
            if self.held:
                self._confirm(redelivery)
            return redelivery
        if not record.processed:
            record._group.open -= 1
        redelivery._group.records[-1] = record
        redelivery._group.adopted[record] = record._group.adopted.pop(record, record._group.since)
        record._group = redelivery._group
        record._adopted = redelivery
        record.barriers = redelivery.barriers
        record.processed = False
        if record.outcome is not None:
            if record.outcome == RETRY:
                self._hold(record)
            self.outcomes.append(record)
        else:
            self.ahead.add(record)
        return record

    def _replace(self, redelivery: Record) -> None:
        """Takes the records from this position on back that wait in the scope. The sidecar delivers a scope in order: it has
        taken them back, and redelivers them behind this one."""
        if self.scope_of(redelivery) is None:
            return
        earlier = self._known_earlier()
        with self.lock:
            for record in earlier.taken_back_by(redelivery):
                self._drop(record)

    def _drop(self, record: Record) -> None:
        """Takes back a record. One that the app has stays with it until its loop is left."""
        if record.outcome is not None:
            return
        if record.begun:
            self.ahead.add(record)
            return
        self.ahead.discard(record)
        record.outcome = TAKEN_BACK
        record._group.open -= 1

    def _earlier(self, redelivery: Record) -> Record | None:
        """The unconfirmed delivery of the record in this session. None if its retry was sent: the retry may have caused
        the redelivery, and the app gets it."""
        record = self._known_earlier().records.get(redelivery.identity)
        return None if record is None or not self._is_unconfirmed(record) else record

    def _known_earlier(self) -> Earlier:
        if self.earlier is None:
            self._forget_groups()
            # The app may begin further records of the batches.
            groups = (group for group in self.groups if group is not self.group)
            self.earlier = Earlier(self._unconfirmed(), groups, self.scope_of)
        return self.earlier

    def _add_earlier(self, earlier: Earlier, group: Group) -> None:
        """Adds a batch that has ended. It costs less to collect all again now and then than to remove each record that is
        confirmed."""
        earlier.add(group)
        earlier.bytes += group.bytes
        if len(earlier.records) > 2 * earlier.first + self.max_in_flight or earlier.bytes > self.max_in_flight_bytes:
            self.earlier = None

    def _is_unconfirmed(self, record: Record) -> bool:
        """Whether the app has the record, or its outcome may settle a redelivery."""
        if not record.processed:
            return record.begun or record in self.ahead
        if record.outcome == RETRY:
            return False
        is_sent = self.pending is not None and self.pending.settles(record)
        return is_sent or record in record._group.unsent or record in self.urgent

    def _confirm(self, redelivery: Record) -> None:
        """The redelivery of a retried record stands for the answer and the barrier: it shows that the sidecar has taken
        the later records of the scope back, and that it delivers them again after this one."""
        scope = self.scope_of(redelivery)
        with self.lock:
            for hold in self.held.get(scope, ()):
                if hold.record.identity == redelivery.identity:
                    hold.accepted = True
                    self._take_back(scope, [hold])
                    hold.barrier = 0
        self._resolve()

    # --- What has to be sent ---

    def request(self, now: float, everything: bool = False) -> Request | None:
        """The next settle request that is due, or None. What became of it is reported by `answered` or `unanswered`."""
        if not self.session_open or (self.pending is not None and now < self.retry_at and not everything):
            return None
        if self.pending is None:
            self._drain(now)
            request = Request()
            if self.urgent:  # Without acknowledgements, which a refusal must not take along.
                self._add_urgent(request)
            elif everything or self._acks_are_due(now):
                self._add_acks(request, now, everything)
            self.pending = request if request.body["settlements"] else self._extension(now)
        return self.pending

    def _drain(self, now: float) -> None:
        outcomes = self.outcomes
        while outcomes:
            record = outcomes.popleft()
            group = record._group
            if record.processed or record.outcome is TAKEN_BACK:
                continue
            record.processed = True
            self.ahead.discard(record)
            if not group.live:
                self._lost(record)
                continue
            group.open -= 1
            if record.outcome is not ACK:
                self.urgent.append(record)
                continue
            if not group.unsent:
                self.acked.setdefault(group, now)
            group.acked += 1
            group.unsent.append(record)
            self.unsent += 1

    def _lost(self, record: Record) -> None:
        """The session of a settlement has ended. The redelivery of the record gets the outcome if it comes here."""
        if record.outcome == RETRY:
            self._release(record)
        if record.identity not in self.adoptable:
            self.stale += 1

    def _acks_are_due(self, now: float) -> bool:
        if not self.acked:
            return False
        return now - next(iter(self.acked.values())) >= self.options.ack_interval or self.is_crowded(0)

    def wants_request(self) -> bool:
        """Outcomes are looked at every `ack_interval`. Credit does not wait for that."""
        return bool(self.outcomes) and self.is_crowded(len(self.outcomes))

    def is_crowded(self, more: int) -> bool:
        """Whether acknowledgements that are not sent, and `more`, use up half of what may be in flight."""
        unsent = self.unsent + more
        if unsent * 2 >= self.max_in_flight:
            return True
        return bool(self.mean_bytes * unsent * 2 >= self.max_in_flight_bytes)

    def _add_urgent(self, request: Request) -> None:
        while self.urgent and not request.is_full:
            record = self.urgent.popleft()
            settlement = record.settlement
            assert settlement is not None
            item: dict[str, Any] = {"ack_id": record.settle_id, "outcome": settlement.outcome}
            if settlement.delay_ms:
                item["delay_ms"] = settlement.delay_ms
            if settlement.reason:
                item["reason"] = settlement.reason
            request.add(item, [record])
            if settlement.outcome == RETRY:
                self._add_hold(request, record)

    def _add_hold(self, request: Request, record: Record) -> None:
        with self.lock:
            holds = [hold for hold in self.held.get(self.scope_of(record), ()) if hold.record is record]
        for hold in holds:
            if not request.holds:
                self.barriers_sent += 1
                request.body["barrier"] = str(self.barriers_sent)
            hold.barrier = self.barriers_sent
            request.holds.append(hold)

    def _add_acks(self, request: Request, now: float, everything: bool) -> None:
        """Batches of which all was acknowledged go out as one item. Of the others those records that have waited."""
        crowded = self.is_crowded(0)
        for group, since in list(self.acked.items()):
            if request.is_full:
                return
            if group.whole and group.acked == group.count:
                request.add({"batch_id": group.batch_id, "outcome": ACK}, group.unsent)
                self._sent(group, len(group.unsent))
            elif everything or crowded or now - since >= self.options.ack_interval:
                room = ITEMS_MAX - len(request.body["settlements"])
                for record in group.unsent[:room]:
                    request.add({"ack_id": record.settle_id, "outcome": ACK}, [record])
                self._sent(group, min(room, len(group.unsent)))

    def _sent(self, group: Group, count: int) -> None:
        self.unsent -= count
        del group.unsent[:count]
        del self.acked[group]
        if group.unsent:
            self.acked[group] = 0.0
        elif group.whole and group.open == 0:
            self.groups.pop(group, None)
            group.records.clear()  # It refers to records that refer to it.

    def _extension(self, now: float) -> Request | None:
        """Extends all that the app has, when it is due, and what it asked for."""
        request = Request()
        while self.extensions and not request.is_full:
            record, settlement = self.extensions.popleft()
            if record._group.live and record.outcome is None:
                request.add({"ack_id": record.settle_id, "outcome": "extend", "delay_ms": settlement.delay_ms})
        if now >= self.extend_at:
            self.extend_at = now + self.ack_deadline / 3
            self._forget_groups()
            self.lease_lost = not all(group.current for group in self.groups)
            for group in self.groups:
                if group.live and group.open > 0 and now - group.since < self.options.max_processing:
                    self._extend(group, request, now)
        return request if request.body["settlements"] else None

    def _extend(self, group: Group, request: Request, now: float) -> None:
        """One item extends the batch, unless that extended a record which the app has for too long."""
        overdue = {record for record, since in group.adopted.items()
                   if record.outcome is None and now - since >= self.options.max_processing}
        items = [{"batch_id": group.batch_id}]
        if overdue:
            items = [{"ack_id": record.settle_id} for record in group.records
                     if record._group is group and record.outcome is None and record not in overdue]
        for item in items:
            if not request.is_full:
                request.add({**item, "outcome": "extend", "delay_ms": int(self.ack_deadline * 1000)})

    def _forget_groups(self) -> None:
        """Those whose records all have an outcome. `acked` has what is to be sent."""
        self.groups = {group: None for group in self.groups if group.open > 0 or not group.whole}

    def next_at(self, now: float) -> float:
        """When `request` has to be called again, if `wake` is not called before."""
        if not self.session_open:
            return float("inf")
        if self.pending is not None:
            return self.retry_at
        first = min(self.extend_at, next(iter(self.acked.values())) + self.options.ack_interval if self.acked else float("inf"))
        return min(first, now + self.options.ack_interval) if self.groups else first

    # --- Answers ---

    def answered(self, request: Request, answer: dict[str, Any]) -> None:
        """The sidecar has judged each settlement."""
        self.pending = None
        refused = {}
        for failure in request.refusals(answer):
            refused[failure.get("ack_id")] = failure.get("reason")
            self.failed += 1
            self.on_event({"type": "settle_failed", **failure})
        for hold in request.holds:
            if refused.get(hold.record.settle_id) != "UNKNOWN":  # Else the next session releases the scope.
                hold.accepted = hold.record.settle_id not in refused
        self._resolve()

    def unanswered(self, request: Request, err: Exception, now: float) -> bool:
        """Takes the error that a request ended with. False: it is sent again, after `ack_interval` or Retry-After.
        Raises an error that no repetition mends."""
        retry_after = 0.0
        if isinstance(err, SidecarError):
            if err.status in SESSION_GONE:
                self._refused(request)
                return True
            if not err.is_temporary:
                raise err
            retry_after = err.retry_after or 0.0
        self.retry_at = now + max(self.options.ack_interval, min(retry_after, RETRY_AFTER_MAX_SECONDS))
        return False

    def abandon(self) -> None:
        """The sidecar refuses the request that is pending, and the consumer ends: what is left may still be sent."""
        self.pending = None
        self.urgent.clear()

    def _refused(self, request: Request) -> None:
        """The session of the whole request has ended. The next one releases the scopes of its retries."""
        self.pending = None
        self.stale += len(request.records)

    def _release(self, record: Record) -> None:
        with self.lock:
            for scope, holds in self.held.items():
                self.held[scope] = [hold for hold in holds if hold.record is not record]
        self._resolve()

    def _resolve(self) -> None:
        """Ends the scopes whose retries are all resolved."""
        resolved = []
        with self.lock:
            for scope, holds in list(self.held.items()):
                if all(hold.is_resolved(self.barriers_seen) for hold in holds):
                    self._take_back(scope, [hold for hold in holds if hold.accepted])
                    del self.held[scope]
                    resolved.append(scope)
        for scope in resolved:
            self.hand_out(Resolved(scope))

    def _take_back(self, scope: Any, holds: list[Hold]) -> None:
        """Records that came before the barrier of an accepted retry are redelivered behind the retried record."""
        for group in self.groups if holds else ():
            for record in group.records:
                if self.scope_of(record) == scope and any(hold.takes_back(record) for hold in holds):
                    self._drop(record)
