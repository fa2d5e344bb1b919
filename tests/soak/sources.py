# SPDX-License-Identifier: Apache-2.0
"""The ways in which an app takes records: streams of HTTP and of calls, and polls. All give the same lines, those of NDJSON."""

import base64
import itertools
import json
import os
import queue
import re
import select
import socket
import struct
import sys
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import Failure, check  # noqa: E402
from stub import Stub, grpc  # noqa: E402

PACKAGE = "kinesis_sidecar.v1."
Event = Stub.message  # By its name.

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


class Refused(Exception):
    """An answer that is none: its status and problem."""

    def __init__(self, status, kind, detail):
        super().__init__(f"{status} {kind}: {detail}")
        self.status, self.kind, self.detail = status, kind, detail


class Gone(Exception):
    """The connection broke, or could not be made."""


def refused(status, body):
    try:
        problem = json.loads(body)
        kind = problem.get("type") or problem["code"]
    except (ValueError, KeyError):
        raise Failure(f"an answer {status} without a problem: {body[:300]!r}") from None
    return Refused(status, kind.rsplit(":", 1)[-1], problem.get("detail") or problem.get("message", ""))


def name_of(data):
    """Of `KEY:NUMBER xxx`, which may be a string of JSON."""
    return data[:data.index(b" ")].decode().lstrip('"')


def line_of_json(line):
    """Of REST; `data` is base64 or, with another encoding, text."""
    data = line.pop("data")
    text = line.pop("encoding", None) == "base64" or None
    try:
        line["name"] = name_of(base64.b64decode(data, validate=True))
    except ValueError:
        check(text is None, "not base64:", line)
        line["name"] = name_of(data.encode())
    return line


def line_of_message(record, batch_id=None):
    return {"type": "record", "ack_id": record.ack_id, "batch_id": batch_id or record.batch_id, "shard_id": record.shard_id,
            "epoch": record.epoch, "sequence_number": record.sequence_number, "attempt": record.attempt,
            "redriven": record.redriven, "name": name_of(record.data)}


def lines_of_event(event):
    kind = event.WhichOneof("event")
    if kind == "record":
        return [line_of_message(event.record)]
    if kind == "batch":
        return [line_of_message(record, event.batch.batch_id) for record in event.batch.records]
    part = getattr(event, kind)
    line = {"type": kind, "message": part}
    if kind == "session":
        line.update(session=part.session, boot_id=part.boot_id)
    if kind == "ended":
        line["reason"] = part.reason
    return [line]


class Source:
    """`began`: nothing that comes was written before. `drained`: what was written before has come. `furthest`: of the ledger."""
    polls = False
    private = False  # Other apps do not settle what it was sent.
    slow = False     # Its app does not read all the time.
    numbers = itertools.count()

    def __init__(self, member, options):
        self.member, self.options, self.number = member, options, next(self.numbers)
        self.session = options.get("client_id")
        self.begin_at()
        self.ended = None

    def begin_at(self):
        self.boot = self.member.boot
        self.began = self.drained = time.monotonic()
        self.furthest = {}

    def __repr__(self):
        return f"{type(self).__name__} {self.options}"

    def settle(self, items, persisted):
        """Some have a way of their own; None: there is none."""
        return None


