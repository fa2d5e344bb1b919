# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as bytes, without a socket: requests, and a parser for responses. The sync and the asyncio client share it."""

from __future__ import annotations

import json
import os
import urllib.parse
from typing import Any

from ._errors import SidecarError

DEFAULT_URL = "http://127.0.0.1:8990"
HEAD_BYTES_MAX = 64 << 10


class Address:
    """Where the sidecar listens: `http://HOST:PORT` or `unix:/PATH`."""

    def __init__(self, url: str | None):
        url = url or os.environ.get("KINESIS_SIDECAR_URL") or DEFAULT_URL
        self.url = url
        self.path: str | None = None
        self.host, self.port = "localhost", 80
        if url.startswith("unix:"):
            self.path = url[len("unix:"):]
            if not self.path.startswith("/"):
                raise ValueError(f"the path of a Unix socket must be absolute, got {url}")
            return
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"the address must be http://HOST:PORT or unix:/PATH, got {url}")
        self.host, self.port = parts.hostname, parts.port or 80

    @property
    def host_header(self) -> str:
        if self.path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Token:
    """The bearer token in a file. The file is read for each request, because tokens are rotated."""

    def __init__(self, path: str | None):
        self.path = path or os.environ.get("KINESIS_SIDECAR_TOKEN_FILE")

    def read(self) -> str:
        if not self.path:
            return ""
        with open(self.path, encoding="utf-8") as file:
            return file.read().strip()


def target_of(path: str, query: dict[str, Any]) -> str:
    pairs = {name: value for name, value in query.items() if value is not None}
    return path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")


def request_bytes(address: Address, token: str, method: str, target: str, body: Any = None, accept: str = "application/json") -> bytes:
    """One request. `body` is sent as JSON."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: {address.host_header}\r\nAccept: {accept}\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    if body is not None:
        head += "Content-Type: application/json\r\n"
    if body is not None or method != "GET":
        head += f"Content-Length: {len(content)}\r\n"
    return head.encode("latin-1") + b"\r\n" + content


class Response:
    """Parses one response. `feed` returns the bytes of the body that are new; a stream has no end."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = False
        self.keeps_connection = True
        self._buffer = bytearray()
        self._left = 0          # Bytes of the body, or of the chunk, that are to come; -1: until the connection ends.
        self._chunked = False
        self._in_chunk = False

    def feed(self, data: bytes) -> bytes:
        if not self.status:
            self._buffer += data
            if not self._read_head():
                return b""
            data = bytes(self._buffer)
            self._buffer = bytearray()
        if self._chunked:
            return self._feed_chunks(data)
        return self._feed_plain(data)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise ValueError("the head of the response is too long")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[:end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise ValueError(f"not a response of HTTP/1.1: {lines[0][:80]!r}")
        if words[1].startswith("1"):
            return self._read_head()  # 100 Continue.
        self.status = int(words[1])
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        self.keeps_connection = "close" not in self.headers.get("connection", "").lower()
        self._left = -1
        if not self._chunked and "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
        if self.status == 204:
            self._left = 0
        self.complete = self._left == 0 and not self._chunked
        return True

    def _feed_plain(self, data: bytes) -> bytes:
        if self._left < 0:
            return data
        body = data[:self._left]
        self._left -= len(body)
        self.complete = self._left == 0
        return body

    def _feed_chunks(self, data: bytes) -> bytes:
        if self._in_chunk and len(data) < self._left:  # The usual case of a large chunk.
            self._left -= len(data)
            return data
        buffer = bytes(self._buffer) + data if self._buffer else data
        parts = []
        at = 0
        while True:
            if self._in_chunk:
                part = buffer[at:at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                if self._left > 0:
                    break
                if len(buffer) < at + 2:
                    break
                at += 2
                self._in_chunk = False
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            self._left = int(buffer[at:end].split(b";")[0], 16)
            at = end + 2
            if self._left == 0:
                self.complete = True
                break
            self._in_chunk = True
        self._buffer = bytearray(buffer[at:])
        if len(self._buffer) > HEAD_BYTES_MAX:
            raise ValueError("the head of a chunk is too long")
        return parts[0] if len(parts) == 1 else b"".join(parts)


def result_of(response: Response, content: bytes) -> dict[str, Any]:
    """The JSON of a response. Raises SidecarError for a refusal."""
    if response.status >= 400:
        raise refusal(response, content)
    return json.loads(content) if content else {}


def refusal(response: Response, content: bytes) -> SidecarError:
    """The error of the API that a response carries; other bodies give an error without detail."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    try:
        retry_after = float(response.headers.get("retry-after", ""))
    except ValueError:
        retry_after = None
    return SidecarError(response.status, problem, retry_after)
