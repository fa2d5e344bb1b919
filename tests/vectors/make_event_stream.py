#!/usr/bin/env python3
"""make_event_stream.py > event_stream.json - messages of event streams, and such as are none, with what they mean.

By the specification of Amazon Event Stream (smithy.io), with struct and zlib of Python; nothing of ours. Where botocore
is there, it must read each good one to the same headers and payload. (It is lenient with the others.)
SPDX-License-Identifier: Apache-2.0
"""

import json
import struct
import sys
import uuid
import zlib

NUMBERS = {2: ">b", 3: ">h", 4: ">i", 5: ">q", 8: ">q"}


def header(name, kind, value=None):
    head = bytes([len(name)]) + name.encode() + bytes([kind])
    if kind in NUMBERS:
        return head + struct.pack(NUMBERS[kind], value)
    if kind in (6, 7):
        value = bytes.fromhex(value) if kind == 6 else value.encode()
        return head + struct.pack(">H", len(value)) + value
    return head + (bytes.fromhex(value) if kind == 9 else b"")


def message(headers=b"", payload=b"", size=None, headers_size=None, prelude_flip=0, flip=0):
    size = 16 + len(headers) + len(payload) if size is None else size
    prelude = struct.pack(">II", size, len(headers) if headers_size is None else headers_size)
    body = prelude + struct.pack(">I", zlib.crc32(prelude) ^ prelude_flip) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body) ^ flip)


GOOD = {
    "nothing in it": ([], ""),
    "a payload alone": ([], "00ff7b7d"),
    "the least numbers": ([["a", 2, -128], ["b", 3, -32768], ["c", 4, -2**31], ["d", 5, -2**63], ["e", 8, -2**63]], ""),
    "the greatest numbers": ([["a", 2, 127], ["b", 3, 32767], ["c", 4, 2**31 - 1], ["d", 5, 2**63 - 1],
                              ["e", 8, 2**63 - 1]], ""),
    "truth, bytes, text and a name": ([["yes", 0, None], ["no", 1, None], ["bytes", 6, "00ff"], ["none", 6, ""],
                                       ["text", 7, "\u00e4\U0001f41f"], ["empty", 7, ""],
                                       ["id", 9, uuid.UUID(int=2**127 + 5).hex]], "2a"),
    "an event of a shard": ([[":event-type", 7, "SubscribeToShardEvent"], [":content-type", 7,
                             "application/x-amz-json-1.1"], [":message-type", 7, "event"]],
                            b'{"Records":[],"ContinuationSequenceNumber":"1","MillisBehindLatest":0}'.hex()),
    "the longest name": ([["n" * 255, 7, "x"]], ""),
    "a long text": ([["t", 7, "x" * 1000]], "00"),
}

ONE = header("a", 7, "b")
BAD = {
    "the prelude's checksum": message(ONE, b"x", prelude_flip=1),
    "the checksum": message(ONE, b"x", flip=1 << 31),
    "shorter than its frame": message(size=15),
    "headers longer than it": message(ONE, b"x", headers_size=len(ONE) + 2),
    "a length of 4 GiB": message(size=2**32 - 1),
    "a length beyond ours": message(size=(24 << 20) + 1),
    "headers beyond ours": message(size=1 << 20, headers_size=(128 << 10) + 1),
    "a header without a name": message(header("", 0)),
    "a type that is none": message(b"\x01a\x0a"),
    "a name that breaks off": message(b"\x05ab"),
    "a header without a type": message(b"\x01a"),
    "a number that breaks off": message(b"\x01a\x05\0\0\0\0\0\0\0"),
    "a text that breaks off": message(b"\x01a\x07\0\x02x"),
    "a length that breaks off": message(b"\x01a\x06\0"),
    "a name of 16 bytes that breaks off": message(b"\x01a\x09" + b"x" * 15),
    "headers that end within the payload": message(ONE, b"x", headers_size=len(ONE) + 1),
}


def check(good):
    try:
        from botocore.eventstream import EventStreamBuffer
    except ImportError:
        print("without botocore: not compared", file=sys.stderr)
        return

    def read(data):
        buffer = EventStreamBuffer()
        buffer.add_data(data)
        return list(buffer)
    for name, one in good.items():
        found, = read(bytes.fromhex(one["hex"]))
        assert found.payload.hex() == one["payload"], name
        assert list(found.headers) == [each[0] for each in one["headers"]], name


def main():
    good = {name: {"hex": message(b"".join(header(*one) for one in headers), bytes.fromhex(payload)).hex(),
                   "headers": headers, "payload": payload} for name, (headers, payload) in GOOD.items()}
    bad = {name: data.hex() for name, data in BAD.items()}
    check(good)
    json.dump({"good": good, "bad": bad}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