class HttpStream(Source):
    """GET /v1/records/stream over a plain socket, with chunks taken apart here."""
    ACCEPT = "application/x-ndjson"

    def __init__(self, member, options, receive_bytes=0):
        """`receive_bytes`: SO_RCVBUF; 0: as the kernel likes."""
        super().__init__(member, options)
        self.raw = self.rest = b""
        self.left = 0  # Bytes of the chunk that are to come, with its end of line.
        self.last, self.broken = False, None
        query = urllib.parse.urlencode(options)
        try:
            self.socket = socket.socket()
            if receive_bytes:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            self.socket.settimeout(60)
            self.socket.connect(("127.0.0.1", member.sidecar.port))
            self.socket.sendall(f"GET /v1/records/stream?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: {self.ACCEPT}\r\n\r\n"
                                .encode())
            head = self.head()
        except OSError as err:
            raise Gone(repr(err)) from err
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
            while len(self.raw) < size:
                self.more()
            self.socket.close()
            raise refused(status, self.raw)

    def head(self):
        while b"\r\n\r\n" not in self.raw:
            self.more()
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        return head

    def more(self, most=1 << 16):
        data = self.socket.recv(min(most, 1 << 16))
        if not data:
            raise Gone("the connection ended")
        self.raw += data
        return len(data)

    def read(self, seconds):
        now = time.monotonic()
        try:
            if not select.select([self.socket], [], [], seconds)[0]:
                self.drained = now
                return []
            self.more()
        except OSError as err:
            raise Gone(repr(err)) from err
        return self.parse()

    def read_bytes(self, seconds, most):
        """Reads `most` bytes at most, and leaves the others in the kernel. `drained` stays: with a small buffer an empty one
        does not show that all has come."""
        until = time.monotonic() + seconds
        try:
            while self.broken is None and most > 0 and select.select([self.socket], [], [], max(0, until - time.monotonic()))[0]:
                most -= self.more(most)
        except (Gone, OSError) as err:
            self.broken = Gone(repr(err))
        lines = self.parse()
        if self.broken and not lines and not self.ended:
            raise self.broken
        return lines

    def torn(self):
        """The record of which only a part was read: its line without data, and how many bytes of the line. None if there is none,
        or its `ack_id` is not whole."""
        start, data = self.rest.find(b"{"), self.rest.find(b'"data":"')
        if start < 0 or data < 0:
            return None
        return json.loads(self.rest[start:data] + b'"data":""}'), len(self.rest) - start

    def torn_lease(self):
        """(shard, epoch) of that record; () if not so much of it was read; None if there is none."""
        if b'{"type":"record"' not in self.rest:
            return None
        found = re.search(rb'"shard_id":"([^"]*)","epoch":(\d+),', self.rest)
        return (found[1].decode(), int(found[2])) if found else ()

    def parse(self):
        """Takes the chunks apart, also one of which a part is there: an app may have a record before its chunk is whole."""
        while self.raw and self.ended is None:
            if self.left > 2:
                data, self.raw = self.raw[:self.left - 2], self.raw[self.left - 2:]
                self.rest += data
                self.left -= len(data)
            elif self.left > 0:
                left = len(self.raw[:self.left])
                self.raw, self.left = self.raw[left:], self.left - left
            elif b"\r\n" in self.raw:
                size, self.raw = self.raw.split(b"\r\n", 1)
                self.left = int(size, 16) + 2
                if self.left == 2:
                    self.last = True
                    break
            else:
                break
        lines = self.lines()
        if self.last:
            self.ended = self.ended or "end"
        return lines

    def lines(self):
        *lines, self.rest = self.rest.split(b"\n")
        return [self.line(json.loads(line)) for line in lines]

    def line(self, line):
        if line["type"] == "ended":
            self.ended = line["reason"]
        return line_of_json(line) if line["type"] == "record" else line

    def cut(self, rudely):
        if rudely:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class SseStream(HttpStream):
    ACCEPT = "text/event-stream"

    def lines(self):
        *events, self.rest = self.rest.split(b"\n\n")
        lines = []
        for event in events:
            fields = dict(field.split(b": ", 1) for field in event.split(b"\n") if not field.startswith(b":"))
            line = json.loads(fields[b"data"])
            check(line["type"] == fields[b"event"].decode(), "an event of another type:", event[:200])
            lines.append(self.line(line))
        return lines


class ProtobufStream(HttpStream):
    ACCEPT = "application/x-protobuf"

    def lines(self):
        lines = []
        while True:
            size, at, shift = 0, 0, 0
            while at < len(self.rest):
                byte = self.rest[at]
                size, at, shift = size | (byte & 127) << shift, at + 1, shift + 7
                if byte < 128:
                    break
            else:
                return lines
            if len(self.rest) < at + size:
                return lines
            event = Event(PACKAGE + "StreamEvent")
            event.ParseFromString(self.rest[at:at + size])
            self.rest = self.rest[at + size:]
            for line in lines_of_event(event):
                if line["type"] == "ended":
                    self.ended = "ended"
                lines.append(line)


def open_request(options):
    members = dict(options)
    members.pop("encoding", None)
    if "ordering" in members:
        members["ordering"] = {"shard": 1, "key": 2, "none": 3}[members["ordering"]]
    if "shards" in members:
        members["shards"] = members["shards"].split(",")
    return members


def refused_call(err):
    """What a call failed with: by its code, that has no status. Gone, if its connection is."""
    said = err.details() or ""
    if err.code() == grpc.StatusCode.INTERNAL and "RST_STREAM" in said:
        return Gone(said)  # It was cut in a record.
    if err.code() == grpc.StatusCode.CANCELLED or err.code() == grpc.StatusCode.UNAVAILABLE and "draining" not in said:
        return Gone(said)
    return Refused(0, err.code().name.lower(), said)


