#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that mean harm, or break: floods, crawls, silence, half a close, readers that stop, requests in disguise."""

import contextlib
import resource
import socket
import struct
import threading
import time

import http2
from http2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
                   WINDOW_UPDATE, Peer, block, frame)
from lib import PATIENCE, SLOW, Sidecar, check, check_equal, main, numbered, test, wait_until

MIB = 1 << 20


def memory(sidecar):
    """Resident bytes of the process."""
    with open(f"/proc/{sidecar.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def still_serves(sidecar):
    check_equal(sidecar.call("GET", "/v1/status").status, 200, "HTTP/1.1 afterwards")
    peer = Peer(sidecar.port)
    peer.ask(1, "/v1/status")
    peer.until(lambda: peer.has(DATA, 1, END_STREAM), 10, "an answer afterwards")
    check_equal(peer.status(1), 200, "HTTP/2 afterwards")
    peer.close()


def connections_are(sidecar, count):
    # The one that asks is counted, too.
    wait_until(lambda: sidecar.metric("connections") <= count + 1, 15, f"{count} connections are left")


@test(60)
def floods_end_their_connection_and_nothing_else(folder):
    sidecar = Sidecar.local(folder).start()
    before = memory(sidecar)

    def rapid_reset(at):
        return (frame(HEADERS, END_HEADERS, 2 * at + 1, block("/v1/records/ack", "POST")) +
                frame(RST_STREAM, 0, 2 * at + 1, struct.pack(">I", 8)))

    def made_to_reset(at):
        return (frame(HEADERS, END_HEADERS, 2 * at + 1, block("/v1/records/ack", "POST")) +
                frame(WINDOW_UPDATE, 0, 2 * at + 1, b"\x7f\xff\xff\xff"))

    def continuations(at):
        head = frame(HEADERS, 0, 1, block("/v1/status")) if at == 0 else b""
        return head + frame(CONTINUATION, 0, 1, b"\0\x01a\x01b")

    def pings(_):
        return frame(PING, 0, 0, b"12345678") * 10

    def settings(_):
        return frame(SETTINGS, payload=struct.pack(">HI", 3, 100)) * 10

    def empty_data(at):
        return frame(HEADERS, END_HEADERS, 1, block("/v1/records/ack", "POST")) if at == 0 else frame(DATA, 0, 1) * 10

    for flood in (rapid_reset, made_to_reset, continuations, pings, settings, empty_data):
        peer = Peer(sidecar.port)
        try:
            for at in range(5000):
                peer.send(flood(at))
        except OSError:
            pass
        # Those that it answers are answered as long as the peer takes the answers; it never does. What costs nothing
        # may go on until the deadline of its body.
        if flood is not empty_data:
            peer.until_closed(20, flood.__name__)
        peer.close()
        still_serves(sidecar)
    connections_are(sidecar, 0)
    check(memory(sidecar) - before < 24 * MIB * SLOW, "memory after the floods:", memory(sidecar) - before)
    sidecar.stop()


@test(60)
def ten_thousand_silent_connections_cost_little_and_keep_nobody_out(folder):
    count = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    check(hard >= count + 500, f"this test needs {count + 500} file descriptors, and {hard} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sidecar = Sidecar.local(folder, max_connections=100).start()
    still_serves(sidecar)
    before = memory(sidecar)
    silent = []
    for at in range(count):
        link = socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE)
        if at % 2:
            link.send(b"PR")  # Nearly a word.
        silent.append(link)
    wait_until(lambda: sidecar.metric("connections") >= 5000, 10, "they wait")
    waiting = sidecar.metric("connections")
    cost = (memory(sidecar) - before) / waiting
    still_serves(sidecar)
    check(cost < 1024 * SLOW, f"a silent connection costs {cost:.0f} bytes")
    # They speak at last: so many may come in as the option says. For each that comes the one that is idle for the longest
    # is closed, for they ask for nothing.
    closed = 0
    for link in silent[-1500:]:
        try:
            link.sendall(b"I * HTTP/2.0\r\n" if silent.index(link) % 2 else b"GET /")
        except OSError:
            pass
    wait_until(lambda: sidecar.metric("connections") < waiting - 1000, 20, "most of them are gone")
    for link in silent[-1500:]:
        link.setblocking(False)
        try:
            closed += not link.recv(4096) or not link.recv(4096)
        except ConnectionError:
            closed += 1
        except OSError:
            pass
    check(closed > 1000, f"{closed} were closed")
    check(memory(sidecar) - before < 32 * MIB * SLOW, "memory:", memory(sidecar) - before)
    for link in silent:
        link.close()
    connections_are(sidecar, 0)
    still_serves(sidecar)
    sidecar.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def crawl(sidecar, parts, every, seconds, what, failures):
    """Sends a part every so often; the server must close the connection within `seconds`."""
    try:
        link = socket.create_connection(("127.0.0.1", sidecar.port), timeout=every)
        end = time.monotonic() + seconds * PATIENCE
        for part in parts:
            if time.monotonic() > end:
                failures.append(f"{what}: still open after {seconds} s")
                return
            try:
                link.sendall(part)
                while link.recv(65536):
                    pass
                return
            except TimeoutError:
                continue
        failures.append(f"{what}: all of it was taken")
    except (ConnectionError, BrokenPipeError):
        pass


def slow_body(sidecar, _, failures):
    """The body of a request that is wanted whole, a byte now and then: the stream alone is cut."""
    peer = Peer(sidecar.port)
    peer.ask(1, "/v1/records/ack", "POST", end=False)
    end = time.monotonic() + 45 * PATIENCE
    while not peer.has(RST_STREAM, 1):
        if time.monotonic() > end or peer.closed:
            failures.append(f"a slow body: after 45 s it was not reset; closed: {peer.closed}")
            return
        peer.send(frame(DATA, 0, 1, b" "))
        peer.look(0.5)
    peer.ask(3, "/v1/status")
    peer.until(lambda: peer.has(DATA, 3, END_STREAM), 10, "another stream lives")


def deaf(sidecar, path, failures):
    """No window at all: the peer lives, and takes nothing of its answer."""
    peer = Peer(sidecar.port, settings=struct.pack(">HI", 4, 0))
    peer.ask(1, path)
    end = time.monotonic() + 45 * PATIENCE
    while not peer.has(RST_STREAM, 1):
        if time.monotonic() > end or peer.closed:
            failures.append(f"{path} that nobody takes: after 45 s it was not reset; closed: {peer.closed}")
            return
        peer.look(0.5)
        for _ in [f for f in peer.frames if f[0] == PING and not f[1] & ACK]:
            peer.send(frame(PING, ACK, 0, b"\0" * 8))


def dead(sidecar, path, failures):
    """It takes everything and answers no PING."""
    peer = Peer(sidecar.port)
    peer.ask(1, path)
    end = time.monotonic() + 80 * PATIENCE
    while not peer.closed:
        if time.monotonic() > end:
            failures.append(f"a dead peer: after 80 s it was not let go; asked: {peer.has(PING)}")
            return
        peer.look(0.5)
        if len(peer.frames) < 50 and peer.frames and peer.frames[-1][0] == DATA:
            size = len(peer.frames[-1][3])
            if size > 30000:
                failures.append("too much data for this test")
    if not peer.has(PING):
        failures.append("a dead peer was not asked whether it lives")


def idle(sidecar, _, failures):
    """It says that it speaks, and asks for nothing; then it asks once, and never again."""
    first, second = Peer(sidecar.port), Peer(sidecar.port)
    second.ask(1, "/v1/status")
    try:
        first.until_closed(20, "nothing was asked for")
        second.until_closed(45, "nothing more was asked for")
        check_equal((first.goaway(), second.goaway()), (0, 0), "without an error")
    except Exception as failure:  # pylint: disable=broad-except
        failures.append(f"idle: {failure}")


def trickle(sidecar, path, failures):
    """Takes a byte of its answer now and then."""
    try:
        peer = Peer(sidecar.port, settings=struct.pack(">HI", 4, 0))
        peer.ask(1, path)
        end = time.monotonic() + 45 * PATIENCE
        while not peer.has(RST_STREAM, 1) and time.monotonic() < end:
            peer.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
            time.sleep(2)
            peer.look()
        check(peer.has(RST_STREAM, 1), "one byte every 2 s is taken for ever")
        check_equal(peer.status(1), 200)
        peer.close()
    except Exception as failure:  # pylint: disable=broad-exception-caught
        failures.append(f"trickle: {failure}")


@test(150)
def who_crawls_is_let_go(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(40))
    head = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000
    body = b"POST /v1/records/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    opening = http2.PREFACE + frame(SETTINGS)
    long_block = block("/v1/status", x="y" * 2000)
    half = frame(HEADERS, END_STREAM | END_HEADERS, 1, long_block)
    failures = []
    crawls = [
        (crawl, (sidecar, (head[at:at + 1] for at in range(len(head))), 0.3, 20, "a head of HTTP/1.1", failures)),
        (crawl, (sidecar, [body] + [b" "] * 500, 0.3, 45, "a body of HTTP/1.1", failures)),
        (crawl, (sidecar, [opening] + [half[at:at + 1] for at in range(len(half))], 0.3, 20, "a head of HTTP/2",
                 failures)),
        (crawl, (sidecar, (opening[at:at + 1] for at in range(3, len(opening))), 1.5, 20, "a preface", failures)),
        (crawl, (sidecar, [opening] + [frame(PING, 0, 0, b"12345678")] * 500, 0.3, 20, "only pings", failures)),
        (slow_body, (sidecar, None, failures)),
        (deaf, (sidecar, "/v1/status", failures)),
        (deaf, (sidecar, "/v1/records/stream", failures)),
        (dead, (sidecar, "/v1/events?heartbeat_ms=1000", failures)),
        (idle, (sidecar, None, failures)),
        (trickle, (sidecar, "/v1/openapi.json", failures)),
    ]
    threads = [threading.Thread(target=run, args=args, daemon=True) for run, args in crawls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * PATIENCE)
    check(not failures, "\n  ".join(failures))
    still_serves(sidecar)
    connections_are(sidecar, 1)  # The one whose slow body was cut lives.
    sidecar.stop()


@test()
def half_a_close_after_the_request_still_gets_the_answer(folder):
    sidecar = Sidecar.local(folder).start()
    for said in (b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 http2.PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, block("/v1/status"))):
        with socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE) as link:
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            answer = b""
            while part := link.recv(65536):
                answer += part
            check(b'"worker_id"' in answer, said[:20], answer[:200])
    # Half a request, and silence.
    for said in (b"GET /v1/st", b"PR", http2.PREFACE[:10], http2.PREFACE + frame(SETTINGS)[:4]):
        with socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE) as link:
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            try:
                while link.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    connections_are(sidecar, 0)
    sidecar.stop()


