#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The local API at the level of bytes: every route once, and everything that must be refused."""

import base64
import contextlib
import http.client
import json
import os
import socket
import time

from lib import PATIENCE, Sidecar, call, check, check_equal, free_port, main, numbered, pull_all, test, wait_until

PROBLEM = {"type", "title", "status", "detail", "instance", "code", "message", "details", "retryable"}


def raw(port, data, seconds=15):
    """Sends bytes, reads until the other side closes; what came."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds * PATIENCE) as link:
        link.sendall(data)
        answer = b""
        try:
            while part := link.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


def refused(sidecar, status, method, path, body=None, headers=None, says=""):
    answer = sidecar.call(method, path, body, headers)
    check_equal(answer.status, status, method, path, answer)
    if path.startswith("/kinesis_sidecar.v1."):  # Connect wants its own members and no others.
        check_equal(answer.headers["Content-Type"], "application/json", path)
        check_equal(set(answer.json), {"code", "message", "details"}, "members of", path)
        told = answer.json["details"][0]["debug"]
        check_equal(set(told), PROBLEM - {"code", "message", "details"}, "members of", path)
    else:
        check_equal(answer.headers["Content-Type"], "application/problem+json", path)
        check_equal(set(answer.json), PROBLEM, "members of", path)
        told = answer.json
    check_equal(told["status"], status, path)
    check(says in told["detail"], path, repr(says), answer)
    return answer


def put(sidecar, count, size=5, key="k"):
    sidecar.put([(f"{key}-{number}", bytes([number % 256]) * size) for number in range(count)])


def pull(sidecar, count, query="max_records=1000"):
    """Pulls until `count` records came; they stay in flight. [(batch_id, records)]"""
    batches = []

    def more():
        batch = sidecar.get(f"/v1/records?wait_ms=500&{query}")
        if batch["records"]:
            batches.append((batch["batch_id"], batch["records"]))
        return sum(len(records) for _, records in batches) >= count
    wait_until(more, 20, f"{count} records")
    return batches


# --- Every route ---

@test()
def metrics_count_a_record_once_whoever_settles_it_how_often(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(4))
    records = pull_all(sidecar, 4, ack=False)
    ids = [record["ack_id"] for record in records]
    for outcome in ("ack", "ack", "drop"):
        items = [{"ack_id": ack_id, "outcome": outcome} for ack_id in ids[:2]]
        check_equal(sidecar.call("POST", "/v1/records/settle", {"settlements": items}).json["ok"], 2, outcome)
    check_equal((sidecar.metric("records_acked_total"), sidecar.metric("records_dropped_total")), (2, 0), "twice is once")
    answer = sidecar.call("POST", "/v1/checkpoint", {"shard_id": records[3]["shard_id"],
                                                     "sequence_number": records[3]["sequence_number"]})
    check_equal(answer.status, 200, answer)
    check_equal(sidecar.metric("records_acked_total"), 4, "a checkpoint acknowledges")
    sidecar.stop()


@test()
def every_route_answers(folder):
    sidecar = Sidecar.local(folder).start()
    put(sidecar, 20)
    batches = pull(sidecar, 20)
    record = batches[0][1][0]
    check_equal(set(record), {"ack_id", "stream", "shard_id", "epoch", "sequence_number", "sub_sequence_number",
                              "partition_key", "approximate_arrival_timestamp", "attempt", "data"}, "a record")
    check(len(record["ack_id"]) <= 56, "ack_id", record["ack_id"])
    for batch_id, _ in batches:
        answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch_id}&wait=persisted")
        check_equal((answer.json["failed"], answer.json["persisted"]), ([], True), "ack")
    shards = sidecar.get("/v1/shards")["shards"]
    check_equal(len(shards), 4, "shards")
    check_equal(sidecar.get("/v1/shards/" + shards[1]["shard_id"])["shard_id"], shards[1]["shard_id"], "one shard")
    last = {record["shard_id"]: record["sequence_number"] for _, records in batches for record in records}
    for lease in sidecar.get("/v1/leases")["leases"]:
        check_equal(lease["checkpoint"], last.get(lease["shard_id"], "TRIM_HORIZON"), "checkpoint")
        check_equal((lease["owner"], lease["state"], lease["epoch"]), ("sidecar", "held", 1), "a lease")
    check_equal([worker["self"] for worker in sidecar.get("/v1/workers")["workers"]], [True], "workers")
    check_equal([session["session"] for session in sidecar.get("/v1/sessions")["sessions"]], ["default"], "sessions")
    status = sidecar.get("/v1/status")
    check_equal((status["state"], status["ready"], status["reasons"]), ("active", True, []), "status")
    check_equal({option["name"]: option["source"] for option in sidecar.get("/v1/config")["options"]}["stream"], "flag",
                "config")
    check_equal(sidecar.call("DELETE", "/v1/sessions/default").status, 200, "close a session")
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "sessions")
    for path in ("/livez", "/readyz", "/readyz?verbose", "/startupz", "/metrics"):
        check_equal(sidecar.ops(path).status, 200, path)
    check_equal(sidecar.metric("records_acked_total"), 20, "acked")
    sidecar.stop()


@test()
def checkpoints_are_cumulative(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    put(sidecar, 10)
    records = [record for _, batch in pull(sidecar, 10) for record in batch]
    at = records[6]
    answer = sidecar.call("POST", "/v1/checkpoint", {"shard_id": at["shard_id"], "wait": "persisted",
                                                     "sequence_number": at["sequence_number"]})
    check_equal(answer.json["positions"][0]["checkpoint"], at["sequence_number"], "checkpoint")
    check_equal(sidecar.get("/v1/shards/" + at["shard_id"])["in_flight"], 3, "in flight")
    refused(sidecar, 400, "POST", "/v1/checkpoint")
    refused(sidecar, 400, "POST", "/v1/checkpoint", {"shard_id": at["shard_id"], "sequence_number": "9" * 56})
    refused(sidecar, 404, "POST", "/v1/checkpoint", {"shard_id": "shardId-x", "sequence_number": "123"})
    refused(sidecar, 409, "POST", "/v1/checkpoint", {"shard_id": at["shard_id"], "epoch": 99,
                                                     "sequence_number": at["sequence_number"]})


@test()
def a_large_record_comes_whole_in_every_form(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    data = os.urandom(7 << 20)
    answer = sidecar.call("POST", "/v1/local/records",
                          {"Records": [{"Data": base64.b64encode(data).decode(), "PartitionKey": "big"}]})
    check_equal(answer.status, 200, "put", answer)
    (_, records), = pull(sidecar, 1, "max_bytes=1")
    check(base64.b64decode(records[0]["data"]) == data, "the pulled one")
    check_equal(sidecar.call("POST", "/v1/records/nack?ack_id=" + records[0]["ack_id"]).json["ok"], 1, "nack")
    sidecar.call("DELETE", "/v1/sessions/default")
    with http_stream(sidecar, "application/x-ndjson") as stream:
        line = next(json.loads(line) for line in stream if json.loads(line)["type"] == "record")
        check(base64.b64decode(line["data"]) == data, "the NDJSON one")
        check_equal(sidecar.call("POST", "/v1/records/nack?ack_id=" + line["ack_id"]).json["ok"], 1, "nack")
    with http_stream(sidecar, "application/x-protobuf") as stream:
        while True:
            frame = read_frame(stream)
            if frame[0] == 0x12:
                break
        check(frame.endswith(data), "the protobuf one")


class http_stream:
    """GET /v1/records/stream; a file of the body."""

    def __init__(self, sidecar, accept, query=""):
        self.connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=20 * PATIENCE)
        self.connection.request("GET", "/v1/records/stream?" + query, headers={"Accept": accept})

    def __enter__(self):
        response = self.connection.getresponse()
        check_equal(response.status, 200, "stream")
        return response

    def __exit__(self, *_):
        self.connection.close()


def read_frame(stream):
    """One varint-delimited message."""
    size, shift = 0, 0
    while True:
        byte = stream.read(1)[0]
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return stream.read(size)


# --- Bad input ---

@test()
def bad_requests_get_the_one_error_body(folder):
    sidecar = Sidecar.local(folder).start()
    # Before the first scan an unknown shard may be one that is not listed yet: 503.
    wait_until(lambda: sidecar.get("/v1/shards")["shards"], 15, "the shards are listed")
    refused(sidecar, 404, "GET", "/v1/nothing")
    refused(sidecar, 404, "GET", "/v1/shards/shardId-nope")
    refused(sidecar, 404, "DELETE", "/v1/sessions/nope")
    refused(sidecar, 404, "GET", "/v1/status?subscription=nope")
    check_equal(refused(sidecar, 405, "POST", "/v1/records").headers["Allow"], "GET", "Allow")
    check_equal(refused(sidecar, 405, "GET", "/v1/sessions/x").headers["Allow"], "DELETE", "Allow")
    refused(sidecar, 501, "POST", "/kinesis_sidecar.v1.Consumer/Nothing")
    refused(sidecar, 400, "GET", "/v1/records?max_record=1", says="max_record")
    refused(sidecar, 400, "GET", "/v1/records?wait_ms=-1", says="wait_ms")
    refused(sidecar, 400, "GET", "/v1/records?%00=1")
    for query, says in (("ordering=any", "shard, key or none"), ("ordering=key&lanes=65", "1 to 64"),
                        ("encoding=utf16", "base64, utf8 or json"), ("lanes=2", "ordering=key")):
        refused(sidecar, 400, "GET", "/v1/records/stream?" + query, says=says)
    for outcome in ("lose", "ACK", "", 1, None):
        refused(sidecar, 400, "POST", "/v1/records/settle",
                {"settlements": [{"ack_id": "x", "outcome": outcome}]}, says="ack, retry")
    for body in (b"", b"{", b"[]", b"{}", b'{"settlements":[]}', b'{"settlements":[{}]}', b'{"x":1}', b"\xff", b"null",
                 b'{"settlements":[{"ack_id":"a","ack_id":"b","outcome":"ack"}]}', b"[" * 3000):
        refused(sidecar, 400, "POST", "/v1/records/settle", body, {"Content-Type": "application/json"})
    protobuf = {"Content-Type": "application/x-protobuf"}
    for body in (b"\x0a\x05x", b"\xff" * 20, b"\x0a\x03\x0a\x01\xff"):
        refused(sidecar, 400, "POST", "/v1/records/settle", body, protobuf)
    refused(sidecar, 415, "POST", "/v1/records/settle", b"<a/>", {"Content-Type": "text/xml"})
    for body in (b"", b"{}", b'{"Records":[{"Data":"!","PartitionKey":"a"}]}', b'{"Records":[{"Data":"aGk="}]}'):
        refused(sidecar, 400, "POST", "/v1/local/records", body)
    sidecar.stop()


@test()
def ids_that_are_not_ours_change_nothing(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    put(sidecar, 2)
    record = pull(sidecar, 2)[0][1][0]
    good = record["ack_id"]
    forged = ("B" if good[20] != "B" else "C").join([good[:20], good[21:]])
    other_boot = base64.urlsafe_b64encode(
        (lambda raw: raw[:1] + bytes([raw[1] ^ 1]) + raw[2:])(base64.urlsafe_b64decode(good + "="))).decode().rstrip("=")
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": forged, "outcome": "ack"}, {"ack_id": other_boot, "outcome": "ack"},
        {"ack_id": "x" * 5000, "outcome": "ack"}, {"batch_id": good, "outcome": "ack"},
        {"ack_id": good, "outcome": "ack"}, {"ack_id": good, "outcome": "ack"}]})
    check_equal(answer.status, 200, answer)
    check_equal([failure["reason"] for failure in answer.json["failed"]],
                ["MALFORMED", "UNKNOWN", "MALFORMED", "MALFORMED"], "failures")
    check_equal(answer.json["ok"], 2, "a double ack is fine")
    check_equal(sidecar.get("/v1/shards")["shards"][0]["settled"], 1, "settled")

    # Another process: everything of the old one is UNKNOWN.
    sidecar.kill()
    sidecar.options["worker_id"] = "second"
    sidecar.start()
    answer = sidecar.call("POST", "/v1/records/ack?ack_id=" + good)
    check_equal([failure["reason"] for failure in answer.json["failed"]], ["UNKNOWN"], "ack of another boot")


@test()
def framing_tricks_are_refused_and_closed(folder):
    sidecar = Sidecar.local(folder).start()
    head = b"POST /v1/records/ack?ack_id=a HTTP/1.1\r\nHost: localhost\r\n"
    for more, status in ((b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
                         (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
                         (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
                         (b"Transfer-Encoding: gzip\r\n\r\n", 501),
                         (b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
                         (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                         (b"Host: other\r\n\r\n", 400),
                         (b"X: " + b"y" * 20000 + b"\r\n\r\n", 431)):
        answer = raw(sidecar.port, head + more)
        check(answer.startswith(b"HTTP/1.1 %d" % status), more[:60], answer[:200])
        check(answer.count(b"HTTP/1.1") == 1 and b"Connection: close" in answer, "closed after", more[:60])
    for line, status in ((b"GET /v1/status\0 HTTP/1.1", 400), (b"GET /v1/status%00 HTTP/1.1", 400)):
        answer = raw(sidecar.port, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        check(answer.startswith(b"HTTP/1.1 %d" % status), line, answer[:200])
    # A chunk that is cut off: nothing is answered, nothing is done.
    with socket.create_connection(("127.0.0.1", sidecar.port)) as link:
        link.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n400\r\n{\"ack")
        link.shutdown(socket.SHUT_WR)
        check_equal(link.recv(1000), b"", "a truncated chunk")
    check_equal(sidecar.get("/v1/status")["ready"], True, "it goes on")
    sidecar.stop()


@test()
def bodies_have_a_limit(folder):
    sidecar = Sidecar.local(folder, max_request_bytes=10000).start()
    head = b"POST /v1/records/ack HTTP/1.1\r\nHost: localhost\r\n"
    answer = raw(sidecar.port, head + b"Content-Length: 10001\r\n\r\n")
    check(answer.startswith(b"HTTP/1.1 413") and b"Connection: close" in answer, "announced", answer[:200])
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = raw(sidecar.port, chunked + b"3a98\r\n" + b" " * 15000 + b"\r\n0\r\n\r\n")
    check(answer.startswith(b"HTTP/1.1 413"), "a little too much in chunks", answer[:200])
    answer = raw(sidecar.port, chunked + b"7530\r\n" + b" " * 30000 + b"\r\n0\r\n\r\n")
    check(answer.startswith(b"HTTP/1.1 413"), "much too much in chunks", answer[:200])
    refused(sidecar, 413, "POST", "/v1/local/records", b" " * ((16 << 20) + 1))
    refused(sidecar, 400, "POST", "/v1/local/records", b" " * (15 << 20))
    # connect-node sends every request in chunks.
    answer = raw(sidecar.port, head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"8\r\n{\"ack_id\r\n6\r\n\":\"a\"}\r\n0\r\n\r\n")
    check(answer.startswith(b"HTTP/1.1 400") and b"not an id that was given out" in answer, "small chunks", answer[:400])


@test()
def strangers_are_kept_out(folder):
    sidecar = Sidecar.local(folder, allow_host="friend.example").start()
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{sidecar.port}"},
                    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Origin": "http://localhost:1"}):
        refused(sidecar, 403, "GET", "/v1/status", headers=headers)
        refused(sidecar, 403, "POST", "/v1/records/ack?ack_id=a", headers=headers)
    for headers in ({"Host": "localhost"}, {"Host": "127.0.0.1"}, {"Host": "[::1]:8990"}, {"Host": "friend.example"},
                    {"Origin": f"http://127.0.0.1:{sidecar.port}"}, {"Sec-Fetch-Site": "same-origin"}):
        check_equal(sidecar.call("GET", "/v1/status", headers=headers).status, 200, headers)
    answer = call(("127.0.0.1", sidecar.ops_port), "GET", "/livez", headers={"Host": "10.1.2.3:8991"})
    check_equal(answer.status, 200, "probes come to the pod's address")


@test()
def a_token_is_asked_for(folder):
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="ascii") as file:
        file.write("sesame\n")
    sidecar = Sidecar.local(folder, token_file=path).start()
    check_equal(refused(sidecar, 401, "GET", "/v1/status").headers["WWW-Authenticate"], "Bearer", "challenge")
    check_equal(sidecar.call("GET", "/v1/status", headers={"Authorization": "Bearer sesame"}).status, 200, "right")
    with open(path, "w", encoding="ascii") as file:
        file.write("other")
    wait_until(lambda: sidecar.call("GET", "/v1/status", headers={"Authorization": "Bearer other"}).status == 200, 10,
               "the token is read again")
    refused(sidecar, 401, "GET", "/v1/status", headers={"Authorization": "Bearer sesame"})
    check("sesame" not in sidecar.said(), "the token is in the log")


@test()
def a_port_that_others_reach_asks_for_a_token_or_is_warned_of(folder):
    warned = "whoever reaches it"
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="ascii") as file:
        file.write("sesame\n")
    sidecar = Sidecar.local(folder, "here").start()
    check(warned not in sidecar.said(), sidecar.said())
    port = free_port()
    sidecar = Sidecar.local(folder, "open", listen=f"127.0.0.1:{port},0.0.0.0:{free_port()}").start()
    check(sidecar.said().count(warned) == 1, sidecar.said())
    sidecar = Sidecar.local(folder, "guarded", listen=f"0.0.0.0:{free_port()}", token_file=path).start()
    check(warned not in sidecar.said(), sidecar.said())


@test(seconds=60)
def slow_heads_and_crowds_are_let_go(folder):
    sidecar = Sidecar.local(folder, max_connections=9).start()
    silent = [socket.create_connection(("127.0.0.1", sidecar.port)) for _ in range(8)]
    slow = [socket.create_connection(("127.0.0.1", sidecar.port)) for _ in range(8)]
    started = time.monotonic()
    for link in slow:
        link.sendall(b"GET /v1/st")
    wait_until(lambda: sidecar.metric("connections") >= 16, 5, "all are in")
    busy = []
    for at in range(9):
        busy.append(socket.create_connection(("127.0.0.1", sidecar.port)))
        busy[-1].sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(busy[-1].recv(15).startswith(b"HTTP/1.1 200"), "those that ask for nothing yet make room:", at)
    with socket.create_connection(("127.0.0.1", sidecar.port)) as late:
        late.sendall(b"G")
        check(late.recv(1000).startswith(b"HTTP/1.1 503"), "one too many")
    for link in busy:
        link.close()
    check_equal(sidecar.ops("/livez").status, 200, "probes have their own room")
    with contextlib.suppress(OSError):
        while time.monotonic() - started < 9:
            slow[0].sendall(b"a")
            time.sleep(0.5)
    for link in slow + silent:
        link.settimeout(10 * PATIENCE)
        try:
            check_equal(link.recv(1000), b"", "a slow head")
        except ConnectionResetError:
            pass
        link.close()
    check(time.monotonic() - started < 20 * PATIENCE, "they were let go late")
    check_equal(sidecar.get("/v1/status")["ready"], True, "there is room again")


@test()
def a_stalled_consumer_costs_its_credit_and_no_more(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    for _ in range(8):
        put(sidecar, 50, 20000)
    stalled = socket.create_connection(("127.0.0.1", sidecar.port))
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.sendall(b"GET /v1/records/stream?client_id=s&max_in_flight_bytes=2000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    time.sleep(2)
    session, = sidecar.get("/v1/sessions")["sessions"]
    check(session["in_flight_bytes"] <= 2000000 + 30000, session)
    stalled.close()
    wait_until(lambda: not sidecar.get("/v1/sessions")["sessions"], 15, "its session ends after the grace")


if __name__ == "__main__":
    main()