class Call(Source):
    """A stream of gRPC, read by a thread of its own. A channel of its own, too: a cut is then one of the connection."""

    def __init__(self, member, options):
        super().__init__(member, options)
        self.events, self.failure = queue.Queue(), None
        self.channel = grpc.insecure_channel(member.sidecar.options["listen"], options=(("grpc.use_local_subchannel_pool", 1),))
        self.stub = Stub(self.channel, PACKAGE + "Consumer")
        self.may_read = threading.Event()
        self.may_read.set()
        self.call = self.begin()
        self.reading = threading.Thread(target=self.run, daemon=True)
        self.reading.start()

    def run(self):
        try:
            for event in self.call:
                self.events.put(event)
                self.may_read.wait()
            self.events.put(None)
        except grpc.RpcError as err:
            self.events.put(err)
        except ValueError:
            self.events.put(None)  # The channel was closed.

    def read(self, seconds):
        lines, now = [], time.monotonic()
        if self.failure:
            raise self.failure
        try:
            found = self.events.get(timeout=seconds)
        except queue.Empty:
            self.drained = max(self.drained, now - 1)  # Its threads may be late.
            return lines
        while True:
            if found is None:
                self.ended = self.ended or "end"
            elif isinstance(found, grpc.RpcError):
                self.failure = refused_call(found)
                if lines:
                    return lines  # It comes when they were told.
                raise self.failure
            else:
                lines += self.heard(found)
            try:
                found = self.events.get_nowait()
            except queue.Empty:
                return lines

    def heard(self, event):
        lines = lines_of_event(event)
        if lines and lines[-1]["type"] == "ended":
            self.ended = "ended"
        return lines

    def cut(self, rudely):
        if not rudely:
            self.call.cancel()
        self.channel.close()
        self.may_read.set()
        self.reading.join()


class WatchCall(Call):
    def begin(self):
        return self.stub.Watch(timeout=600, **open_request(self.options))


class StreamCall(Call):
    """Both ways: settles in its stream."""

    def begin(self):
        self.said, self.asked, self.answers = queue.Queue(), 0, {}
        self.say(open=Event(PACKAGE + "OpenRequest", **open_request(self.options)))
        return self.stub.Stream(iter(self.said.get, None), timeout=600)

    def say(self, **members):
        self.asked += 1
        self.said.put(Event(PACKAGE + "StreamRequest", id=self.asked, **members))
        return self.asked

    def heard(self, event):
        if event.WhichOneof("event") == "answer":
            self.answers[event.answer.id] = event.answer
            return []
        return super().heard(event)

    def cut(self, rudely):
        self.said.put(None)
        super().cut(rudely)


class Poll(Source):
    """GET /v1/records, or Pull of Connect and of gRPC; each read is a request."""
    polls = True

    def read(self, seconds):
        self.begin_at()
        query = {"session": self.session, "wait_ms": int(seconds * 1000), "max_records": self.options["max_records"],
                 "encoding": self.options.get("encoding", "base64")}
        answer = self.member.ask("GET", "/v1/records?" + urllib.parse.urlencode(query))
        return self.lines(answer)

    def lines(self, answer):
        self.idle_reason = answer["idle_reason"]
        return [dict(line_of_json(record), batch_id=answer["batch_id"], type="record") for record in answer["records"]]

    def cut(self, rudely):
        """Asks, and does not listen."""
        if rudely:
            try:
                with socket.create_connection(("127.0.0.1", self.member.sidecar.port), timeout=5) as one:
                    one.sendall(f"GET /v1/records?session={self.session}&wait_ms=200 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            except OSError:
                pass


class ConnectPoll(Poll):
    def read(self, seconds):
        self.begin_at()
        answer = self.member.ask("POST", "/" + PACKAGE + "Consumer/Pull",
                                 {"session": self.session, "waitMs": str(int(seconds * 1000)),
                                  "maxRecords": self.options["max_records"]})
        names = {"ackId": "ack_id", "shardId": "shard_id", "sequenceNumber": "sequence_number"}
        records = [{names.get(name, name): value for name, value in record.items()} for record in answer.get("records", [])]
        for record in records:
            record.setdefault("epoch", 0)
        return self.lines({"records": records, "batch_id": answer.get("batchId", ""), "idle_reason": answer.get("idleReason", "")})


class CallPoll(Poll):
    def read(self, seconds):
        self.begin_at()
        try:
            answer = self.member.stub().Pull(timeout=60, session=self.session, wait_ms=int(seconds * 1000),
                                             max_records=self.options["max_records"])
        except grpc.RpcError as err:
            raise refused_call(err) from err
        return [line_of_message(record, answer.batch_id) for record in answer.records]


STREAMS = (HttpStream, SseStream, ProtobufStream, WatchCall, StreamCall)
POLLS = (Poll, ConnectPoll, CallPoll)
