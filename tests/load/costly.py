# SPDX-License-Identifier: Apache-2.0
"""Clients that cost much for what they say. Each is a function of the ports (local, ops), the process, the instant at which it
ends, and the sum of the bytes that it sent."""

import base64
import contextlib
import gzip
import http.client
import json
import os
import select
import socket
import struct
import time

from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
                   block, frame, line)

KIB, MIB = 1 << 10, 1 << 20
WINDOW_OF_NONE = struct.pack(">HI", 4, 0)
INDEXED = b"\xbe"  # One byte that is the line of the table that was kept last.
JSON = b"Content-Type: application/json\r\n"
FOREIGN_ID = b"AQAAMDkAAAAAAAABAAAAAAAAAAABAAAAAAABAAAAAAAAmSYuovlbnWA"  # An ack_id that another run of the sidecar gave out.


def connect(port, first=b""):
    link = socket.create_connection(("127.0.0.1", port), timeout=10)
    link.sendall(first)
    return link


class Crowd:
    """Connections that send what there is to send when their sockets take it, and throw away what comes."""

    def __init__(self, port, count, opening, sent, reads=True):
        self.port, self.opening, self.sent, self.reads = port, opening, sent, reads
        self.links = [self.new() for _ in range(count)]

    def new(self):
        link = connect(self.port, self.opening)
        link.setblocking(False)
        with self.sent.get_lock():
            self.sent.value += len(self.opening)
        return link

    def say(self, piece, end, pause=0.0):
        """`piece(connection, round)` is sent again and again, until `end`; a connection that was closed is opened anew."""
        rounds = [0] * len(self.links)
        rest = [b""] * len(self.links)
        while time.monotonic() < end:
            for at, link in enumerate(self.links):
                try:
                    if self.reads:
                        with contextlib.suppress(BlockingIOError):
                            if not link.recv(MIB):
                                raise ConnectionError
                    if not rest[at]:
                        rest[at] = piece(at, rounds[at])
                        rounds[at] += 1
                    with contextlib.suppress(BlockingIOError):
                        size = link.send(rest[at])
                        rest[at] = rest[at][size:]
                        with self.sent.get_lock():
                            self.sent.value += size
                except OSError:
                    link.close()
                    rounds[at], rest[at] = 0, b""
                    with contextlib.suppress(OSError):
                        self.links[at] = self.new()
            time.sleep(pause or 0.0005)
        for link in self.links:
            link.close()

    def wait(self, end):
        """Nothing more is said."""
        while time.monotonic() < end:
            if self.reads:
                for link in select.select(self.links[:500], [], [], 0.1)[0]:
                    with contextlib.suppress(OSError):
                        link.recv(MIB)
            else:
                time.sleep(0.1)
        for link in self.links:
            link.close()


OPENING = PREFACE + frame(SETTINGS)


def stream_of(rounds):
    return 2 * rounds + 1


def header_block(path, rounds):
    first = block(path) + (line("x", "a" * 4000, kept=True) if rounds == 0 else b"")
    parts = [first + INDEXED * (16 * KIB - len(first))] + [INDEXED * 16 * KIB] * 4
    out = frame(HEADERS, END_STREAM, stream_of(rounds), parts[0])
    for left, part in zip(range(3, -1, -1), parts[1:]):
        out += frame(CONTINUATION, 0 if left else END_HEADERS, stream_of(rounds), part)
    return out


def hpack(ports, _, end, sent):
    """Header lines of one byte that are 4,000."""
    Crowd(ports[0], 8, OPENING, sent).say(lambda at, rounds: header_block("/v1/status", rounds), end)


def hpack_ops(ports, _, end, sent):
    """The same at the ops port."""
    Crowd(ports[1], 8, OPENING, sent).say(lambda at, rounds: header_block("/livez", rounds), end)


