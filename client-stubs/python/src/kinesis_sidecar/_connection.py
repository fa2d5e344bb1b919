# SPDX-License-Identifier: Apache-2.0
"""Blocking connections to the sidecar."""

from __future__ import annotations

import socket
from typing import Any

from ._http import Response, request_bytes, result_of
from ._options import Options

CONNECT_SECONDS = 5.0   # The sidecar is on this machine: it answers at once or not at all.
READ_BYTES = 256 << 10


def connect(options: Options, seconds: float = CONNECT_SECONDS) -> socket.socket:
    address = options.address
    if address.path is None:
        connection = socket.create_connection((address.host, address.port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(address.path)
    except OSError:
        connection.close()
        raise
    return connection


class Caller:
    """Requests and their JSON answers, one at a time, over a connection that is kept."""

    def __init__(self, options: Options):
        self.options = options
        self.connection: socket.socket | None = None

    def call(self, method: str, target: str, body: Any = None, seconds: float = CONNECT_SECONDS) -> dict[str, Any]:
        """Raises SidecarError, OSError or ValueError. A kept connection may have been closed while it was idle: then the
        request is sent once more. The requests of this package may all be repeated."""
        kept = self.connection is not None
        try:
            return self._exchange(method, target, body, seconds)
        except socket.timeout:
            raise
        except OSError:
            if not kept:
                raise
        return self._exchange(method, target, body, seconds)

    def _exchange(self, method: str, target: str, body: Any, seconds: float) -> dict[str, Any]:
        data = request_bytes(self.options.address, self.options.token.read(), method, target, body)
        response = Response()
        parts = []
        try:
            if self.connection is None:
                self.connection = connect(self.options)
            self.connection.settimeout(seconds)
            self.connection.sendall(data)
            while not response.complete:
                received = self.connection.recv(READ_BYTES)
                if not received:
                    raise ConnectionError("the sidecar closed the connection")
                parts.append(response.feed(received))
        except BaseException:
            self.close()
            raise
        if not response.keeps_connection:
            self.close()
        return result_of(response, b"".join(parts))

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
