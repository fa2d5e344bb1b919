# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frame by frame (RFC 9113), for peers that no library would be: requests without Huffman codes, answers as frames."""

import socket
import struct
import time

from lib import PATIENCE, check

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def line(name, value, kept=False):
    """A header line of literals (RFC 7541, sections 6.2.1 and 6.2.2); the table has it from then on if it is `kept`."""
    def text(part):
        size, out = len(part), b""
        if size < 127:
            return bytes([size]) + part
        size -= 127
        while size >= 128:
            out, size = out + bytes([size % 128 + 128]), size // 128
        return bytes([127]) + out + bytes([size]) + part
    return (b"\x40" if kept else b"\0") + text(name.encode()) + text(value.encode())


def block(path, method="GET", **more):
    lines = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
    lines += [(name.replace("_", "-"), str(value)) for name, value in more.items()]
    return b"".join(line(name, value) for name, value in lines)


class Peer:
    """A connection that says only what it is told to say, and remembers the frames that came."""

    def __init__(self, port, settings=b"", preface=True, receive_bytes=1 << 20):
        """`receive_bytes`: at most so many are taken at once; the receive buffer is not larger if they are few."""
        self.receive_bytes = receive_bytes
        self.socket = socket.socket()
        if receive_bytes < 1 << 20:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(20 * PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        self.bytes = b""
        self.frames = []  # (kind, flags, stream, payload)
        self.closed = False
        if preface:
            self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, stream, path, method="GET", end=True, **more):
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(path, method, **more)))

    def look(self, wait=0.0):
        """Takes what has come."""
        self.socket.settimeout(wait or 0.001)
        try:
            part = self.socket.recv(self.receive_bytes)
            self.closed = self.closed or not part
            self.bytes += part
        except TimeoutError:
            pass
        except OSError:
            self.closed = True
        while len(self.bytes) >= 9 and len(self.bytes) >= 9 + int.from_bytes(self.bytes[:3], "big"):
            size = int.from_bytes(self.bytes[:3], "big")
            kind, flags = self.bytes[3:5]
            stream = int.from_bytes(self.bytes[5:9], "big")
            self.frames.append((kind, flags, stream, self.bytes[9:9 + size]))
            self.bytes = self.bytes[9 + size:]
        self.socket.settimeout(20 * PATIENCE)

    def until(self, fact, seconds, what):
        end = time.monotonic() + seconds * PATIENCE
        while not fact():
            check(time.monotonic() < end, f"not within {seconds} s: {what}; came:", [f[:3] for f in self.frames][-20:])
            check(not self.closed or fact(), f"closed before: {what}; came:", [f[:3] for f in self.frames][-20:])
            self.look(0.05)

    def has(self, kind, stream=None, flag=0):
        return any(f[0] == kind and stream in (None, f[2]) and f[1] & flag == flag for f in self.frames)

    def until_closed(self, seconds, what):
        end = time.monotonic() + seconds * PATIENCE
        while not self.closed:
            check(time.monotonic() < end, f"not closed within {seconds} s: {what}")
            self.look(0.05)

    def goaway(self):
        """The error of the last GOAWAY, or None."""
        errors = [int.from_bytes(f[3][4:8], "big") for f in self.frames if f[0] == GOAWAY]
        return errors[-1] if errors else None

    def status(self, stream):
        """Of an answer, by the first byte of its block: enough for the codes of the static table."""
        codes = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
        first = next((f[3][0] for f in self.frames if f[0] == HEADERS and f[2] == stream), None)
        return codes.get(first, first)

    def body(self, stream):
        return b"".join(f[3] for f in self.frames if f[0] == DATA and f[2] == stream)

    def close(self):
        self.socket.close()