def heads(ports, _, end, sent):
    """Heads of 12 KB that are seven bytes each."""
    first = b"".join(line(name, value, kept=True) for name, value in (
        (":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/v1/none"), ("x", "a" * 3500)))

    def piece(_, rounds):
        if rounds == 0:
            return frame(HEADERS, END_HEADERS | END_STREAM, 1, first)
        return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream_of(100 * rounds + at), b"\xc2\xc1\xc0\xbf" + INDEXED * 3)
                        for at in range(100))
    Crowd(ports[0], 8, OPENING, sent).say(piece, end)


def waiting_heads(ports, _, end, sent):
    """Thousands of requests that have no end."""
    requests = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream_of(at), block("/v1/events", x="a" * 3000)) for at in range(250))
    Crowd(ports[0], 30, PREFACE + frame(SETTINGS, payload=WINDOW_OF_NONE) + requests, sent).wait(end)


def bodies(ports, _, end, sent):
    """Puts of 16 MiB of which the last byte never comes."""
    head = b"POST /v1/local/records HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: 16777216\r\n\r\n"
    Crowd(ports[0], 30, head, sent).say(lambda at, rounds: b" " * 64 * KIB if rounds < 255 else b"", end, 0.01)


def answers(ports, _, end, sent):
    """Long answers that nobody takes."""
    requests = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream_of(at), block("/v1/dead-letters")) for at in range(40))
    Crowd(ports[0], 8, PREFACE + frame(SETTINGS, payload=WINDOW_OF_NONE) + requests, sent).wait(end)


def packed(ports, _, end, sent):
    """A kilobyte that unpacks to a megabyte."""
    body = gzip.compress(b"{" + b" " * (MIB - 64) + b"}")

    def piece(_, rounds):
        return frame(HEADERS, END_HEADERS, stream_of(rounds),
                     block("/kinesis_sidecar.v1.Consumer/Settle", "POST", content_type="application/json", content_encoding="gzip")) + \
            frame(DATA, END_STREAM, stream_of(rounds), body)
    Crowd(ports[0], 8, OPENING, sent).say(piece, end)


def json_of(body):
    def client(ports, _, end, sent):
        request = b"POST /v1/records/settle HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
        Crowd(ports[0], 4, b"", sent).say(lambda at, rounds: request, end)
    return client


def connections(ports, _, end, sent):
    """Ten thousand that are idle."""
    Crowd(ports[0], 10000, b"GET", sent, reads=False).wait(end)


def slow_readers(ports, _, end, sent):
    """They ask, and take a little now and then."""
    crowd = Crowd(ports[0], 100, b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50, sent, reads=False)
    while time.monotonic() < end:
        for link in crowd.links:
            with contextlib.suppress(OSError):
                link.recv(100)
        time.sleep(0.2)


def slow_writers(ports, _, end, sent):
    """A byte of a body now and then."""
    head = b"POST /v1/records/ack HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: 100000\r\n\r\n"
    Crowd(ports[0], 500, head, sent).say(lambda at, rounds: b" ", end, 0.05)


