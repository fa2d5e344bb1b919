# SPDX-License-Identifier: Apache-2.0
"""A small client for kinesis-sidecar: Python 3.8 or newer, standard library only, one file to copy.

    with Sidecar().stream(client_id="orders") as stream:
        for record in stream:
            handle(record.data)
            stream.ack(record)

The sidecar owns leases and checkpoints; an app only says which records it is done with. Delivery is at least once: a
record that is not acknowledged comes again, to this consumer or to another one.

Two ways to read: `Sidecar.stream` (records are pushed, acks go out in batches, the connection is kept up) and
`Sidecar.pull` (one long poll for each batch, no state here). Sequence numbers are text; compare them with `order_of`.
"""

import base64
import http.client
import json
import random
import socket
import threading
import time
import urllib.parse
import uuid

__all__ = ["Sidecar", "Stream", "Batch", "Record", "SidecarError", "SessionTakenOver", "order_of"]

DEFAULT_URL = "http://127.0.0.1:8990"
CONNECT_SECONDS = 5.0        # A sidecar is on this machine: it answers at once or not at all.
BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MOST_SECONDS = 5.0
SETTLEMENTS_MOST = 1000      # In one request; far below the sidecar's limits on items and bytes.
HEARTBEATS_MISSED = 3        # So many in a row, and the connection counts as dead.
WORTH_RETRYING = frozenset((429, 500, 502, 503, 504))
SESSION_GONE = frozenset((409, 410))


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


class Record:
    """One record. `data` is bytes; `attempt` counts deliveries from 1."""

    __slots__ = ("ack_id", "batch_id", "stream", "shard_id", "epoch", "sequence_number", "sub_sequence_number",
                 "partition_key", "arrived_at", "attempt", "aggregated", "data", "generation")

    def __init__(self, line, generation=0):
        self.ack_id = line["ack_id"]
        self.batch_id = line.get("batch_id", "")
        self.stream = line.get("stream", "")
        self.shard_id = line["shard_id"]
        self.epoch = line["epoch"]
        self.sequence_number = line["sequence_number"]
        self.sub_sequence_number = line.get("sub_sequence_number", 0)
        self.partition_key = line.get("partition_key", "")
        self.arrived_at = line.get("approximate_arrival_timestamp")
        self.attempt = line.get("attempt", 1)
        self.aggregated = bool(line.get("aggregated"))
        self.data = base64.b64decode(line["data"])
        self.generation = generation

    def __repr__(self):
        return f"<Record {self.shard_id} {self.sequence_number} attempt {self.attempt}>"


def order_of(record):
    """A key that sorts the records of one shard in the order of the shard."""
    return int(record.sequence_number), record.sub_sequence_number


