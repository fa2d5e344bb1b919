#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deliveries that are disturbed on their way into a socket: drains and releases in the middle of a batch, large records
that are half-way, readers that stop. The queues of the kernel show which bytes had left the sidecar."""

import http.client
import json
import re
import socket
import struct

from http2 import DATA, END_STREAM, RST_STREAM, WINDOW_UPDATE, Peer, frame
from lib import (PATIENCE, RawStream, Sidecar, check, check_equal, main, numbered, pull_all, test,
                 wait_until)

HEAD = re.compile(rb'"ack_id":"([^"]+)".{1,400}?"shard_id":"([^"]+)".{1,60}?"sequence_number":"(\d+)"'
                  rb'.{1,300}?"attempt":(\d+)')
CONSUMER = "/kinesis_sidecar.v1.Consumer"
# Bytes of one chunk with the head of its HTTP frame: they may wait in the sidecar for the socket.
CHUNK_BYTES = 128 * 1024 + 4096


class SlowStream:
    """The record stream over a socket with a small receive buffer; the test decides how many bytes it reads."""

    def __init__(self, sidecar, query, path="/v1/records/stream", receive_bytes=4096, post=""):
        self.port, self.raw, self.ended = sidecar.port, b"", False
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(20 * PATIENCE)
        self.socket.connect(("127.0.0.1", sidecar.port))
        if post:
            self.socket.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                f"Content-Length: {len(post)}\r\n\r\n{post}".encode())
        else:
            self.socket.sendall(f"GET {path}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def read(self, most=65536):
        """Reads some bytes; false at the end of the stream."""
        got = self.socket.recv(most)
        self.raw += got
        self.ended = not got
        return bool(got)

    def read_bytes(self, count):
        until = len(self.raw) + count
        while len(self.raw) < until and self.read(min(65536, until - len(self.raw))):
            pass

    def read_until(self, fact, every=0):
        """Reads until the fact holds. It is asked after `every` bytes, and when only a heartbeat has come."""
        while not fact():
            before = len(self.raw)
            while True:
                had = len(self.raw)
                check(self.read(), "the stream ended; its last bytes:", self.raw[-200:])
                if len(self.raw) - before >= every or len(self.raw) - had < 512:
                    break

    def body(self):
        """The body as far as it was read, without the heads of its chunks."""
        at = self.raw.find(b"\r\n\r\n") + 4
        body = b""
        while at >= 4:
            head = self.raw.find(b"\r\n", at)
            if head < 0 or int(self.raw[at:head], 16) == 0:
                break
            size = int(self.raw[at:head], 16)
            body += self.raw[head + 2:head + 2 + size]
            at = head + 2 + size + 2
            if at > len(self.raw):
                break
        return body

    def lines(self):
        return [json.loads(line) for line in self.body().split(b"\n")[:-1]]

    def records(self):
        return [line for line in self.lines() if line["type"] == "record"]

    def heads(self):
        """(ack_id, shard, number, attempt) of each record that was begun."""
        return [(one[0].decode(), one[1].decode(), one[2].decode(), int(one[3])) for one in HEAD.findall(self.body())]

    def queued(self):
        """Bytes of this connection that the kernel holds: sent by the sidecar, and not read."""
        mine, total = self.socket.getsockname()[1], 0
        with open("/proc/net/tcp", encoding="ascii") as table:
            for row in table.read().split("\n")[1:-1]:
                local, peer, _, queues = row.split()[1:5]
                ports = int(local.split(":")[1], 16), int(peer.split(":")[1], 16)
                sent, received = (int(word, 16) for word in queues.split(":"))
                total += sent if ports == (self.port, mine) else received if ports == (mine, self.port) else 0
        return total

    def settled_queue(self):
        """queued(), when it has not changed between several looks."""
        seen = []

        def same():
            seen.append(self.queued())
            return len(seen) > 5 and len(set(seen[-5:])) == 1
        wait_until(same, 20, "the queue of the kernel is full", every=0.1)
        return seen[-1]


def key_of(record):
    return record["shard_id"], record["sequence_number"]


def session_of(sidecar, name):
    return next((row for row in sidecar.get("/v1/sessions")["sessions"] if row["client_id"] == name), None)


def letters(sidecar):
    found, token = [], ""
    while True:
        page = sidecar.get("/v1/dead-letters?page_size=1000" + (f"&page_token={token}" if token else ""))
        found += page["dead_letters"]
        token = page["next_page_token"]
        if not token:
            return found


def ack(sidecar, ids):
    answer = sidecar.call("POST", "/v1/records/ack", {"ack_ids": ids})
    check_equal(answer.status, 200, answer)
    return answer.json


def release(sidecar, shard):
    answer = sidecar.call("POST", f"/v1/leases/{shard}/release")
    check_equal(answer.status, 200, answer)


def put_sized(sidecar, count, size, start=0):
    return sidecar.put([(f"key-{number}", b"x" * size) for number in range(start, start + count)])


def wait_held(sidecar, count):
    """Leases are taken for an app: one asks once, and gets nothing."""
    sidecar.get("/v1/records?session=first&max_records=1&wait_ms=0")
    wait_until(lambda: sum(row["state"] == "held" for row in sidecar.get("/v1/shards")["shards"]) == count, 20, "held")
    sidecar.call("DELETE", "/v1/sessions/first")


# --- Drains and releases ---

def drain_in_mid_batch(folder, accept):
    sidecar = Sidecar.local(folder, lease_duration_ms=10000).start()
    put_sized(sidecar, 6000, 1000)
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=20 * PATIENCE)
    connection.request("GET", "/v1/records/stream?client_id=app&heartbeat_ms=200", headers={"Accept": accept})
    read, acked, failed, ids, control = 0, 0, [], [], []
    for line in connection.getresponse():
        if accept == "text/event-stream":
            if not line.startswith(b"data: "):
                continue
            line = line[len(b"data: "):]
        event = json.loads(line)
        if event["type"] == "record":
            read += 1
            ids.append(event["ack_id"])
            if read == 2000:
                sidecar.signal(15)
        else:
            control.append(event)
        if ids and (len(ids) == 20 or event["type"] != "record"):
            answer = ack(sidecar, ids)
            acked, failed, ids = acked + answer["ok"], failed + answer["failed"], []
    check_equal((acked, failed, ids), (read, [], []), "each record that was read is settled")
    check_equal((control[-1]["type"], control[-1]["reason"]), ("ended", "drained"), control[-1])
    check_equal(sidecar.wait(), 0, "status")


@test(seconds=60)
def ndjson_stream_drained_in_mid_batch_loses_no_ack(folder):
    drain_in_mid_batch(folder, "application/x-ndjson")


@test(seconds=60)
def sse_stream_drained_in_mid_batch_loses_no_ack(folder):
    drain_in_mid_batch(folder, "text/event-stream")


@test(seconds=60)
def paused_shards_leave_the_stream_with_what_is_halfway(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    placed = put_sized(sidecar, 4000, 1000)
    stream = SlowStream(sidecar, "client_id=app&max_in_flight=5000&heartbeat_ms=200")
    stream.read_bytes(200000)
    stream.settled_queue()
    check_equal(sidecar.call("POST", "/v1/pause", {"shards": []}).status, 200, "pause")
    stream.read_until(lambda: session_of(sidecar, "app")["assigned"] == 0, every=200000)
    stream.read_until(lambda: len(stream.records()) == session_of(sidecar, "app")["in_flight"], every=200000)
    first = stream.records()
    check(len(first) < len(placed), "the rest waits", len(first))
    answer = ack(sidecar, [record["ack_id"] for record in first])
    check_equal((answer["ok"], answer["failed"]), (len(first), []), "acks while the shards are paused")

    check_equal(sidecar.call("POST", "/v1/resume", {"shards": []}).status, 200, "resume")
    stream.read_until(lambda: len(stream.records()) >= len(placed), every=200000)
    records = stream.records()
    check_equal(sorted(map(key_of, records)), sorted(placed), "each record comes once")
    check_equal({record["attempt"] for record in records}, {1}, "no delivery failed by the pause")
    check("ended" not in {line["type"] for line in stream.lines()}, "the stream lives")
    sidecar.kill()


@test(seconds=60)
def pause_takes_back_what_is_only_assigned_to_a_poll(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    sidecar.get("/v1/records?session=app&wait_ms=0")
    placed = put_sized(sidecar, 4000, 1000)
    wait_until(lambda: sum(row["buffered"] for row in sidecar.get("/v1/shards")["shards"]) == 4000, 20, "all are read")
    poll = SlowStream(sidecar, "max_records=4000&max_bytes=16000000&session=app", path="/v1/records")
    poll.read_until(lambda: poll.heads())
    poll.settled_queue()
    before = session_of(sidecar, "app")["assigned"]
    check_equal(sidecar.call("POST", "/v1/pause", {"shards": []}).status, 200, "pause")
    after = session_of(sidecar, "app")["assigned"]
    check(after < before, "what is only assigned is taken back, what is half-way is not", before, after)

    poll.read_until(lambda: poll.raw.endswith(b"\r\n0\r\n\r\n"))
    answer = json.loads(poll.body())
    check(0 < len(answer["records"]) < len(placed), "the rest was taken back", len(answer["records"]))
    settled = sidecar.call("POST", f"/v1/records/ack?batch_id={answer['batch_id']}").json
    check_equal((settled["ok"], settled["failed"]), (len(answer["records"]), []), "acks while the shards are paused")

    check_equal(sidecar.call("POST", "/v1/resume", {"shards": []}).status, 200, "resume")
    sidecar.call("DELETE", "/v1/sessions/app")
    records = answer["records"] + pull_all(sidecar, len(placed) - len(answer["records"]))
    check_equal(sorted(map(key_of, records)), sorted(placed), "each record comes once")
    check_equal({record["attempt"] for record in records}, {1}, "no delivery failed by the pause")
    sidecar.kill()


@test(seconds=60)
def batch_from_before_a_pause_does_not_settle_what_came_after_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    placed = put_sized(sidecar, 3000, 1000)
    stream = SlowStream(sidecar, "client_id=app&max_in_flight=5000&heartbeat_ms=200")
    stream.read_bytes(200000)
    stream.settled_queue()
    check_equal(sidecar.call("POST", "/v1/pause", {"shards": []}).status, 200, "pause")
    stream.read_until(lambda: session_of(sidecar, "app")["assigned"] == 0, every=200000)
    stream.read_until(lambda: len(stream.records()) == session_of(sidecar, "app")["in_flight"], every=200000)
    first = stream.records()
    check_equal(sidecar.call("POST", "/v1/resume", {"shards": []}).status, 200, "resume")
    stream.read_until(lambda: len(stream.records()) >= len(placed), every=200000)
    later = {record["batch_id"] for record in stream.records()[len(first):]}

    for batch in {record["batch_id"] for record in first} - later:
        answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch}")
        check_equal(answer.status, 200, answer)
    status = session_of(sidecar, "app")
    check_equal(status["in_flight"], len(placed) - len(first), "what the later batches have is in flight")
    check(not {record["batch_id"] for record in first} & later, "no batch is of both")
    sidecar.kill()


@test(seconds=60)
def released_shard_leaves_the_stream_and_the_other_shards_alone(folder):
    sidecar = Sidecar.local(folder, lease_duration_ms=10000).start()
    wait_held(sidecar, 4)
    placed = put_sized(sidecar, 2000, 1000)
    stream = SlowStream(sidecar, "client_id=app&max_in_flight=100000&heartbeat_ms=200")
    stream.read_until(lambda: len(stream.heads()) >= 50)
    shard = stream.heads()[-1][1]
    release(sidecar, shard)

    others = {key for key in placed if key[0] != shard}
    stream.read_until(lambda: others <= {key_of(record) for record in stream.records()})
    records = stream.records()
    mine = [record["ack_id"] for record in records if record["shard_id"] != shard]
    check_equal(len(mine), len(others), "each record of the other shards comes once")
    answer = ack(sidecar, mine)
    check_equal((answer["ok"], answer["failed"]), (len(mine), []), "acks of the other shards")
    check("ended" not in {line["type"] for line in stream.lines()}, "the stream lives")
    sidecar.kill()


# --- Large records that are half-way ---

@test(seconds=60)
def large_record_halfway_at_a_release_is_finished(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000, max_attempts=1).start()
    wait_held(sidecar, 2)
    for start in range(0, 48, 8):
        put_sized(sidecar, 8, 150000, start)
    stream = SlowStream(sidecar, "max_in_flight_bytes=64000000&heartbeat_ms=200", receive_bytes=16384)
    stream.read_until(lambda: len({head[1] for head in stream.heads()}) == 2)
    stream.settled_queue()
    ack_id, shard, number, _ = stream.heads()[-1]
    release(sidecar, shard)

    stream.read_until(lambda: (shard, number) in map(key_of, stream.records()))
    answer = ack(sidecar, [ack_id])
    check_equal((answer["ok"], answer["failed"]), (1, []), "it is settled until the deadline of the hand-over")
    wait_until(lambda: sidecar.get("/v1/shards/" + shard)["state"] != "held", 20, "the lease leaves")
    begun = len(stream.records())
    stream.read_until(lambda: any(record["shard_id"] != shard for record in stream.records()[begun:]))
    check_equal(letters(sidecar), [], "no delivery failed by the release")
    sidecar.kill()


@test(seconds=60)
def record_taken_back_halfway_before_a_release_is_finished(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    for start in range(0, 48, 8):
        put_sized(sidecar, 8, 150000, start)
    stream = SlowStream(sidecar, "client_id=app&max_in_flight_bytes=64000000&heartbeat_ms=200", receive_bytes=16384)
    stream.read_until(lambda: len({head[1] for head in stream.heads()}) == 2 and stream.heads()[-1][1] in {
        record["shard_id"] for record in stream.records()})
    stream.settled_queue()
    _, shard, number, attempt = stream.heads()[-1]
    check((shard, number) not in map(key_of, stream.records()), "half-way")
    ids = [record["ack_id"] for record in stream.records() if record["shard_id"] == shard]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": ids[0], "outcome": "retry", "delay_ms": 60000}]})
    check_equal(answer.json["ok"], 1, answer)
    release(sidecar, shard)

    # Nothing of the shard is in flight any more, and the stream is the session of the other one.
    stream.settled_queue()
    check_equal(sidecar.get("/v1/shards/" + shard)["state"], "returning", "the lease waits for what is half-way")
    stream.read_until(lambda: (shard, number, attempt) in {(*key_of(record), record["attempt"]) for record in stream.records()})
    wait_until(lambda: sidecar.get("/v1/shards/" + shard)["state"] != "held", 20, "the lease leaves")
    begun = len(stream.records())
    stream.read_until(lambda: any(record["shard_id"] != shard for record in stream.records()[begun:]))
    check(session_of(sidecar, "app")["attached"], "the stream lives")
    sidecar.kill()


@test(seconds=60)
def poll_halfway_at_a_release_is_answered_whole_without_the_rest_of_that_shard(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000, max_attempts=1).start()
    wait_held(sidecar, 2)
    sidecar.get("/v1/records?session=p&wait_ms=0")
    for start in range(0, 64, 8):
        put_sized(sidecar, 8, 150000, start)
    wait_until(lambda: sum(row["buffered"] for row in sidecar.get("/v1/shards")["shards"]) == 64, 5, "all are read")
    held = {row["shard_id"]: row["buffered"] for row in sidecar.get("/v1/shards")["shards"]}
    poll = SlowStream(sidecar, "max_records=64&max_bytes=16000000&session=p", path="/v1/records", receive_bytes=16384)
    poll.read_until(lambda: len(poll.heads()) >= 2)
    poll.settled_queue()
    shard = poll.heads()[-1][1]
    row = session_of(sidecar, "p")
    check(0 < row["assigned"] * 150000 <= 1100000, "a part of the answer is assigned, and no more", row)
    release(sidecar, shard)

    poll.read_until(lambda: poll.raw.endswith(b"\r\n0\r\n\r\n"))
    answer = json.loads(poll.body())
    got = [record["shard_id"] for record in answer["records"] if record["epoch"] == 1]
    for name, count in held.items():
        if name == shard:
            check(0 < got.count(name) < count, "the rest of the released shard was taken back", got, held)
        else:
            check_equal(got.count(name), count, "each record of the other shard is in the answer")
    settled = sidecar.call("POST", f"/v1/records/ack?batch_id={answer['batch_id']}").json
    check_equal(settled["failed"], [], "the batch_id settles what is in the answer")
    row = session_of(sidecar, "p")
    check_equal((row["in_flight"], row["assigned"]), (0, 0), row)
    check_equal(letters(sidecar), [], "no delivery failed by the release")
    sidecar.kill()


@test(seconds=60)
def poll_of_a_reader_that_stops_is_assigned_in_parts_under_one_batch_id(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    sidecar.get("/v1/records?session=p&wait_ms=0")
    for start in range(10, 106, 8):
        put_sized(sidecar, 8, 50000, start)
    wait_until(lambda: sidecar.get("/v1/shards")["shards"][0]["buffered"] == 96, 20, "all are read")
    poll = SlowStream(sidecar, "max_records=90&max_bytes=4100000&session=p", path="/v1/records", receive_bytes=16384)
    poll.read_until(lambda: poll.heads())
    poll.settled_queue()
    row = session_of(sidecar, "p")
    check(row["assigned_bytes"] + row["in_flight_bytes"] < 1000000, "assigned to a poll that is not read", row)

    poll.read_until(lambda: poll.raw.endswith(b"\r\n0\r\n\r\n"))
    answer = json.loads(poll.body())
    count = len(answer["records"])
    check_equal(count, 4100000 // 50006, "as many records as max_bytes allows")
    settled = sidecar.call("POST", f"/v1/records/ack?batch_id={answer['batch_id']}").json
    check_equal((settled["ok"], settled["failed"]), (count, []), "one batch_id settles all parts")
    row = session_of(sidecar, "p")
    check_equal((row["in_flight"], row["assigned"]), (0, 0), row)
    sidecar.kill()


@test(seconds=60)
def answer_of_a_pull_is_written_though_other_bytes_of_its_connection_wait(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    keys = "abcdefgh"
    shards = [name for name, _ in sidecar.put([(key, b"x") for key in keys])]
    few, (many, key) = shards[0], next((name, key) for name, key in zip(shards, keys) if name != shards[0])
    for _ in range(30):
        sidecar.put([(key, b"x" * 100000)] * 8)

    peer = Peer(sidecar.port, settings=struct.pack(">HI", 4, (1 << 31) - 1), receive_bytes=4096)
    peer.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", (1 << 31) - (1 << 16) - 1)))
    sidecar.call("POST", f"{CONSUMER}/OpenSession", {"clientId": "p", "shards": [few]})
    peer.ask(1, f"/v1/records/stream?client_id=s&shards={many}&max_in_flight_bytes=64000000")
    wait_until(lambda: (session_of(sidecar, "s") or {"assigned": 0})["assigned"] > 0, 20, "records wait for the socket")
    peer.ask(3, f"{CONSUMER}/Pull", "POST", end=False, content_type="application/json")
    peer.send(frame(DATA, END_STREAM, 3, b'{"session":"p"}'))
    peer.until(lambda: peer.has(DATA, 3, END_STREAM), 20, "the answer")

    # The client stops reading: records of the stream wait behind the answer.
    ids = [record["ackId"] for record in json.loads(peer.body(3))["records"]]
    check(ids and session_of(sidecar, "s")["assigned"] > 0, "both have records", ids)
    check_equal(ack(sidecar, ids)["failed"], [], "the client has got them")
    peer.close()
    sidecar.kill()


@test(seconds=60)
def no_byte_of_a_released_shard_leaves_after_the_deadline_of_the_hand_over(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    for start in range(0, 24, 8):
        put_sized(sidecar, 8, 150000, start)
    stream = SlowStream(sidecar, "max_in_flight_bytes=64000000&heartbeat_ms=200", receive_bytes=16384)
    stream.read_until(lambda: stream.heads())
    stream.settled_queue()
    release(sidecar, "shardId-000000000000")
    wait_until(lambda: sidecar.get("/v1/shards/shardId-000000000000")["state"] not in ("held", "returning"), 30,
               "the deadline passes, and the lease leaves")
    queue, read = stream.settled_queue(), len(stream.raw)
    while stream.read():
        check(len(stream.raw) - read <= queue, "bytes after the deadline", len(stream.raw) - read, queue)
    check(not stream.raw.endswith(b"\r\n0\r\n\r\n"), "the stream is cut in its record")
    sidecar.kill()


@test(seconds=60)
def records_of_a_pull_are_written_when_the_last_byte_is_in_the_socket(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    sidecar.call("POST", f"{CONSUMER}/OpenSession", {"clientId": "p"})
    for start in range(0, 24, 8):
        put_sized(sidecar, 8, 150000, start)
    wait_until(lambda: sidecar.get("/v1/shards")["shards"][0]["buffered"] == 24, 20, "all are read")
    ask = json.dumps({"session": "p", "maxRecords": 20, "maxBytes": "8000000"})
    pull = SlowStream(sidecar, "", path=f"{CONSUMER}/Pull", receive_bytes=16384, post=ask)
    for _ in range(3):
        pull.read_bytes(900000)
        pull.settled_queue()
        row = session_of(sidecar, "p")
        check_equal((row["in_flight"], row["assigned"]), (0, 20), "a client can do nothing with a part of a message")

    pull.read_until(lambda: b'"session":"p"}' in pull.body()[-40:])
    row = session_of(sidecar, "p")
    check_equal((row["in_flight"], row["assigned"]), (20, 0), "all are written")
    ids = [record["ackId"] for record in json.loads(pull.body())["records"]]
    check_equal(ack(sidecar, ids)["ok"], 20, "each is settled")
    sidecar.kill()


@test(seconds=60)
def half_sent_answer_of_a_pull_is_cut_on_http2_after_the_deadline_of_the_hand_over(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    put_sized(sidecar, 4, 150000)
    peer = Peer(sidecar.port)
    sidecar.call("POST", f"{CONSUMER}/OpenSession", {"clientId": "p"})
    peer.ask(1, f"{CONSUMER}/Pull", "POST", end=False, content_type="application/json")
    peer.send(frame(DATA, END_STREAM, 1, b'{"session":"p","waitMs":"10000"}'))
    window = 65535
    peer.until(lambda: len(peer.body(1)) == window, 20, "what the window takes")
    release(sidecar, "shardId-000000000000")
    wait_until(lambda: sidecar.get("/v1/shards/shardId-000000000000")["state"] not in ("held", "returning"), 30,
               "the deadline passes, and the lease leaves")
    wider = struct.pack(">I", 1 << 24)
    peer.send(frame(WINDOW_UPDATE, payload=wider) + frame(WINDOW_UPDATE, 0, 1, wider))
    peer.until(lambda: peer.has(RST_STREAM, 1), 20, "the stream is reset")
    check_equal((len(peer.body(1)), peer.has(DATA, 1, END_STREAM)), (window, False), "bytes after the deadline")
    peer.close()
    sidecar.kill()


@test(seconds=60)
def late_ack_while_the_next_attempt_is_halfway_leaves_the_stream(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000, retry_backoff_ms=0).start()
    wait_held(sidecar, 1)
    put_sized(sidecar, 4, 400000)
    stream = SlowStream(sidecar, "client_id=app&max_in_flight=2&ack_deadline_ms=1500&heartbeat_ms=200", receive_bytes=16384)
    stream.read_until(lambda: any(head[3] == 2 for head in stream.heads()))
    first, second = stream.heads()[0], next(head for head in stream.heads() if head[3] == 2)
    check(second[2] not in {record["sequence_number"] for record in stream.records() if record["attempt"] == 2}, "half-way")
    check_equal(ack(sidecar, [first[0]])["ok"], 1, "a late ack")
    stream.read_until(lambda: any(record["attempt"] == 2 and record["sequence_number"] == second[2]
                                  for record in stream.records()))
    check_equal(ack(sidecar, [second[0]])["ok"], 1, "the ack of the other attempt is no failure")
    third = {record["sequence_number"] for record in stream.records()}
    stream.read_until(lambda: {record["sequence_number"] for record in stream.records()
                               if ack(sidecar, [record["ack_id"]])} - third)
    check(session_of(sidecar, "app")["attached"], "the stream lives")
    sidecar.kill()


@test(seconds=60)
def letter_discarded_while_its_redelivery_is_halfway_leaves_the_stream(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000).start()
    wait_held(sidecar, 1)
    put_sized(sidecar, 1, 900000)
    record = pull_all(sidecar, 1, ack=False)[0]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": record["ack_id"], "outcome": "dead_letter"}], "wait": "persisted"})
    check_equal(answer.json["ok"], 1, answer)
    letter = wait_until(lambda: letters(sidecar), 10, "the dead letter")[0]["id"]
    sidecar.call("DELETE", "/v1/sessions/default")
    check_equal(sidecar.call("POST", f"/v1/dead-letters/{letter}/redrive").status, 200, "redrive")
    stream = SlowStream(sidecar, "client_id=app&heartbeat_ms=200", receive_bytes=16384)
    stream.read_until(lambda: len(stream.heads()) == 1)
    check_equal(sidecar.call("POST", f"/v1/dead-letters/{letter}/discard").status, 200, "discard")
    stream.read_until(lambda: len(stream.records()) == 1)
    sidecar.put(numbered(1))
    stream.read_until(lambda: len(stream.records()) == 2)
    check_equal(letters(sidecar), [], "it is gone")
    sidecar.kill()


# --- Readers that stop ---

@test(seconds=90)
def record_that_was_never_in_the_socket_of_a_stalled_reader_does_not_fail(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000, max_attempts=1).start()
    wait_held(sidecar, 1)
    put_sized(sidecar, 16000, 100)
    stream = SlowStream(sidecar, "client_id=app&ack_deadline_ms=2000&ordering=none&max_in_flight=50000")
    stream.read_bytes(30000)
    queue = stream.settled_queue()
    read = len(stream.raw)
    row = session_of(sidecar, "app")
    check(row["assigned"] > 0 and row["assigned_bytes"] > 0, "what waits for the reader is assigned", row)
    wait_until(lambda: session_of(sidecar, "app")["in_flight"] == 0, 40, "the deadlines of what was written pass")
    dead = wait_until(lambda: letters(sidecar), 20, "their dead letters")
    check_equal((len(stream.raw), stream.settled_queue()), (read, queue), "nothing was written meanwhile")
    stream.read_bytes(queue)
    never = {key_of(letter) for letter in dead} - {key_of(record) for record in stream.records()}
    check_equal(never, set(), "dead letters of what was never in the socket")
    sidecar.kill()


@test(seconds=90)
def recalled_record_is_not_written_to_the_session_that_lost_its_lane(folder):
    sidecar = Sidecar.local(folder, local_shards=1, lease_duration_ms=10000, retry_backoff_ms=0).start()
    wait_held(sidecar, 1)
    # A poll, as more is assigned to it than its socket takes.
    opened = {"clientId": "slow", "ackDeadlineMs": 8000, "maxInFlight": 8000}
    check_equal(sidecar.call("POST", f"{CONSUMER}/OpenSession", opened).status, 200, "open")
    query = "session=slow&max_records=8000&max_bytes=16000000"
    put_sized(sidecar, 8000, 100)
    wait_until(lambda: sidecar.get("/v1/shards")["shards"][0]["buffered"] >= 6000, 20, "most are read")
    slow = SlowStream(sidecar, query, path="/v1/records")
    slow.read_bytes(30000)
    read, queue = len(slow.raw), slow.settled_queue()
    row = session_of(sidecar, "slow")
    check(row["assigned"] > 4000, "most records are only assigned", row)

    fast, got = RawStream(sidecar, "client_id=fast&max_in_flight=200"), []
    while len(got) < 6000:
        batch = fast.records(100)
        check_equal(ack(sidecar, [record["ack_id"] for record in batch])["failed"], [], "the fast one")
        got += batch
    check_equal(len({key_of(record) for record in got}), len(got), "each once")
    taken = {key_of(record) for record in got}
    seen = [(shard, number) for _, shard, number, _ in slow.heads()]
    check(set(seen) & taken, "records that were written to the slow one are redelivered", len(seen))

    slow.read_bytes(queue + CHUNK_BYTES)
    before = len(slow.heads())
    slow.read_until(lambda: slow.raw.endswith(b"\r\n0\r\n\r\n"))
    seen = [(shard, number) for _, shard, number, _ in slow.heads()]
    check_equal(set(seen[before + 1:]) & taken, set(), "written, though another session had settled them before")
    check(len(slow.raw) > read + queue, "it read on")
    check(len(seen) < 8000, "the answer ends without what was taken back", len(seen))
    sidecar.kill()


@test(seconds=90)
def record_of_a_lost_lease_does_not_leave_when_its_reader_reads_on(folder):
    one = Sidecar.local(folder, "one", local_shards=1).start()
    wait_held(one, 1)
    put_sized(one, 16000, 100)
    slow = SlowStream(one, "client_id=slow&max_in_flight=50000&heartbeat_ms=200")
    slow.read_bytes(20000)
    slow.settled_queue()
    two = Sidecar.local(folder, "two", local_shards=1).start()
    got = []
    release(one, "shardId-000000000000")

    def pull():
        batch = two.get("/v1/records?max_records=1000&wait_ms=500")
        if batch["batch_id"]:
            check_equal(two.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}").json["failed"], [], "ack")
        got.extend(batch["records"])
        return len(got) >= 3000
    wait_until(pull, 40, "the other one delivers them")
    queue = slow.settled_queue()
    slow.read_bytes(queue)
    before = len(slow.records())
    beats = len([line for line in slow.lines() if line["type"] == "heartbeat"])
    while slow.read() and len([line for line in slow.lines() if line["type"] == "heartbeat"]) == beats:
        pass
    check_equal(len(slow.records()[before:]), 0, "written after its lease was lost")
    one.kill()
    two.kill()


# --- Settling ---

@test(seconds=40)
def settle_request_with_an_ended_session_is_judged_item_by_item(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    sidecar.put(numbered(40))
    polls = {name: wait_until(lambda: sidecar.get(f"/v1/records?session={name}&max_records=5&wait_ms=1000")["records"], 20,
                              f"records of {name}") for name in "ab"}
    check_equal(sidecar.call("DELETE", "/v1/sessions/b").status, 200, "the end of b")
    ours, other = [record["ack_id"] for record in polls["a"]], polls["b"][0]["ack_id"]

    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": name, "outcome": "ack"} for name in (ours[0], other, ours[1])]})
    check_equal(answer.status, 200, answer)
    check_equal((answer.json["ok"], [(item["ack_id"], item["reason"]) for item in answer.json["failed"]]),
                (2, [(other, "EXPIRED")]), answer)
    row = session_of(sidecar, "a")
    check_equal(row["in_flight"], len(ours) - 2, "what is left of a")
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [{"ack_id": other, "outcome": "ack"}]})
    check_equal(answer.status, 410, "every item is of an ended session")
    sidecar.kill()


@test(seconds=40)
def settle_request_with_a_fenced_session_is_judged_item_by_item(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=10000).start()
    wait_held(sidecar, 2)
    former, other = [RawStream(sidecar, f"client_id={name}&max_in_flight=5") for name in ("former", "other")]
    wait_until(lambda: len(sidecar.get("/v1/sessions")["sessions"]) == 2, 10, "two sessions share the shards")
    sidecar.put(numbered(40))
    fenced, open_id = [stream.records(1)[0]["ack_id"] for stream in (former, other)]
    RawStream(sidecar, "client_id=former").records(1)

    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": name, "outcome": "ack"} for name in (fenced, open_id)]})
    check_equal(answer.status, 200, answer)
    check_equal((answer.json["ok"], [(item["ack_id"], item["reason"]) for item in answer.json["failed"]]),
                (1, [(fenced, "EXPIRED")]), answer)
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [{"ack_id": fenced, "outcome": "ack"}]})
    check_equal(answer.status, 409, "every item is of a fenced session")
    sidecar.kill()


main()