def flood(unit, first=b"", reads=True):
    def client(ports, _, end, sent):
        Crowd(ports[0], 4, OPENING + first, sent, reads).say(lambda at, rounds: unit * (64 * KIB // len(unit)), end)
    return client


def resets(ports, _, end, sent):
    """Requests that are taken back at once."""
    def piece(_, rounds):
        return b"".join(frame(HEADERS, END_HEADERS, stream_of(50 * rounds + at), block("/v1/records/ack", "POST")) +
                        frame(RST_STREAM, 0, stream_of(50 * rounds + at), struct.pack(">I", 8)) for at in range(50))
    Crowd(ports[0], 4, OPENING, sent).say(piece, end)


def cancelled(ports, _, end, sent):
    """Streams that are cancelled while they are answered, no more often than may be."""
    def piece(_, rounds):
        return frame(HEADERS, END_HEADERS | END_STREAM, stream_of(rounds), block("/v1/events")) + \
            (frame(RST_STREAM, 0, stream_of(rounds - 1), struct.pack(">I", 8)) if rounds else b"")
    Crowd(ports[0], 8, OPENING, sent).say(piece, end, 0.02)


def sessions(ports, _, end, sent):
    """A thousand names of sessions that want one shard, and never ask for its records."""
    connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=10)
    number = 0
    while time.monotonic() < end:
        connection.request("POST", "/kinesis_sidecar.v1.Consumer/OpenSession", json.dumps({"clientId": f"costly-{number % 1000}", "shards": ["shardId-000000000000"]}),
                           {"Content-Type": "application/json"})
        connection.getresponse().read()
        number += 1
        with sent.get_lock():
            sent.value += 200
    for at in range(min(number, 1000)):
        connection.request("DELETE", f"/v1/sessions/costly-{at}")
        connection.getresponse().read()


def queries(ports, _, end, sent):
    """Query strings of 8 KB."""
    query = "&".join(f"ack_id={'%41' * 20}" for _ in range(110))
    request = f"POST /v1/records/ack?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
    Crowd(ports[0], 8, b"", sent).say(lambda at, rounds: request * 4, end)


def small_bodies(ports, _, end, sent):
    """Settlements of one item, as many as there can be."""
    body = b'{"settlements":[{"ack_id":"nobody","outcome":"ack"}]}'
    request = b"POST /v1/records/settle HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    Crowd(ports[0], 8, b"", sent).say(lambda at, rounds: request * 50, end)


def half_closed(ports, _, end, sent):
    """They ask, close their side, and take nothing."""
    links = []
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            links.append(connect(ports[0], b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            links[-1].shutdown(socket.SHUT_WR)
            with sent.get_lock():
                sent.value += 60
        if len(links) > 1000:
            links.pop(0).close()


CLIENTS = {
    "hpack": hpack,
    "hpack_ops": hpack_ops,
    "heads": heads,
    "waiting_heads": waiting_heads,
    "bodies": bodies,
    "answers": answers,
    "packed": packed,
    "json_wide": json_of(b"{" + b",".join(b'"k%d":0' % at for at in range(80000)) + b"}"),
    "json_deep": json_of(b'{"x":' + b"[" * 2000 + b"]" * 2000 + b" " * (MIB - 5000) + b"}"),
    "json_items": json_of(b'{"settlements":[' + b",".join([b'{"ack_id":"%s","outcome":"ack"}' % FOREIGN_ID] * 9900) + b"]}"),
    "connections": connections,
    "slow_readers": slow_readers,
    "slow_writers": slow_writers,
    "windows": flood(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))),
    "pings": flood(frame(PING, 0, 0, b"12345678")),
    "settings": flood(frame(SETTINGS, payload=struct.pack(">HI", 4, 0)) + frame(SETTINGS, payload=struct.pack(">HI", 4, 65535))),
    "empty_data": flood(frame(DATA, 0, 1), frame(HEADERS, END_HEADERS, 1, block("/v1/records/ack", "POST"))),
    "resets": resets,
    "cancelled": cancelled,
    "sessions": sessions,
    "queries": queries,
    "small_bodies": small_bodies,
    "half_closed": half_closed,
}


def write_letters(port, count):
    """So many dead letters of 900 KB."""
    stream = connect(port, b"GET /v1/records/stream?max_in_flight_bytes=67108864&max_message_bytes=4194304 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    ids, rest, file = [], b"", stream.makefile("rb")
    while file.readline() not in (b"\r\n", b""):
        pass
    for at in range(count):
        connection.request("POST", "/v1/local/records", json.dumps({"Records": [
            {"Data": base64.b64encode(os.urandom(900 * KIB)).decode(), "PartitionKey": f"k{at}"}]}), {"Content-Type": "application/json"})
        connection.getresponse().read()
    while len(ids) < count:
        size = int(file.readline(), 16)
        rest += file.read(size + 2)[:-2]
        *lines, rest = rest.split(b"\n")
        ids += [event["ack_id"] for event in map(json.loads, lines) if event["type"] == "record"]
    connection.request("POST", "/v1/records/settle", json.dumps(
        {"settlements": [{"ack_id": ack_id, "outcome": "dead_letter"} for ack_id in ids]}), {"Content-Type": "application/json"})
    connection.getresponse().read()
    stream.close()
    time.sleep(1)