class Batch:
    """What one pull brought; settled as a whole. Empty when there was nothing: then `idle_reason` says why."""

    def __init__(self, sidecar, answer):
        self.sidecar = sidecar
        self.batch_id = answer["batch_id"]
        self.session = answer["session"]
        self.idle_reason = answer["idle_reason"]
        self.records = [Record(line) for line in answer["records"]]

    def __iter__(self):
        return iter(self.records)

    def __len__(self):
        return len(self.records)

    def ack(self, failed=(), wait="recorded", wait_ms=None):
        """Acknowledges all but the records in `failed`, which come again. Returns the sidecar's answer."""
        if not self.records:
            return {"ok": 0, "failed": [], "persisted": True, "positions": []}
        settlement = {"batch_id": self.batch_id, "outcome": "ack"}
        if failed:
            settlement["failed_ack_ids"] = [record.ack_id for record in failed]
        return self.sidecar.settle([settlement], wait=wait, wait_ms=wait_ms)

    def nack(self, delay_ms=0):
        """Gives all of it back, to come again not before `delay_ms`."""
        return self.sidecar.settle([{"batch_id": self.batch_id, "outcome": "retry", "delay_ms": delay_ms}])

    def extend(self, delay_ms):
        """Moves the ack deadline of all of it to `delay_ms` from now."""
        return self.sidecar.settle([{"batch_id": self.batch_id, "outcome": "extend", "delay_ms": delay_ms}])


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
    """The local API. `url` is http://HOST:PORT or unix:/PATH. Several threads may use it; one request goes at a time, and
    a long poll is a request: a thread that pulls wants a Sidecar of its own."""

    def __init__(self, url=DEFAULT_URL, token=None):
        self.token = token
        self.lock = threading.Lock()
        self.connection = None
        if url.startswith("unix:"):
            self.host, self.port, self.path = "localhost", None, url[len("unix:"):]
        else:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme != "http" or not parts.hostname:
                raise ValueError(f"not http://HOST:PORT or unix:/PATH: {url}")
            self.host, self.port, self.path = parts.hostname, parts.port or 80, None

    def stream(self, **options):
        """Opens nothing yet: the connection is made by the first record asked for. Options: see Stream."""
        return Stream(self, **options)

    def pull(self, max_records=100, wait_ms=10000, session=None, max_bytes=None):
        """Waits up to `wait_ms` for records and returns a Batch, which may be empty."""
        query = {"max_records": max_records, "wait_ms": wait_ms}
        if session is not None:
            query["session"] = session
        if max_bytes is not None:
            query["max_bytes"] = max_bytes
        answer = self.request("GET", "/v1/records?" + urllib.parse.urlencode(query), seconds=wait_ms / 1000 + 10)
        return Batch(self, answer)

    def settle(self, settlements, wait="recorded", wait_ms=None):
        """Settles deliveries. With wait="persisted" it returns when the lease table holds a checkpoint that covers them,
        or after `wait_ms` with "persisted": false."""
        body = {"settlements": settlements, "wait": wait}
        if wait_ms is not None:
            body["wait_ms"] = wait_ms
        seconds = CONNECT_SECONDS if wait == "recorded" else (wait_ms if wait_ms is not None else 10000) / 1000 + 10
        return self.request("POST", "/v1/records/settle", body, seconds)

    def put(self, records):
        """Puts (partition key, bytes) pairs into the local stream; only where the source is a local one."""
        entries = [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in records]
        return self.request("POST", "/v1/local/records", {"Records": entries}, 30)

    def status(self):
        return self.request("GET", "/v1/status")

    def shards(self):
        return self.request("GET", "/v1/shards")["shards"]

    def request(self, method, path, body=None, seconds=CONNECT_SECONDS):
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
        return {"Authorization": "Bearer " + self.token} if self.token else {}

    def connect(self, seconds):
        connection = _Connection(self.host, self.port, self.path, seconds)
        connection.connect()
        return connection

    def drop_connection(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close(self):
        with self.lock:
            self.drop_connection()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


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
    reconnect            False: iteration ends with the connection
    on_event             called with each control line (a dict with "type"), for logs
    on_failed            called with each settlement that was refused ({"ack_id", "reason", "message"})

    `ack`, `nack` and `extend` only make a note, from any thread. Notes go out before the iterator waits for more records,
    when there are many, and with `flush` and `close`; an app that takes long over one record calls `flush` itself.
    """

    def __init__(self, sidecar, client_id=None, max_in_flight=None, max_in_flight_bytes=None, ack_deadline_ms=None,
                 heartbeat_ms=None, shards=None, reconnect=True, on_event=None, on_failed=None):
        self.sidecar = sidecar
        self.client_id = client_id or "py-" + uuid.uuid4().hex[:16]
        self.query = {"client_id": self.client_id}
        for name, value in (("max_in_flight", max_in_flight), ("max_in_flight_bytes", max_in_flight_bytes),
                            ("ack_deadline_ms", ack_deadline_ms), ("heartbeat_ms", heartbeat_ms),
                            ("shards", ",".join(shards) if shards else None)):
            if value is not None:
                self.query[name] = value
        self.reconnect = reconnect
        self.on_event = on_event
        self.on_failed = on_failed
        self.session = None     # As the sidecar calls it; None while there is none.
        self.generation = 0     # Of the session: its records cannot be settled in the next one.
        self.in_flight = 0      # As the last heartbeat said.
        self.idle_reason = ""   # Likewise: why nothing comes.
        self.stale = 0          # Settlements dropped because their session was over: those records come again.
        self.failed = 0         # Settlements refused one by one.
        self.pending = []       # Notes not yet sent.
        self.highest = {}       # Shard -> its furthest ack since the last flush that waited for the table.
        self.notes = threading.Lock()
        self.sending = threading.RLock()
        self.lines = []         # Whole lines received and not yet looked at, the next one last.
        self.rest = b""         # The beginning of a line.
        self.connection = None
        self.response = None
        self.socket = None
        self.retries = 0
        self.closed = False

    def __iter__(self):
        return self

    def __next__(self):
        while not self.closed:
            if self.lines:
                record = self.look_at(self.lines.pop())
                if record is not None:
                    return record
                continue
            try:
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

    def ack(self, record):
        """Done with it."""
        self.note(record, {"ack_id": record.ack_id, "outcome": "ack"})

    def nack(self, record, delay_ms=0, reason=""):
        """Not done: it comes again, not before `delay_ms`, and so do the later ones of its shard."""
        note = {"ack_id": record.ack_id, "outcome": "retry", "delay_ms": delay_ms}
        if reason:
            note["reason"] = reason
        self.note(record, note)

    def extend(self, record, delay_ms):
        """Needs longer: the ack deadline is `delay_ms` from now."""
        self.note(record, {"ack_id": record.ack_id, "outcome": "extend", "delay_ms": delay_ms})

    def note(self, record, note):
        with self.notes:
            if record.generation != self.generation:
                self.stale += 1
                return
            self.pending.append(note)
            if note["outcome"] == "ack":
                best = self.highest.get(record.shard_id)
                if best is None or best[0] < (record.epoch,) + order_of(record):
                    self.highest[record.shard_id] = ((record.epoch,) + order_of(record), record.ack_id)
            many = len(self.pending) >= SETTLEMENTS_MOST
        if many:
            self.flush(quiet=True)

    def flush(self, wait="recorded", wait_ms=None, quiet=False):
        """Sends what was noted. With wait="persisted": returns True when the lease table covers every ack of this
        session, False when that took longer than `wait_ms` (10000). `quiet`: a sidecar that is away is no error; the notes
        are kept for the next time."""
        with self.sending:
            with self.notes:
                notes, self.pending = self.pending, []
                generation = self.generation
                furthest = []
                if wait == "persisted":
                    furthest = [{"ack_id": ack_id, "outcome": "ack"} for _, ack_id in self.highest.values()]
            answer = {"persisted": True}
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
            if wait == "persisted" and answer.get("persisted"):
                with self.notes:
                    sent = {note["ack_id"] for note in furthest}
                    self.highest = {shard: best for shard, best in self.highest.items() if best[1] not in sent}
            return bool(answer.get("persisted"))

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
            connection.request("GET", "/v1/records/stream?" + urllib.parse.urlencode(self.query), headers=headers)
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
        data = self.response.read1(65536)
        if not data:
            raise ConnectionError("the sidecar ended the stream")
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        lines.reverse()
        self.lines = lines

    def look_at(self, line):
        """The record that a line holds, or None for everything else. Lines of kinds that we do not know are no error."""
        if not line.strip():
            return None
        line = json.loads(line)
        kind = line.get("type", "record")
        if kind == "record":
            return Record(line, self.generation)
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

    def opened(self, line):
        """What was noted for an earlier session is void: its records come again in this one."""
        self.session = line.get("session") or self.client_id
        self.socket.settimeout(HEARTBEATS_MISSED * line.get("heartbeat_ms", 10000) / 1000 + 1)
        self.retries = 0
        with self.notes:
            self.generation += 1
            self.stale += len(self.pending)
            self.pending = []
            self.highest = {}

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
        self.rest = b""
        if response is not None:
            response.close()
        if connection is not None:
            connection.close()

    def stop(self):
        """Ends the iteration, from a signal handler or from another thread; `close` is still to be called."""
        self.closed = True
        sock = self.socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        """Sends what was noted and ends the session, so that what is unsettled goes to another consumer at once."""
        self.closed = True
        try:
            self.flush(quiet=True)
            if self.session is not None:
                self.sidecar.request("DELETE", "/v1/sessions/" + urllib.parse.quote(self.session, safe=""))
        except (OSError, http.client.HTTPException, SidecarError):
            # A sidecar that is away, or a session that is over, has nothing to be told: the records come again.
            pass
        self.session = None
        self.hang_up()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
