# SPDX-License-Identifier: Apache-2.0
"""A door to DynamoDB that remembers what went through it: each form of a request once, with the answer it had."""

import http.client
import http.server
import json
import threading
import urllib.parse


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A member that is killed leaves its connections as they are."""


class Recorder:
    """Listens on a free port of 127.0.0.1 (`url`); `forms` are the requests in the order in which they first came."""

    def __init__(self, target):
        self.target = urllib.parse.urlparse(target).netloc
        self.forms, self.lock = {}, threading.Lock()
        recorder = self

        class Door(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                recorder.forward(self)

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Door)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def forward(self, door):
        body = door.rfile.read(int(door.headers["Content-Length"]))
        headers = {name: value for name, value in door.headers.items() if name.lower() not in ("connection", "content-length")}
        connection = http.client.HTTPConnection(self.target, timeout=60)
        connection.request("POST", "/", body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        self.note(door.headers["X-Amz-Target"].split(".")[1], json.loads(body), response.status, json.loads(answer or b"{}"))
        door.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                door.send_header(name, value)
        door.send_header("Content-Length", str(len(answer)))
        door.end_headers()
        door.wfile.write(answer)

    def note(self, operation, request, status, answer):
        error = answer.get("__type", "").split("#")[-1]
        form = json.dumps([operation, shape(request), error], sort_keys=True)
        with self.lock:
            known = self.forms.setdefault(form, {"operation": operation, "request": request, "status": status,
                                                 **({"error": error} if error else {}), "times": 0})
            known["times"] += 1


def shape(value, name=""):
    """What is left when the values are taken out: members, types, expressions and words that are no values."""
    if isinstance(value, dict):
        return {key: shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(inner), sort_keys=True) for inner in value})
    if name in ("S", "N", "B"):
        return value if value in ("SHARD_END", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "NULL", "Leader", "") else name
    return value if name.endswith("Expression") or name in ("Action", "ReturnValues", "IndexName") else name
