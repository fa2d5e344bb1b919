# SPDX-License-Identifier: Apache-2.0
"""The client of the tests: every request as it is, and no deadline extended by itself. Python 3.8, standard library only.

    with Sidecar(url).stream(client_id="orders") as stream:
        for record in stream:
            stream.ack(record)

Apps use the package in client-stubs/python.

Two ways to read: `Sidecar.stream` (records are pushed, acks go out in batches, the connection is kept up) and
`Sidecar.pull` (one long poll for each batch, no state here). Sequence numbers are text; compare them with `order_of`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import socket
import threading
import time
import urllib.parse
import uuid
from typing import Any, Callable, Iterable, Iterator, Sequence

__all__ = ["Sidecar", "Stream", "Batch", "Record", "SidecarError", "SessionTakenOver", "order_of"]

DEFAULT_URL = "http://127.0.0.1:8990"
CONNECT_SECONDS = 5.0        # A sidecar is on this machine: it answers at once or not at all.
BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MOST_SECONDS = 5.0
SETTLEMENTS_MOST = 1000      # In one request; far below the sidecar's limits on items and bytes.
NOTES_SECONDS = 0.02         # How often settlements are sent; acks wait twice as long at most for the rest of their batch.
AGAIN_SECONDS = 1.0          # Between two tries to send them to a sidecar that does not take them.
REASON_MOST = 500            # Characters; the sidecar keeps 1000 bytes, and a request has a limit.
HEARTBEATS_MISSED = 3        # So many in a row, and the connection counts as dead.
WORTH_RETRYING = frozenset((429, 500, 502, 503, 504))
SESSION_GONE = frozenset((409, 410))
NOTHING_SETTLED = {"ok": 0, "failed": [], "persisted": True, "positions": []}


class SidecarError(Exception):
    """The sidecar refused a request. `status` is the HTTP status, `code` the short reason."""

    def __init__(self, status, problem, retry_after=None):
        super().__init__(f"{status} {problem.get('detail') or problem.get('title') or 'refused'}")
        self.status = status
        self.code = problem.get("code", "")
        self.problem = problem
        self.retry_after = retry_after


class SessionTakenOver(Exception):
    """Another consumer opened a stream with our client_id: going on would only take it back from there."""


class _Group:
    """The records of one batch_id of a stream. When all of them were handed out and acknowledged, the batch_id says so for
    all; as long as more may come, or if one of them has another outcome, each goes by its own ack_id."""

    __slots__ = ("batch_id", "generation", "handed", "acked", "whole", "mixed", "since", "ack_ids", "bytes")

    def __init__(self, batch_id: str, generation: int):
        self.batch_id = batch_id
        self.generation = generation  # Of the session: its records cannot be settled in the next one.
        self.handed = 0
        self.acked = 0
        self.whole = False  # Nothing more of it comes.
        self.mixed = not batch_id
        self.since = 0.0    # When the first of `ack_ids` was noted.
        self.ack_ids: list[str] = []  # Acknowledged, and not sent yet.
        self.bytes = 0      # Of these.


class Record:
    """One record. `data` is bytes; `attempt` counts deliveries from 1."""

    __slots__ = ("ack_id", "batch_id", "stream", "shard_id", "epoch", "sequence_number", "sub_sequence_number",
                 "partition_key", "arrived_at", "attempt", "aggregated", "redriven", "data", "group", "done")

    def __init__(self, line: dict, group: _Group | None = None):
        self.ack_id: str = line["ack_id"]
        self.batch_id: str = line.get("batch_id", "")
        self.stream: str = line.get("stream", "")
        self.shard_id: str = line["shard_id"]
        self.epoch: int = line["epoch"]
        self.sequence_number: str = line["sequence_number"]
        self.sub_sequence_number: int = line.get("sub_sequence_number", 0)
        self.partition_key: str = line.get("partition_key", "")
        self.arrived_at: str | None = line.get("approximate_arrival_timestamp")
        self.attempt: int = line.get("attempt", 1)
        self.aggregated = bool(line.get("aggregated"))
        self.redriven = bool(line.get("redriven"))
        self.data = base64.b64decode(line["data"])
        self.group = group
        self.done = False  # Acknowledged; again is no news.

    def __repr__(self) -> str:
        return f"<Record {self.shard_id} {self.sequence_number} attempt {self.attempt}>"


def order_of(record: Record) -> tuple[int, int]:
    """A key that sorts the records of one shard in the order of the shard."""
    return int(record.sequence_number), record.sub_sequence_number


class Batch:
    """What one pull brought; settled as a whole. Empty when there was nothing: then `idle_reason` says why."""

    def __init__(self, sidecar: Sidecar, answer: dict):
        self.sidecar = sidecar
        self.batch_id: str = answer["batch_id"]
        self.session: str = answer["session"]
        self.idle_reason: str = answer["idle_reason"]
        self.records = [Record(line) for line in answer["records"]]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def ack(self, failed: Iterable[Record] = (), wait: str = "recorded", wait_ms: int | None = None) -> dict:
        """Acknowledges all but the records in `failed`, which come again. Returns the sidecar's answer."""
        if not self.records:
            return dict(NOTHING_SETTLED)
        settlement = {"batch_id": self.batch_id, "outcome": "ack", "failed_ack_ids": [record.ack_id for record in failed]}
        return self.sidecar.settle([settlement], wait=wait, wait_ms=wait_ms)

    def nack(self, delay_ms: int = 0) -> dict:
        """Gives all of it back, to come again not before `delay_ms`."""
        return self.settle_all("retry", delay_ms)

    def extend(self, delay_ms: int) -> dict:
        """Moves the ack deadline of all of it to `delay_ms` from now."""
        return self.settle_all("extend", delay_ms)

    def settle_all(self, outcome: str, delay_ms: int) -> dict:
        if not self.records:
            return dict(NOTHING_SETTLED)
        return self.sidecar.settle([{"batch_id": self.batch_id, "outcome": outcome, "delay_ms": delay_ms}])


