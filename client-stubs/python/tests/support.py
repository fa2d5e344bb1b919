# SPDX-License-Identifier: Apache-2.0
"""A server that says what a test tells it to, and the real sidecar."""

from __future__ import annotations

import base64
import collections
import contextlib
import http.server
import json
import os
import queue
import socket
import subprocess
import threading
import time
import urllib.request

from kinesis_sidecar import Consumer

PATIENCE = 60.0  # Seconds, for what hangs.


def wait_until(fact, what):
    until = time.monotonic() + PATIENCE
    while True:
        value = fact()
        if value:
            return value
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.01)


def record_line(number, attempt=1, batch="b1", data=b"{}", key="k", shard="shardId-000000000000"):
    return {"type": "record", "ack_id": f"a{number}.{attempt}", "batch_id": batch, "stream": "s", "shard_id": shard, "epoch": 1,
            "sequence_number": str(number), "sub_sequence_number": 0, "partition_key": key,
            "approximate_arrival_timestamp": "2026-01-01T00:00:00.000Z", "attempt": attempt,
            "data": base64.b64encode(data).decode()}


def consumer_of(server, **options):
    return Consumer("orders", url=server.url, **options)


def numbers(records):
    return [int(record.sequence_number) for record in records]


def handed_out(records, count):
    return [(int(record.sequence_number), record.attempt) for _, record in zip(range(count), records)]


SESSION = {"type": "session", "session": "orders", "client_id": "orders", "boot_id": "1", "max_in_flight": 1000,
           "max_in_flight_bytes": 1 << 24, "ack_deadline_ms": 60000, "heartbeat_ms": 10000}


class ScriptedServer:
    """Streams are answered by the items of `streams`: a list of lines (dicts) or bytes, or what `refuse` returns. A
    stream stays open after its last line until `say(None)`. Settle requests are kept in `settles`; `settle_answers` are
    used first."""

    def __init__(self):
        self.streams = queue.SimpleQueue()
        self.opened = []
        self.settles = []
        self.settle_answers = collections.deque()
        self.says_barriers = True
        self.deleted = []
        self.live = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.opened.append((self.path, dict(self.headers)))
                outer.stream(self)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.settles.append((body, dict(self.headers)))
                status, answer, headers = outer.settle_answers.popleft() if outer.settle_answers else (200, None, {})
                if status is None:
                    outer.hang_up(self)
                    return
                if answer is None:
                    answer = {"ok": len(body["settlements"]), "failed": [], "persisted": True, "positions": []}
                outer.answer(self, status, answer, headers)
                if "barrier" in body and status == 200 and outer.says_barriers:
                    outer.say({"type": "barrier", "barrier": body["barrier"]})

            def do_DELETE(self):
                outer.deleted.append(self.path)
                outer.answer(self, 200, {}, {})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @staticmethod
    def answer(handler, status, answer, headers):
        content = json.dumps(answer).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def stream(self, handler):
        items = self.streams.get()
        if isinstance(items, tuple):
            self.answer(handler, *items)
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        said = queue.SimpleQueue()
        for item in items:
            said.put(item)
        self.live.append(said)
        while (item := said.get()) is not None:
            content = item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n"
            with contextlib.suppress(OSError):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
                handler.wfile.flush()
        self.hang_up(handler)

    @staticmethod
    def hang_up(handler):
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    def say(self, item):
        """On the last stream; None ends it."""
        self.live[-1].put(item)

    def items(self):
        return [item for body, _ in self.settles for item in body["settlements"]]

    def outcomes(self):
        return [(item.get("ack_id") or item["batch_id"], item["outcome"]) for item in self.items() if item["outcome"] != "extend"]

    def close(self):
        for said in self.live:
            said.put(None)
        self.server.shutdown()
        self.server.server_close()


def refuse(status, code="", detail="refused", retryable=False, **headers):
    return status, {"code": code, "detail": detail, "retryable": retryable}, headers


def refuse_item(ack_id, reason):
    failure = {"ack_id": ack_id, "reason": reason, "message": "refused"}
    return 200, {"ok": 0, "failed": [failure], "persisted": False, "positions": []}, {}


NO_ANSWER = (None, None, {})  # The server takes the request and closes the connection.


class RealSidecar:
    """The binary KINESIS_SIDECAR_BIN on a local stream."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.port, ops = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.ops = f"http://127.0.0.1:{ops}"
        self.options = {"source": f"local:{folder}/stream.db", "stream": "demo", "application": "demo",
                        "dead-letters": f"sqlite:{folder}/letters.db", "initial-position": "trim_horizon", "worker-id": "w",
                        "lease-duration-ms": 2000, "retry-backoff-ms": 50, "listen": f"127.0.0.1:{self.port}",
                        "ops-listen": f"127.0.0.1:{ops}", **{name.replace("_", "-"): value for name, value in options.items()}}
        self.process = None

    def start(self):
        args = [word for name, value in self.options.items() for word in (f"--{name}", str(value))]
        with open(f"{self.folder}/sidecar.log", "ab") as log:
            self.process = subprocess.Popen([os.environ["KINESIS_SIDECAR_BIN"], *args], stdout=log, stderr=log)
        wait_until(self.is_ready, "the sidecar is ready")
        return self

    def is_ready(self):
        assert self.process.poll() is None, "the sidecar has ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(self.ops + "/readyz", timeout=5) as answer:
            return answer.status == 200
        return False

    def call(self, path, body=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def put(self, values, key=lambda number: f"key-{number % 10}"):
        entries = [{"PartitionKey": key(number), "Data": base64.b64encode(json.dumps(value).encode()).decode()}
                   for number, value in enumerate(values)]
        for at in range(0, len(entries), 500):
            assert self.call("/v1/local/records", {"Records": entries[at:at + 500]})["FailedRecordCount"] == 0

    def settled(self):
        return sum(shard["settled"] for shard in self.call("/v1/shards")["shards"])

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
