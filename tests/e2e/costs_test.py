#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that cost much for what they say: the work that is done for them and the memory that is held for them have
bounds (docs/LIMITS.md). Both are counted, not timed."""

import base64
import gzip
import json
import os
import socket
import struct

from http2 import ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, Peer, block, frame, line
from lib import SLOW, RawStream, Sidecar, check, check_equal, main, test, wait_until

KIB, MIB = 1 << 10, 1 << 20
UNITS_PER_BYTE = 16
REQUEST_UNITS = 640 * KIB  # The fixed sum for a request: what a small message may unpack to, parsed, and its head.
WINDOW_OF_NONE = struct.pack(">HI", 4, 0)


def work(sidecar, *kinds):
    """Units of work so far: a byte that was looked at."""
    total = 0
    for row in sidecar.ops("/metrics").body.decode().split("\n"):
        name, _, value = row.rpartition(" ")
        if name in [f'kinesis_sidecar_api_work_units_total{{kind="{kind}"}}' for kind in kinds or ("heads", "unpacking", "parsing")]:
            total += float(value)
    return total


def held(sidecar):
    return {row["kind"]: row["bytes"] for row in sidecar.get("/v1/status")["held"]}


def limits(sidecar):
    return {row["kind"]: row["limit"] for row in sidecar.get("/v1/status")["held"]}


FIRST_OF_TABLE = b"\xbe"  # One byte that is the whole line that was kept last.


def try_send(peer, data):
    """False: the connection was closed meanwhile."""
    try:
        peer.send(data)
        return True
    except OSError:
        return False


@test()
def lines_of_one_byte_cost_no_more_than_a_head(folder):
    sidecar = Sidecar.local(folder).start()
    for port, path, blocks in ((sidecar.port, "/v1/status", 1), (sidecar.ops_port, "/livez", 1), (sidecar.port, "/v1/status", 16)):
        for trailers in (False, True):
            before = work(sidecar, "heads")
            peer = Peer(port)
            first = block(path, "POST" if trailers else "GET") + line("x", "a" * 4000, kept=True)
            sent = 0
            if trailers:
                peer.send(frame(HEADERS, END_HEADERS, 1, first))
                first = b""
            for at in range(blocks):
                stream = 1 if trailers else 1 + 2 * at
                parts = [first + FIRST_OF_TABLE * (16 * KIB - len(first))] + [FIRST_OF_TABLE * 16 * KIB] * 3
                bytes_of = frame(HEADERS, END_STREAM, stream, parts[0])
                for last, part in enumerate(parts[1:], 2 - len(parts)):
                    bytes_of += frame(CONTINUATION, END_HEADERS if last == 0 else 0, stream, part)
                sent += len(bytes_of)
                first = block(path)
                if not try_send(peer, bytes_of):
                    break
            peer.until_closed(10, "a head without end")
            if peer.goaway() is not None:
                check_equal(peer.goaway(), 11, "ENHANCE_YOUR_CALM")
            done = work(sidecar, "heads") - before
            check(done < 64 * KIB, "units of a head that was refused:", done, "sent:", sent)
            peer.close()


@test()
def heads_are_read_over_many_turns_and_all_are_served(folder):
    """Short heads that name long lines: 2 KB on the wire are 1.4 MB. They take turns, and nobody waits for them."""
    sidecar = Sidecar.local(folder).start()
    peer = Peer(sidecar.port)
    ask = b"\xc2\xc1\xc0\xbf" + FIRST_OF_TABLE * 3  # The newest is last: method, scheme, authority, path.
    first = b"".join(line(name, value, kept=True) for name, value in
                     ((":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/v1/none"),
                      ("x", "a" * 3500)))
    before = work(sidecar, "heads")
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, first) +
              b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 3 + 2 * at, ask) for at in range(120)))
    peer.until(lambda: sum(f[0] == DATA and f[1] & END_STREAM for f in peer.frames) == 121, 20, "121 answers")
    check(work(sidecar, "heads") - before >= 120 * 3 * 3500, "the lines were not counted")
    peer.close()


@test()
def heads_that_wait_hold_only_what_is_asked_for(folder):
    sidecar = Sidecar.local(folder).start()
    peer = Peer(sidecar.port, settings=WINDOW_OF_NONE)
    for at in range(200):
        peer.ask(1 + 2 * at, "/v1/events", x_long="a" * 15000)
    wait_until(lambda: held(sidecar)["heads"] > 200 * 2 * KIB, 10, "200 heads")
    check(held(sidecar)["heads"] < 200 * 4 * KIB, held(sidecar))
    peer.close()
    wait_until(lambda: held(sidecar)["heads"] < 16 * KIB, 10, "nothing is held any more")


@test(60)
def requests_beyond_the_limit_of_heads_are_refused_and_small_ones_served(folder):
    sidecar = Sidecar.local(folder, memory_budget_bytes=32 * MIB).start()
    limit = limits(sidecar)["heads"]
    peers, refused = [], False
    for _ in range(40):
        peer = Peer(sidecar.port, settings=WINDOW_OF_NONE)
        for at in range(250):
            peer.ask(1 + 2 * at, "/v1/events")
        peers.append(peer)
        peer.until(lambda peer=peer: sum(f[0] == HEADERS for f in peer.frames) == 250, 20, "all have an answer's head")
        refused = refused or any(f[0] == HEADERS and f[3][:1] != b"\x88" for f in peer.frames)
        check(held(sidecar)["heads"] <= limit + (len(peers) + 2) * 8 * KIB, held(sidecar), limit)
        if refused:
            break
    check(refused, "10,000 requests at once were all accepted:", held(sidecar))
    check_equal(sidecar.call("GET", "/v1/shards").status, 200, "a request of somebody else")
    for peer in peers:
        peer.close()


def unfinished(sidecar, size, sent):
    connection = socket.create_connection(("127.0.0.1", sidecar.port))
    connection.sendall(b"POST /v1/local/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % size)
    for _ in range(sent // MIB):
        connection.sendall(b"x" * MIB)
    return connection


@test(90)
def bodies_of_both_protocols_have_one_limit(folder):
    sidecar = Sidecar.local(folder, memory_budget_bytes=32 * MIB).start()
    limit = limits(sidecar)["bodies"]
    connections = [unfinished(sidecar, 16 * MIB, 15 * MIB) for _ in range(8)]
    peer = Peer(sidecar.port)
    peer.ask(1, "/v1/local/records", "POST", end=False, content_type="application/json")
    most = 0
    for _ in range(20):
        try:
            peer.send(b"".join(frame(DATA, 0, 1, b"x" * 16 * KIB) for _ in range(8)))
        except OSError:
            break
        peer.look()
        most = max(most, held(sidecar)["bodies"])
    check(most <= limit + 10 * 64 * KIB, most, limit)
    check(most > limit // 4, "the bodies were not counted:", most)
    # A small request is served beside them.
    check_equal(sidecar.call("POST", "/v1/records/ack", body=b"{}", headers={"Content-Type": "application/json"}).status, 400)
    for connection in connections:
        connection.sendall(b"x" * MIB)
    answers = [connection.recv(16) for connection in connections]
    check(any(b" 429 " in answer for answer in answers), answers)
    for connection in connections:
        connection.close()
    peer.close()
    wait_until(lambda: held(sidecar)["bodies"] == 0, 10, "nothing is held any more")


def answers(sidecar):
    try:
        return sidecar.call("GET", "/v1/status").status == 200
    except OSError:
        return False


@test()
def puts_are_not_taken_in_where_there_is_no_local_stream(folder):
    sidecar = Sidecar(folder, stream="nothing", application="app", source="kinesis", leases=f"sqlite:{folder}/leases.db",
                      env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a",
                           "AWS_SECRET_ACCESS_KEY": "b"}).start(ready=False)
    wait_until(lambda: answers(sidecar), 10, "it listens")
    connection = unfinished(sidecar, 16 * MIB, 0)
    check(b" 400 " in connection.recv(64), "it is refused before its body comes")
    connection.close()


def letters(sidecar, count, size):
    """So many dead letters of `size` bytes."""
    stream = RawStream(sidecar, f"max_in_flight_bytes={64 * MIB}&max_message_bytes={4 * MIB}")
    stream.until("session")
    for at in range(count):
        body = {"Records": [{"Data": base64.b64encode(os.urandom(size)).decode(), "PartitionKey": f"k{at}"}]}
        check_equal(sidecar.call("POST", "/v1/local/records", body=json.dumps(body).encode(),
                                 headers={"Content-Type": "application/json"}).status, 200)
    records = stream.records(count)
    sidecar.call("POST", "/v1/records/settle", body=json.dumps({"settlements": [
        {"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records]}).encode(),
        headers={"Content-Type": "application/json"})
    stream.close()
    wait_until(lambda: sidecar.metric("dead_letters_total") >= count, 20, "the letters are written")


@test(60)
def answers_that_nobody_takes_have_a_limit(folder):
    sidecar = Sidecar.local(folder, memory_budget_bytes=32 * MIB, initial_position="trim_horizon").start()
    letters(sidecar, 12, 900 * KIB)
    limit = limits(sidecar)["answers"]
    peer = Peer(sidecar.port, settings=WINDOW_OF_NONE)
    for at in range(40):
        peer.ask(1 + 2 * at, "/v1/dead-letters")
    peer.until(lambda: sum(f[0] == HEADERS for f in peer.frames) == 40, 20, "all have an answer's head")
    now = held(sidecar)["answers"]
    check(now <= limit + MIB, now, limit)
    check(now > limit // 2, "the answers were not counted:", now)
    check(sum(f[0] == HEADERS and f[3][:1] == b"\x88" for f in peer.frames) < 40, "nobody was refused")
    # A small answer to somebody else is given.
    check_equal(sidecar.call("GET", "/v1/shards").status, 200)
    peer.close()
    wait_until(lambda: held(sidecar)["answers"] < 64 * KIB, 10, "nothing is held any more")
    # The pages are short, and all letters are on one of them.
    found, token = 0, ""
    while token is not None:
        page = sidecar.get(f"/v1/dead-letters?page_token={token}")
        found, token = found + len(page["dead_letters"]), page.get("next_page_token") or None
    check_equal(found, 12)


def resident(sidecar):
    with open(f"/proc/{sidecar.process.pid}/status", encoding="ascii") as status:
        return next(int(row.split()[1]) * KIB for row in status if row.startswith("VmRSS"))


def streams_that_wait(sidecar):
    """The shortest requests that there are, whose answers go on for ever and are not taken."""
    peer = Peer(sidecar.port, settings=WINDOW_OF_NONE)
    first = b"".join(line(name, value, kept=True) for name, value in
                     ((":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/v1/events")))
    asks = [first] + [b"\xc1\xc0\xbf\xbe"] * 249
    sent = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * at, ask) for at, ask in enumerate(asks))
    peer.send(sent)
    peer.until(lambda: sum(f[0] == HEADERS for f in peer.frames) == len(asks), 20, "all have an answer's head")
    return [peer], len(sent)


def letters_that_nobody_takes(sidecar):
    peer = Peer(sidecar.port, settings=WINDOW_OF_NONE)
    for at in range(40):
        peer.ask(1 + 2 * at, "/v1/dead-letters")
    peer.until(lambda: sum(f[0] == HEADERS for f in peer.frames) == 40, 20, "all have an answer's head")
    return [peer], 40 * len(block("/v1/dead-letters"))


def bodies_that_go_on(sidecar):
    return [unfinished(sidecar, 16 * MIB, 15 * MIB)], 15 * MIB


def heads_that_go_on(sidecar):
    said = b"GET /v1/status HTTP/1.1\r\n" + b"x: " + b"a" * 12000
    connections = [socket.create_connection(("127.0.0.1", sidecar.port)) for _ in range(50)]
    for connection in connections:
        connection.sendall(said)
    return connections, len(connections) * len(said)


@test(60)
def what_is_held_for_a_client_is_16_times_what_it_sent_and_the_answers(folder):
    sidecar = Sidecar.local(folder, memory_budget_bytes=32 * MIB).start()
    letters(sidecar, 12, 900 * KIB)
    for client in (streams_that_wait, heads_that_go_on, bodies_that_go_on, letters_that_nobody_takes):
        before = resident(sidecar)
        connections, sent = client(sidecar)
        most = 16 * sent + limits(sidecar)["answers"]
        now = sum(held(sidecar).values())
        check(now <= most, client.__name__, "held:", now, "sent:", sent)
        # The sanitizers keep what was freed, up to 256 MiB.
        kept = 256 * MIB if SLOW > 1 else 0
        grown = resident(sidecar) - before
        check(grown <= most + kept, client.__name__, grown, "sent:", sent)
        for connection in connections:
            connection.close()
        wait_until(lambda: sum(held(sidecar).values()) < 64 * KIB, 10, "nothing is held any more")


def settle_call(stream, body, packed):
    out = frame(HEADERS, END_HEADERS, stream, block("/kinesis_sidecar.v1.Consumer/Settle", "POST", content_type="application/json",
                                                    content_encoding="gzip"))
    for at in range(0, len(packed), 16 * KIB):
        out += frame(DATA, END_STREAM if at + 16 * KIB >= len(packed) else 0, stream, packed[at:at + 16 * KIB])
    return out


@test(60)
def small_messages_cost_what_they_are(folder):
    """gzip makes a megabyte of a kilobyte; JSON in many shapes."""
    sidecar = Sidecar.local(folder).start()
    size = MIB - 64
    bodies = {"spaces": b"{" + b" " * size + b"}", "deep": b'{"x":' + b"[" * 2000 + b"]" * 2000 + b" " * (size - 5000) + b"}",
              "empty": b'{"settlements":[' + b",".join([b"{}"] * 49000) + b"]}",
              "keys": b"{" + b",".join(b'"k%d":0' % at for at in range(8000)) + b"}"}
    for name, body in bodies.items():
        packed = gzip.compress(body)
        before = work(sidecar)
        peer = Peer(sidecar.port)
        sent = 0
        for at in range(5):
            call = settle_call(1 + 2 * at, body, packed)
            sent += len(call)
            peer.send(call)
        peer.until(lambda peer=peer: len({f[2] for f in peer.frames if f[0] == HEADERS}) == 5, 20, f"answers: {name}")
        done = work(sidecar) - before
        check(done <= UNITS_PER_BYTE * sent + 5 * REQUEST_UNITS, name, "units:", done, "bytes:", sent)
        peer.close()


@test(60)
def a_longest_message_is_followed_by_others(folder):
    """A connection that has spent its part waits for its turn; others are served meanwhile, and it is served in the end."""
    sidecar = Sidecar.local(folder, max_request_bytes=4 * MIB).start()
    body = b'{"settlements":[' + b",".join([b"{}"] * 9000) + b"]}"
    body += b" " * (3 * MIB - len(body))
    peers = [Peer(sidecar.port) for _ in range(4)]
    before = work(sidecar, "parsing")
    for peer in peers:
        peer.ask(1, "/v1/records/settle", "POST", end=False, content_type="application/json")
        # Its windows hold from then on.
        peer.until(lambda peer=peer: peer.has(SETTINGS, 0), 20, "its settings")
        peer.send(frame(SETTINGS, ACK))
    sent = {peer: 0 for peer in peers}
    while any(sent[peer] < len(body) for peer in peers):
        for peer in peers:
            peer.look(0.01)
            window = 65535 + sum(int.from_bytes(f[3], "big") for f in peer.frames if f[0] == WINDOW_UPDATE and f[2] == 1)
            window = min(window + 256 * KIB - 65535, len(body)) - sent[peer]
            check(not peer.has(HEADERS, 1) and not peer.has(RST_STREAM, 1), "it was answered before it was sent:", peer.frames[-2:])
            most = sent[peer] + min(window, 128 * KIB)
            while sent[peer] < most:
                part = body[sent[peer]:min(sent[peer] + 16 * KIB, most)]
                sent[peer] += len(part)
                peer.send(frame(DATA, END_STREAM if sent[peer] == len(body) else 0, 1, part))
        check_equal(sidecar.call("GET", "/v1/status").status, 200)
    for peer in peers:
        peer.until(lambda peer=peer: peer.has(HEADERS, 1), 20, "its answer")
        peer.close()
    check(work(sidecar, "parsing") - before >= 4 * len(body), "it was not counted")


main()
