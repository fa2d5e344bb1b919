#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each fault of tests/doubles/fault_proxy does what it says, and no more: between a client and a server of this file."""

import contextlib
import email.utils
import http.client
import http.server
import os
import socket
import threading
import time
import zlib

from lib import PATIENCE, SLOW, FaultProxy, check, check_equal, crowd, free_port, main, spawn, test, wait_until

QUIET = 0.3  # How long nothing must come until we believe that nothing comes.


class Echo:
    """A server that answers each piece with the same, and remembers what it got and which connections ended."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.got, self.ends = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with contextlib.closing(connection):
            try:
                for piece in iter(lambda: connection.recv(65536), b""):
                    self.got.append(piece)
                    connection.sendall(piece)
                self.ends.append("end")
            except OSError:
                self.ends.append("reset")


def world(folder):
    echo = Echo()
    return echo, FaultProxy(folder, echo.port)


def connect(proxy):
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=10 * PATIENCE)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def ask(client, data):
    """Sends and waits for the echo; returns the seconds it took."""
    started = time.monotonic()
    client.sendall(data)
    got = b""
    while len(got) < len(data):
        piece = client.recv(65536)
        check(piece, "the connection ended after", got)
        got += piece
    check_equal(got, data, "echo")
    return time.monotonic() - started


def is_quiet(client):
    """True if nothing comes, not even an end."""
    client.settimeout(QUIET)
    try:
        client.recv(1)
        return False
    except socket.timeout:
        return True
    except OSError:
        return False
    finally:
        client.settimeout(10 * PATIENCE)


def how_it_ends(client):
    try:
        return "end" if client.recv(1) == b"" else "data"
    except ConnectionResetError:
        return "reset"


@test(seconds=20)
def a_healed_one_passes_everything_on(folder):
    echo, proxy = world(folder)
    clients = [connect(proxy) for _ in range(20)]
    for number, client in enumerate(clients):
        ask(client, f"hello {number}".encode())
    # More than it can hold: the other side is slow, nothing is lost.
    big = os.urandom(3 << 20)
    sender = threading.Thread(target=clients[0].sendall, args=(big,), daemon=True)
    sender.start()
    time.sleep(0.2)
    got = b""
    while len(got) < len(big):
        got += clients[0].recv(65536)
    check(got == big, "3 MiB came back changed")
    # A half-close goes through, and so does the answer to it.
    clients[1].sendall(b"last word")
    clients[1].shutdown(socket.SHUT_WR)
    check_equal(clients[1].recv(100), b"last word", "after the end of the request")
    check_equal(how_it_ends(clients[1]), "end", "a polite one")
    for client in clients:
        client.close()
    wait_until(lambda: proxy.say("status") == "heal connections 0 swallowed 0", 5, "all connections are over")
    wait_until(lambda: echo.ends == ["end"] * 20, 5, "and the server knows")


@test(seconds=20)
def latency_is_what_was_asked_for(folder):
    _, proxy = world(folder)
    client = connect(proxy)
    ask(client, b"warm")
    for command, least in (("latency 150", 0.3), ("late-requests 50", 0.2), ("late-answers 0", 0.05), ("latency 0", 0)):
        proxy.do(command)
        took = min(ask(client, b"x") for _ in range(3))
        # The proxy counts in whole milliseconds, and begins before we do.
        check(least - 0.005 <= took < least + SLOW + crowd(), f"after {command} it took {took:.3f} s")
    # What comes later does not overtake what is under way.
    proxy.do("late-requests 300")
    client.sendall(b"first")
    proxy.do("heal")
    client.sendall(b"second")
    got = b""
    while len(got) < 11:
        got += client.recv(100)
    check_equal(got, b"firstsecond", "order")
    wait_until(lambda: ask(client, b"x") < 0.3, 20, "healed")


@test(seconds=20)
def cut_resets_and_refuses(folder):
    echo, proxy = world(folder)
    client, idle = connect(proxy), connect(proxy)
    ask(client, b"x")
    ask(idle, b"y")
    proxy.do("cut")
    check_equal(proxy.say("status"), "cut connections 0 swallowed 0", "status")
    check_equal([how_it_ends(client), how_it_ends(idle)], ["reset", "reset"], "open connections")
    wait_until(lambda: echo.ends == ["reset", "reset"], 5, "the server lost them, too")
    try:
        connect(proxy)
        check(False, "a new connection was not refused")
    except ConnectionRefusedError:
        pass
    proxy.do("heal")
    ask(connect(proxy), b"z")


@test(seconds=20)
def hang_holds_everything_and_heal_lets_it_arrive_late(folder):
    echo, proxy = world(folder)
    waits, leaves = connect(proxy), connect(proxy)
    ask(waits, b"x")
    ask(leaves, b"y")
    proxy.do("hang")
    waits.sendall(b"held")
    leaves.sendall(b"late")
    leaves.close()
    fresh = connect(proxy)
    fresh.sendall(b"fresh")
    check(is_quiet(waits) and is_quiet(fresh), "something moved")
    check_equal((echo.got, echo.ends), ([b"x", b"y"], []), "at the server")
    # The one that gave up is still there for the server: half-open.
    wait_until(lambda: proxy.say("status") == "hang connections 3 swallowed 0", 5, "status")
    proxy.do("heal")
    check_equal((waits.recv(100), fresh.recv(100)), (b"held", b"fresh"), "answers")
    wait_until(lambda: b"late" in echo.got, 5, "what the one sent that gave up arrives late")


@test(seconds=20)
def drop_answers_loses_answers_and_no_requests(folder):
    echo, proxy = world(folder)
    client, idle = connect(proxy), connect(proxy)
    ask(client, b"x")
    ask(idle, b"y")
    proxy.do("drop-answers")
    client.sendall(b"done?")
    wait_until(lambda: echo.got == [b"x", b"y", b"done?"], 5, "the request arrives")
    check(is_quiet(client), "the answer came")
    wait_until(lambda: proxy.say("status") == "drop-answers connections 2 swallowed 5", 5, "status")
    proxy.do("heal")
    # Half an answer is worse than none: who lost one hears nothing any more. Everybody else goes on.
    client.sendall(b"again")
    wait_until(lambda: echo.got[-1] == b"again", 5, "requests still arrive")
    check(is_quiet(client), "a connection that lost an answer spoke")
    ask(idle, b"z")
    client.close()
    wait_until(lambda: proxy.say("status").startswith("heal connections 1 "), 5, "it ends with its client")


@test(seconds=20)
def one_fault_replaces_another_and_nonsense_changes_nothing(folder):
    echo, proxy = world(folder)
    for line in ("", "bogus", "latency", "latency -1", "latency 1x", "latency 999999999", "heal now", "x" * 70, "refuse", "refuse 400 X",
                 "refuse 99 X 1", "refuse 400 X -1", "lose", "lose x", "wrong-crc -1", "skew", "skew --1", "skew 1h", "only ",
                 "only"):
        check(proxy.say(line).startswith("error: "), "taken:", line)
    with socket.create_connection(("127.0.0.1", proxy.control_port), timeout=5 * PATIENCE) as control:
        control.sendall(b"y" * 500)
        check_equal(how_it_ends(control), "reset", "an endless line")
    proxy.do("cut")
    proxy.do("hang")
    client = connect(proxy)
    client.sendall(b"a")
    check(is_quiet(client), "hang after cut")
    proxy.do("drop-answers")
    wait_until(lambda: echo.got == [b"a"], 5, "the request arrives now")
    check(is_quiet(client), "drop-answers after hang")
    proxy.do("cut")
    check_equal(how_it_ends(client), "reset", "cut after drop-answers")
    proxy.do("heal")
    ask(connect(proxy), b"b")


# --- HTTP ---

class Http:
    """A server that answers each request with its body, and remembers the bodies."""

    def __init__(self):
        outer = self
        self.got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append(body)
                self.send_response(200)  # With a Date.
                self.send_header("Content-Length", str(len(body)))
                self.send_header("x-amz-crc32", str(zlib.crc32(body)))
                with contextlib.suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(body)

            do_PUT = do_POST

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()


def http_world(folder):
    server = Http()
    proxy = FaultProxy(folder, server.port)
    return server, proxy, http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10 * PATIENCE)


def post(client, body, operation="PutItem"):
    client.request("POST", "/", body, {"X-Amz-Target": "DynamoDB_20120810." + operation})
    answer = client.getresponse()
    return answer.status, answer.headers, answer.read()


def put(client, body):
    """As to S3: without an X-Amz-Target."""
    client.request("PUT", "/bucket/key", body)
    answer = client.getresponse()
    return answer.status, answer.headers, answer.read()


def crc_fits(answer):
    return answer[1]["x-amz-crc32"] == str(zlib.crc32(answer[2]))


@test(seconds=20)
def refused_requests_never_arrive_and_the_connection_goes_on(folder):
    server, proxy, client = http_world(folder)
    check_equal(post(client, b"before")[0], 200, "before")
    proxy.do("refuse 400 ProvisionedThroughputExceededException 2")
    for body in (b"one", b"x" * 300000):
        status, headers, answer = post(client, body)
        check_equal((status, headers["Content-Type"]), (400, "application/x-amz-json-1.0"), "refused")
        check(b'{"__type":"ProvisionedThroughputExceededException","message":' in answer, answer)
    check_equal(post(client, b"after")[::2], (200, b"after"), "after")
    for status, code in ((500, "InternalServerError"), (503, "ServiceUnavailable"), (400, "ThrottlingException")):
        proxy.do(f"refuse {status} {code} 1")
        answer = post(client, b"no")
        check(answer[0] == status and code.encode() in answer[2], code, answer)
    check_equal((server.got, proxy.say("spoiled")), ([b"before", b"after"], "5"), "at the server")


@test(seconds=20)
def a_lost_answer_is_one_of_a_request_that_was_done(folder):
    server, proxy, client = http_world(folder)
    post(client, b"before")
    proxy.do("lose 1")
    try:
        post(client, b"done")
        check(False, "the answer came")
    except (ConnectionResetError, http.client.RemoteDisconnected):
        pass
    client.close()
    check_equal(post(client, b"again")[0], 200, "a new connection")
    check_equal((server.got, proxy.say("spoiled")), ([b"before", b"done", b"again"], "1"), "at the server")


@test(seconds=20)
def a_checksum_and_a_date_are_wrong_and_nothing_else(folder):
    _, proxy, client = http_world(folder)
    proxy.do("wrong-crc 2")
    for fits in (False, False, True):
        answer = post(client, b"body of it")
        check_equal((answer[0], answer[2], crc_fits(answer)), (200, b"body of it", fits), "checksum")
    for skew in (900, -86400 * 200, 0):
        proxy.do(f"skew {skew}")
        answer = post(client, b"x")
        check_equal(answer[::2], (200, b"x"), "answer")
        date = email.utils.parsedate_to_datetime(answer[1]["Date"]).timestamp()
        check(abs(date - skew - time.time()) < 60, "Date", answer[1]["Date"], skew)


@test(seconds=20)
def only_one_operation_is_meant(folder):
    server, proxy, client = http_world(folder)
    proxy.do("only UpdateItem")
    proxy.do("refuse 500 InternalServerError 100")
    statuses = [post(client, b"x", operation)[0] for operation in ("PutItem", "UpdateItem", "BigUpdateItem", "UpdateItems")]
    check_equal(statuses, [200, 500, 200, 200], "by operation")
    proxy.do("only any")
    check_equal(post(client, b"x")[0], 500, "any")
    proxy.do("heal")
    check_equal(post(client, b"x", "UpdateItem")[0], 200, "healed")
    check_equal(len(server.got), 4, "at the server")


@test(seconds=20)
def only_one_method_is_meant_where_there_is_no_target(folder):
    server, proxy, client = http_world(folder)
    proxy.do("only PUT")
    proxy.do("refuse 503 SlowDown 1")
    check_equal(post(client, b"x", "PUT_")[0], 200, "another method")
    status, headers, answer = put(client, b"no")
    check_equal((status, headers["Content-Type"]), (503, "application/xml"), "refused")
    check(b"<Error><Code>SlowDown</Code>" in answer, answer)
    check_equal(put(client, b"yes")[::2], (200, b"yes"), "after")
    check_equal((server.got, proxy.say("spoiled")), ([b"x", b"yes"], "1"), "at the server")


@test(seconds=20)
def messages_in_pieces_are_followed(folder):
    server, proxy, client = http_world(folder)
    client.connect()
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    proxy.do("refuse 503 ServiceUnavailable 1")
    for status, body in ((503, b"12345"), (200, b"67890")):
        for byte in b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n" + body:
            client.sock.sendall(bytes([byte]))
            time.sleep(0.001)
        answer = http.client.HTTPResponse(client.sock)
        answer.begin()
        check_equal(answer.status, status, body)
        answer.read()
    # Large ones, that fill it several times, between faults.
    big = os.urandom(1 << 20)
    for command, fits in (("wrong-crc 1", False), ("latency 20", True), ("wrong-crc 1", False)):
        proxy.do(command)
        answer = post(client, big)
        check_equal((answer[0], answer[2] == big, crc_fits(answer)), (200, True, fits), command)
    check_equal(server.got, [b"67890", big, big, big], "at the server")


@test(seconds=20)
def a_server_that_is_not_there_resets_its_clients(folder):
    proxy = FaultProxy(folder, free_port())
    try:
        how = how_it_ends(connect(proxy))
    except ConnectionResetError:
        how = "reset"
    check_equal(how, "reset", "nobody behind it")


@test(seconds=20)
def it_dies_with_its_parent(folder):
    ports = [free_port() for _ in range(3)]
    parent = spawn(["sh", "-c", f"{FaultProxy.PROGRAM} {ports[0]} {ports[1]} {ports[2]} & wait"])

    def listens():
        with contextlib.closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", ports[2])) == 0
    wait_until(listens, 5, "it listens")
    parent.kill()
    parent.wait()
    wait_until(lambda: not listens(), 5, "it is gone")


if __name__ == "__main__":
    main()