@test(60)
def readers_that_stop_cost_lag_and_not_memory(folder):
    sidecar = Sidecar.local(folder, max_connections=200, local_shards=40).start()
    sidecar.put([(f"key-{at}", b"x" * 20000) for at in range(1500)])  # 30 MB, and again for each who looks.
    before = memory(sidecar)
    peers = []
    for _ in range(20):
        peer = Peer(sidecar.port, settings=struct.pack(">HI", 4, 0x7FFFFFFF))
        peer.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF - 65535)))
        peer.ask(1, "/v1/records/stream?max_in_flight=100000&max_in_flight_bytes=67108864")
        peers.append(peer)
    for _ in range(20):
        link = socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE)
        link.sendall(b"GET /v1/records/stream?max_in_flight=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        peers.append(link)
    wait_until(lambda: sidecar.metric("in_flight_records") > 0, 10, "records are on their way")
    most = 0
    for _ in range(20):
        most = max(most, memory(sidecar) - before)
        still_serves(sidecar)
        time.sleep(0.1)
    # What a connection may hold: 64 KB that were not sent, a pool of 128 KB for HTTP/1.1; and the records themselves
    # under the memory budget.
    check(most < 96 * MIB * SLOW, "memory while they stand:", most)
    for peer in peers:
        peer.close()
    connections_are(sidecar, 0)
    sidecar.stop()


DISGUISED = b"GET /v1/leases HTTP/1.1\r\nHost: localhost\r\n\r\n"


@test(60)
def requests_in_disguise_are_refused_and_closed(folder):
    sidecar = Sidecar.local(folder).start()
    head = b"POST /v1/records/ack?ack_id=a HTTP/1.1\r\nHost: localhost\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    shapes = {
        "both lengths": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + DISGUISED,
        "both, the other way round": b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" + DISGUISED,
        "two lengths": b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + DISGUISED,
        "a list of lengths": b"Content-Length: 0, 0\r\n\r\n" + DISGUISED,
        "a sign": b"Content-Length: +0\r\n\r\n" + DISGUISED,
        "a length below nothing": b"Content-Length: -1\r\n\r\n" + DISGUISED,
        "a length in hexadecimal": b"Content-Length: 0x0\r\n\r\n" + DISGUISED,
        "two numbers": b"Content-Length: 0 44\r\n\r\n" + DISGUISED,
        "a length that overflows": b"Content-Length: 18446744073709551616\r\n\r\n" + DISGUISED,
        "a coding in disguise": b"Transfer-Encoding: xchunked\r\n\r\n" + DISGUISED,
        "two codings": b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + DISGUISED,
        "chunked is not the last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + DISGUISED,
        "a tab before the coding's end": b"Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n" + DISGUISED,
        "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + DISGUISED,
        "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + DISGUISED,
        "a line that is folded": b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + DISGUISED,
        "a size of a chunk with a sign": chunked + b"+0\r\n\r\n" + DISGUISED,
        "a size in another notation": chunked + b"0x0\r\n\r\n" + DISGUISED,
        "a size that overflows": chunked + b"10000000000000000\r\n\r\n" + DISGUISED,
        "a chunk longer than it says": chunked + b"1\r\nabc\r\n0\r\n\r\n" + DISGUISED,
    }
    for name, shape in shapes.items():
        with socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE) as link:
            link.sendall(head + shape)
            answer = b""
            try:
                while part := link.recv(65536):
                    answer += part
            except ConnectionResetError:
                pass
            except TimeoutError:
                check(False, name, "- neither answered nor closed:", answer[:300])
        check(b'"leases"' not in answer, name, "- the request inside was answered:", answer[:300])
        # libmicrohttpd 0.9.75 writes the head of a refusal of its own twice.
        for part in answer.split(b"HTTP/1.1 ")[1:]:
            check(part[:1] in (b"4", b"5"), name, answer[:300])
    still_serves(sidecar)
    sidecar.stop()