class _Connection(http.client.HTTPConnection):
    """HTTP to an address or to a Unix socket."""

    def __init__(self, host, port, path, timeout):
        super().__init__(host, port, timeout=timeout)
        self.path = path

    def connect(self):
        if self.path is None:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Sidecar:
    """The local API. `url` is http://HOST:PORT or unix:/PATH, by default what KINESIS_SIDECAR_URL says; `token` a text, or a
    function that returns it, for one that changes, by default what is in the file KINESIS_SIDECAR_TOKEN_FILE;
    `subscription` is needed where the sidecar has several. Several threads may use it; one request goes at a time, and a long poll is a request: a thread that pulls wants a Sidecar of its own."""

    def __init__(self, url: str | None = None, token: str | Callable[[], str] | None = None,
                 subscription: str | None = None):
        url = url or os.environ.get("KINESIS_SIDECAR_URL") or DEFAULT_URL
        self.token = token or token_of_environment
        self.subscription = {} if subscription is None else {"subscription": subscription}
        self.lock = threading.Lock()
        self.connection: _Connection | None = None
        self.host, self.port = "localhost", 80
        self.path: str | None = None
        if url.startswith("unix:"):
            self.path = url[len("unix:"):]
        else:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme != "http" or not parts.hostname:
                raise ValueError(f"not http://HOST:PORT or unix:/PATH: {url}")
            self.host, self.port = parts.hostname, parts.port or 80

    def stream(self, **options: Any) -> Stream:
        """Opens nothing yet: the connection is made by the first record asked for. Options: see Stream."""
        return Stream(self, **options)

    def pull(self, max_records: int = 100, wait_ms: int = 10000, session: str | None = None,
             max_bytes: int | None = None) -> Batch:
        """Waits up to `wait_ms` for records and returns a Batch, which may be empty."""
        query: dict[str, Any] = {"max_records": max_records, "wait_ms": wait_ms}
        if session is not None:
            query["session"] = session
        if max_bytes is not None:
            query["max_bytes"] = max_bytes
        answer = self.request("GET", self.with_query("/v1/records", query), seconds=wait_ms / 1000 + 10)
        return Batch(self, answer)

    def settle(self, settlements: Sequence[dict], wait: str = "recorded", wait_ms: int | None = None) -> dict:
        """Settles deliveries. With wait="persisted" it returns when the lease table holds a checkpoint that covers them,
        or after `wait_ms` with "persisted": false."""
        body: dict[str, Any] = {"settlements": settlements, "wait": wait}
        if wait_ms is not None:
            body["wait_ms"] = wait_ms
        return self.request("POST", "/v1/records/settle", body, patience(wait, wait_ms))

    def checkpoint(self, record: Record, wait: str = "recorded", wait_ms: int | None = None) -> dict:
        """Acknowledges everything of the record's shard that was delivered up to it, as a checkpoint of the KCL does; `wait`
        as for `settle`. A record that is `redriven` stands beside its shard: it wants an ack of its own."""
        body: dict[str, Any] = {"shard_id": record.shard_id, "epoch": record.epoch, "wait": wait,
                                "sequence_number": record.sequence_number,
                                "sub_sequence_number": record.sub_sequence_number}
        if wait_ms is not None:
            body["wait_ms"] = wait_ms
        return self.request("POST", self.with_query("/v1/checkpoint"), body, patience(wait, wait_ms))

    def put(self, records: Iterable[tuple[str, bytes]]) -> dict:
        """Puts (partition key, bytes) pairs into the local stream; only where the source is a local one."""
        entries = [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in records]
        return self.request("POST", self.with_query("/v1/local/records"), {"Records": entries}, 30)

    def status(self) -> dict:
        return self.request("GET", self.with_query("/v1/status"))

    def shards(self) -> list[dict]:
        return self.request("GET", self.with_query("/v1/shards"))["shards"]

    def with_query(self, path: str, query: dict[str, Any] | None = None) -> str:
        """The path with what it asks for, and the subscription."""
        query = dict(self.subscription, **(query or {}))
        return path + ("?" + urllib.parse.urlencode(query) if query else "")

    def request(self, method: str, path: str, body: Any = None, seconds: float = CONNECT_SECONDS) -> Any:
        """One request and its JSON answer. A connection may have been closed while it lay idle: then it is opened again and
        the request is sent once more, for all of them may be repeated. A put may not, so it gets a new connection."""
        data = None if body is None else json.dumps(body).encode()
        with self.lock:
            if path.startswith("/v1/local/"):
                self.drop_connection()
            kept = self.connection is not None
            try:
                return self.exchange(method, path, data, seconds)
            except socket.timeout:
                raise
            except (OSError, http.client.HTTPException):
                if not kept:
                    raise
            return self.exchange(method, path, data, seconds)

    def exchange(self, method, path, data, seconds):
        headers = self.headers()
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            if self.connection is None:
                self.connection = self.connect(seconds)
            self.connection.sock.settimeout(seconds)
            self.connection.request(method, path, data, headers)
            response = self.connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self.drop_connection()
            raise
        if response.will_close:
            self.drop_connection()
        if response.status >= 400:
            raise refusal(response, content)
        return json.loads(content) if content else {}

    def headers(self):
        token = self.token() if callable(self.token) else self.token
        return {"Authorization": "Bearer " + token.strip()} if token else {}

    def connect(self, seconds):
        connection = _Connection(self.host, self.port, self.path, seconds)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def drop_connection(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close(self) -> None:
        with self.lock:
            self.drop_connection()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def token_of_environment():
    """Read each time: it may change."""
    path = os.environ.get("KINESIS_SIDECAR_TOKEN_FILE")
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def patience(wait, wait_ms):
    """How long an answer may take that waits for the lease table, or does not."""
    return CONNECT_SECONDS if wait == "recorded" else (10000 if wait_ms is None else wait_ms) / 1000 + 10


def refusal(response, content):
    """The error body of the API as an exception; any other body, too."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    try:
        retry_after = float(response.headers.get("Retry-After", ""))
    except ValueError:
        retry_after = None
    return SidecarError(response.status, problem, retry_after)


class Stream:
    """Records as they come: an endless iterator that keeps its connection up.

    client_id            names this consumer; keep it, and a reconnect takes its own session over. Made up if not given.
    max_in_flight        records handed out and not yet settled, at most
    max_in_flight_bytes  the same in bytes
    ack_deadline_ms      a record not settled by then comes again
    heartbeat_ms         how often the sidecar says that it is there; three missed ones, and we reconnect
    shards               only these shard ids
    ordering, lanes      what stays in order: "shard", "key" (in so many lanes a shard) or "none"
    reconnect            False: iteration ends with the connection
    on_event             called with each control line (a dict with "type"), for logs
    on_failed            called with each settlement that was refused ({"ack_id", "reason", "message"}), from any thread;
                         `ack_id` is the batch_id where a whole batch was acknowledged

    `ack`, `nack` and `extend` only make a note, from any thread. Notes go out in groups: when there are many, or half of what
    the session allows, with `flush` and `close`, and by a thread of ours before they are old, whatever the app does
    meanwhile. A batch whose records were all acknowledged goes out as one. Nothing is extended by itself: what is handed out
    and waits for its turn has a deadline, too.
    """

    def __init__(self, sidecar: Sidecar, client_id: str | None = None, max_in_flight: int | None = None,
                 max_in_flight_bytes: int | None = None, ack_deadline_ms: int | None = None,
                 heartbeat_ms: int | None = None, shards: Sequence[str] | None = None, reconnect: bool = True,
                 on_event: Callable[[dict], Any] | None = None, on_failed: Callable[[dict], Any] | None = None,
                 ordering: str | None = None, lanes: int | None = None):
        self.sidecar = sidecar
        self.client_id = client_id or "py-" + uuid.uuid4().hex[:16]
        self.query: dict[str, Any] = {"client_id": self.client_id}
        for name, value in (("max_in_flight", max_in_flight), ("max_in_flight_bytes", max_in_flight_bytes),
                            ("ack_deadline_ms", ack_deadline_ms), ("heartbeat_ms", heartbeat_ms),
                            ("shards", ",".join(shards) if shards else None), ("ordering", ordering), ("lanes", lanes)):
            if value is not None:
                self.query[name] = value
        self.reconnect = reconnect
        self.on_event = on_event
        self.on_failed = on_failed
        self.session: str | None = None  # As the sidecar calls it; None while there is none.
        self.generation = 0     # Of the session: its records cannot be settled in the next one.
        self.in_flight = 0      # As the last heartbeat said.
        self.idle_reason = ""   # Likewise: why nothing comes.
        self.stale = 0          # Settlements dropped because their session was over: those records come again.
        self.failed = 0         # Settlements refused one by one.
        self.pending: list[dict] = []  # Notes not yet sent, but for acks.
        self.groups: dict[_Group, None] = {}  # Those that have acks which were not sent yet.
        self.group: _Group | None = None  # Of the last record.
        self.unsent = 0         # Acks in groups, and their bytes.
        self.unsent_bytes = 0
        self.room, self.room_bytes = 1000, 16 << 20  # As the session says.
        self.highest: dict[str, tuple] = {}  # Shard -> its furthest ack since the last flush that waited for the table.
        self.notes = threading.Lock()
        self.sending = threading.RLock()
        self.sender: threading.Thread | None = None  # Sends notes; begins with the first one.
        self.noted = threading.Event()
        self.kept = False       # The last notes could not be sent.
        self.trouble: Exception | None = None  # What the sender cannot handle: the iterator raises it.
        self.lines: list[bytes] = []  # Whole lines received and not yet looked at, the next one last.
        self.rest = bytearray()  # The beginning of a line.
        self.connection: _Connection | None = None
        self.response: http.client.HTTPResponse | None = None
        self.socket: socket.socket | None = None
        self.retries = 0
        self.closed = False     # The iteration is over.
        self.ended = False      # So is all the rest.

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Record:
        while not self.closed:
            if self.trouble is not None:
                trouble, self.trouble = self.trouble, None
                raise trouble
            if self.lines:
                record = self.look_at(self.lines.pop())
                if record is not None:
                    return record
                continue
            try:
                # The thread of ours sends them before they are old; what the session allows must not run out before.
                if self.unsent * 2 >= self.room or self.unsent_bytes * 2 >= self.room_bytes:
                    self.flush(quiet=True)
                if self.response is None:
                    self.open()
                self.receive()
            except (OSError, http.client.HTTPException, ValueError) as err:
                self.lost(err, None)
            except SidecarError as err:
                if err.status not in WORTH_RETRYING:
                    raise
                self.lost(err, err.retry_after)
        raise StopIteration

    # --- Settling ---

    def ack(self, record: Record) -> None:
        """Done with it."""
        group = record.group
        with self.notes:
            if group is None or group.generation != self.generation:
                self.stale += 1
                return
            if record.done:
                return
            record.done = True
            if not group.ack_ids:
                group.since = time.monotonic()
                self.groups[group] = None
            group.ack_ids.append(record.ack_id)
            group.acked += 1
            group.bytes += len(record.data)
            self.unsent += 1
            self.unsent_bytes += len(record.data)
            best = self.highest.get(record.shard_id)
            position = (record.epoch,) + order_of(record)
            if best is None or best[0] < position:
                self.highest[record.shard_id] = (position, record.ack_id)
            many = self.unsent % SETTLEMENTS_MOST == 0
            self.begin_sender()
        if not self.noted.is_set():
            self.noted.set()
        if many:
            self.flush(quiet=True)

    def nack(self, record: Record, delay_ms: int = 0, reason: str = "") -> None:
        """Not done: it comes again, not before `delay_ms`, and so do the later ones of its shard."""
        note = {"ack_id": record.ack_id, "outcome": "retry", "delay_ms": delay_ms}
        if reason:
            # One that JSON or the sidecar does not take would take the other notes along.
            note["reason"] = reason[:REASON_MOST].replace("\0", "?").encode("utf-8", "replace").decode()
        self.note(record, note)

    def extend(self, record: Record, delay_ms: int) -> None:
        """Needs longer: the ack deadline is `delay_ms` from now."""
        self.note(record, {"ack_id": record.ack_id, "outcome": "extend", "delay_ms": delay_ms})

    def note(self, record, note):
        with self.notes:
            if record.group is None or record.group.generation != self.generation:
                self.stale += 1
                return
            record.group.mixed = True
            self.pending.append(note)
            many = len(self.pending) % SETTLEMENTS_MOST == 0
            self.begin_sender()
        self.noted.set()
        if many:
            self.flush(quiet=True)

    def begin_sender(self):
        if self.sender is None and not self.ended:
            self.sender = threading.Thread(target=self.send_notes, name="kinesis-sidecar-sender", daemon=True)
            self.sender.start()

    def take_notes(self, all_of_them):
        """What is to be sent now. Acks of a batch of which more may come wait for it, for as long as notes wait."""
        notes, self.pending = self.pending, []
        old = time.monotonic() - NOTES_SECONDS
        for group in list(self.groups):
            if group.whole and not group.mixed and group.acked == group.handed:
                notes.append({"batch_id": group.batch_id, "outcome": "ack"})
            elif all_of_them or group.mixed or group.since <= old:
                notes.extend({"ack_id": ack_id, "outcome": "ack"} for ack_id in group.ack_ids)
            else:
                continue
            self.unsent -= len(group.ack_ids)
            self.unsent_bytes -= group.bytes
            group.ack_ids, group.bytes = [], 0
            del self.groups[group]
        return notes

    def send_notes(self):
        """The sender: what the app works on may take long, and what it is done with has a deadline."""
        while self.noted.wait() and not self.ended:
            time.sleep(AGAIN_SECONDS if self.kept else NOTES_SECONDS)
            self.noted.clear()
            try:
                self.flush(quiet=True, some=True)
            except Exception as err:  # Of the app's on_failed, too.
                self.trouble = err
            if self.kept or self.groups:
                self.noted.set()

    def flush(self, wait: str = "recorded", wait_ms: int | None = None, quiet: bool = False, some: bool = False) -> bool:
        """Sends what was noted. With wait="persisted": returns True when the lease table covers every ack of this
        session, False when that took longer than `wait_ms` (10000), or when one was refused. `quiet`: a sidecar that is
        away is no error; the notes are kept for the next time. `some`: acks may wait for the rest of their batch."""
        with self.sending:
            with self.notes:
                notes = self.take_notes(not some)
                generation = self.generation
                furthest = []
                if wait == "persisted":
                    furthest = [{"ack_id": ack_id, "outcome": "ack"} for _, ack_id in self.highest.values()]
            answer: dict[str, Any] = {"persisted": True}
            self.kept = False
            try:
                while notes or furthest:
                    part, more = notes[:SETTLEMENTS_MOST], notes[SETTLEMENTS_MOST:]
                    last = not more
                    answer = self.send(part + (furthest if last else []), wait if last else "recorded", wait_ms)
                    notes = more
                    if last:
                        break
            except (OSError, http.client.HTTPException, SidecarError) as err:
                self.not_sent(notes, generation, err, quiet)
                return False
            persisted = bool(answer.get("persisted"))
            if furthest:
                # The answer speaks of what was accepted. What was refused is nothing to wait for any more.
                sent = {note["ack_id"] for note in furthest}
                refused = sent & {failure["ack_id"] for failure in answer.get("failed", ())}
                with self.notes:
                    over = sent if persisted else refused
                    self.highest = {shard: best for shard, best in self.highest.items() if best[1] not in over}
                persisted = persisted and not refused
            return persisted

    def send(self, settlements, wait, wait_ms):
        answer = self.sidecar.settle(settlements, wait=wait, wait_ms=wait_ms)
        for failure in answer.get("failed", ()):
            self.failed += 1
            if self.on_failed:
                self.on_failed(failure)
        return answer

    def not_sent(self, notes, generation, err, quiet):
        """A session that is gone takes its notes along: the records come again. Anything else is tried again."""
        refused = isinstance(err, SidecarError) and err.status not in WORTH_RETRYING
        with self.notes:
            if refused or generation != self.generation:
                self.stale += len(notes)
            else:
                self.pending = notes + self.pending
                self.kept = True
        if refused and err.status in SESSION_GONE:
            return
        if refused or not quiet:
            raise err

    # --- The connection ---

    def open(self):
        connection = self.sidecar.connect(CONNECT_SECONDS)
        try:
            # The heartbeat is due at least every 60 s; the first line tells how often it really is.
            self.socket = connection.sock
            headers = dict(self.sidecar.headers(), Accept="application/x-ndjson")
            connection.request("GET", self.sidecar.with_query("/v1/records/stream", self.query), headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise refusal(response, response.read())
        except BaseException:
            connection.close()
            self.socket = None
            raise
        self.connection, self.response = connection, response

    def receive(self):
        """Waits for bytes and cuts them into lines."""
        data = self.response.read1(65536) if self.response is not None else b""
        if not data:
            raise ConnectionError("the sidecar ended the stream")
        self.rest += data
        if b"\n" not in data:
            return
        lines = bytes(self.rest).split(b"\n")
        self.rest = bytearray(lines.pop())
        lines.reverse()
        self.lines = lines

    def look_at(self, line):
        """The record that a line holds, or None for everything else. Lines of kinds that we do not know are no error."""
        if not line.strip():
            return None
        line = json.loads(line)
        kind = line.get("type", "record")
        if kind == "record":
            return Record(line, self.next_group(line.get("batch_id", "")))
        if kind == "session":
            self.opened(line)
        elif kind == "heartbeat":
            self.in_flight = line.get("in_flight", 0)
            self.idle_reason = line.get("idle_reason") or ""
        if self.on_event:
            self.on_event(line)
        if kind == "ended" and line.get("reason") == "taken_over":
            self.session = None
            self.close()
            raise SessionTakenOver(f"another consumer took over the client_id {self.client_id}")
        return None

    def next_group(self, batch_id):
        group = self.group
        if group is None or group.batch_id != batch_id or group.generation != self.generation:
            if group is not None:
                group.whole = True
            group = self.group = _Group(batch_id, self.generation)
        group.handed += 1
        return group

    def opened(self, line):
        """What was noted for an earlier session is void: its records come again in this one."""
        self.session = line.get("session") or self.client_id
        if self.socket is not None:
            self.socket.settimeout(HEARTBEATS_MISSED * line.get("heartbeat_ms", 10000) / 1000 + 1)
        self.retries = 0
        with self.notes:
            self.generation += 1
            self.stale += len(self.pending) + self.unsent
            self.pending, self.groups, self.unsent, self.unsent_bytes = [], {}, 0, 0
            self.highest = {}
            self.room = line.get("max_in_flight") or self.room
            self.room_bytes = line.get("max_in_flight_bytes") or self.room_bytes

    def lost(self, err, retry_after):
        """The connection is gone, or could not be made: waits a little, with jitter, or ends the iteration."""
        self.hang_up()
        if self.closed:
            return
        if not self.reconnect:
            self.closed = True
            return
        pause = min(BACKOFF_FIRST_SECONDS * 2 ** min(self.retries, 10), BACKOFF_MOST_SECONDS)
        pause = max(pause * random.uniform(0.5, 1.0), min(retry_after or 0.0, 30.0))
        self.retries += 1
        if self.on_event:
            self.on_event({"type": "disconnected", "reason": str(err), "retry_in_ms": int(pause * 1000)})
        until = time.monotonic() + pause
        while not self.closed and time.monotonic() < until:
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    def hang_up(self):
        """Closes the connection; whole lines that did arrive are still records, the rest of one is not."""
        response, connection, self.response, self.connection, self.socket = self.response, self.connection, None, None, None
        self.rest = bytearray()
        if response is not None:
            response.close()
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """Ends the iteration, from a signal handler or from another thread; `close` is still to be called."""
        self.closed = True
        sock = self.socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        """Sends what was noted and ends the session, so that what is unsettled goes to another consumer at once."""
        self.closed = self.ended = True
        self.noted.set()
        try:
            self.flush(quiet=True)
            if self.session is not None and not self.kept:
                path = "/v1/sessions/" + urllib.parse.quote(self.session, safe="")
                self.sidecar.request("DELETE", self.sidecar.with_query(path))
        except (OSError, http.client.HTTPException, SidecarError):
            # A sidecar that is away, or a session that is over, has nothing to be told: the records come again.
            pass
        self.session = None
        self.hang_up()
        self.sidecar.close()  # Its connection is kept for the next request; it makes another one if there is any.

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