def refusal_of(sidecar, request):
    """The answer to a request that is refused, up to the end of the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", sidecar.port), timeout=20 * PATIENCE) as link:
        with contextlib.suppress(ConnectionError):
            link.sendall(request)
            while part := link.recv(65536):
                answer += part
    return answer


@test(60)
def query_of_many_parameters_is_refused_and_the_sidecar_lives(folder):
    sidecar = Sidecar.local(folder).start()
    host = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    # 2,000 fit into libmicrohttpd's memory, 4,000 do not though the target is within its bound.
    for query in (b"a&" * 2000, b"a&" * 4000, b"a=b&" * 5000, b"a" * 90000 + b"&a" * 1000, b"a=b&" * 40000):
        answer = refusal_of(sidecar, b"GET /v1/status?" + query + host)
        check(answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 414")), len(query), answer[:200])
        check(len(query) > 100000 or b"application/problem+json" in answer, len(query), answer[:200])
    check(refusal_of(sidecar, b"GET /v1/status?" + b"a&" * 1000 + b"a HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n")
          .startswith(b"HTTP/1.1 400"), "1,001 parameters are read")
    still_serves(sidecar)
    sidecar.stop()


@test()
def first_line_that_is_none_gets_the_one_error_body(folder):
    sidecar = Sidecar.local(folder).start()
    for line, status in ((b"GET /v1/status", 400), (b"HELLO", 400), (b"GET /v1/status HTTP/3", 400), (b"GET /v1/status FOO", 400),
                         (b"GET /v1/status HTTP/2.0", 505), (b"GET /v1/status HTTP/0.9", 505)):
        answer = refusal_of(sidecar, line + b"\r\nHost: localhost\r\n\r\n")
        check(answer.startswith(b"HTTP/1.1 %d " % status), line, answer[:200])
        check(b"application/problem+json" in answer and b"<html>" not in answer, line, answer[:300])
    still_serves(sidecar)
    sidecar.stop()


@test()
def garbage_behind_the_preface_ends_the_connection(folder):
    sidecar = Sidecar.local(folder).start()
    peer = Peer(sidecar.port)
    peer.ask(1, "/v1/status")
    peer.until(lambda: peer.has(DATA, 1, END_STREAM), 10, "an answer")
    peer.send(b"\xff" * 1000)
    peer.until_closed(10, "garbage")
    check(peer.has(GOAWAY) and peer.goaway() != 0, "it was told why:", peer.goaway())
    peer = Peer(sidecar.port, preface=False)
    peer.send(b"PRI * HTTP/1.1\r\n\r\n")
    peer.until_closed(10, "half a preface")
    still_serves(sidecar)
    sidecar.stop()


if __name__ == "__main__":
    main()
