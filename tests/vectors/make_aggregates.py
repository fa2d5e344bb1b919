#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes aggregates.json: records as the Kinesis Producer Library packs them, with the user records that are in them.

    pip install 'aws-kinesis-agg==1.2.3' 'protobuf==7.36.2' 'six==1.17.0'
    tests/vectors/make_aggregates.py > tests/vectors/aggregates.json

Packed by aws_kinesis_agg, or, where that has no way to say it, by protobuf's own writer and by hand; what is in them is
what protobuf's reader and hashlib say. `records` is absent for what cannot be opened, and `plain` says that it is no
aggregate at all. A case that protobuf would read and we do not is marked `stricter`, with the reason in its name.
"""
import base64
import hashlib
import json
import os
import random
import sys

import aws_kinesis_agg
from google.protobuf.message import DecodeError

sys.path.append(os.path.dirname(aws_kinesis_agg.__file__))  # Its generated files look for each other there.
from aws_kinesis_agg.aggregator import AggRecord  # noqa: E402
from aws_kinesis_agg.messages_pb2 import AggregatedRecord  # noqa: E402

MAGIC = bytes.fromhex("f3899ac2")
LAST_HASH = 2**128 - 1
rng = random.Random(11)


def packed(*records):
    """By the library: (key, data) or (key, data, hash key)."""
    aggregate = AggRecord()
    for record in records:
        assert aggregate.add_user_record(*record)
    return aggregate.get_contents()[2]


def framed(message):
    return MAGIC + message + hashlib.md5(message).digest()


def message(keys=(), hashes=(), records=()):
    """By protobuf: records are (index of key, data) or (index of key, data, index of hash key)."""
    made = AggregatedRecord(partition_key_table=keys, explicit_hash_key_table=hashes)
    for key, data, *more in records:
        record = made.records.add(partition_key_index=key, data=data)
        if more:
            record.explicit_hash_key_index = more[0]
    return made.SerializePartialToString()


def tagged():
    made = AggregatedRecord(partition_key_table=["k"])
    record = made.records.add(partition_key_index=0, data=b"with tags")
    record.tags.add(key="color", value="blue")
    record.tags.add(key="only a name")
    return made.SerializeToString()


def bytes_field(number, content):
    assert number < 16 and len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def read(raw):
    """What protobuf and hashlib find in it; None if it cannot be read, or leads nowhere."""
    body = raw[4:-16]
    assert raw[:4] == MAGIC and body and hashlib.md5(body).digest() == raw[-16:]
    try:
        aggregate = AggregatedRecord.FromString(body)
    except DecodeError:
        return None
    found = []
    if not aggregate.IsInitialized():
        return None
    for record in aggregate.records:
        if record.partition_key_index >= len(aggregate.partition_key_table):
            return None
        key = aggregate.partition_key_table[record.partition_key_index]
        # What is no UTF-8 comes as bytes.
        hashed = hashlib.md5(key.encode() if isinstance(key, str) else key)
        effective, explicit = int(hashed.hexdigest(), 16), None
        if record.HasField("explicit_hash_key_index"):
            if record.explicit_hash_key_index >= len(aggregate.explicit_hash_key_table):
                return None
            explicit = aggregate.explicit_hash_key_table[record.explicit_hash_key_index]
            if not explicit.isdigit() or int(explicit) > LAST_HASH:
                return None
            effective = int(explicit)
        found.append({"key": key, "data": base64.b64encode(record.data).decode(), "hash": explicit,
                      "effective": str(effective)})
    return found


def opened(name, raw):
    records = read(raw)
    assert records is not None, name
    return {"name": name, "base64": base64.b64encode(raw).decode(), "records": records}


def broken(name, body, stricter=False):
    raw = framed(body)
    assert (read(raw) is not None) == stricter, name
    return {"name": name, "base64": base64.b64encode(raw).decode(), **({"stricter": True} if stricter else {})}


def plain(name, raw):
    return {"name": name, "base64": base64.b64encode(raw).decode(), "plain": True}


KEYS = ["k", "ключ", "鍵", "🐟", 'quote" back\\ slash/', "tab\tline\n", " ", "x" * 256, "鍵" * 256]
FEW = message(["a", "b"], ["7"], [(0, b"one"), (1, b"two", 0), (0, b"")])

CASES = [
    opened("one record", packed(("k", b"hello"))),
    opened("one key for all", packed(*[("k", bytes([at])) for at in range(20)])),
    opened("odd keys", packed(*[(key, b"data") for key in KEYS])),
    opened("an empty key", packed(("", b"data"))),
    opened("empty data", packed(("k", b""), ("l", b""))),
    opened("hash keys", packed(("a", b"1", "0"), ("b", b"2", str(LAST_HASH)), ("a", b"3"), ("c", b"4", "0"))),
    opened("indexes of two bytes", packed(*[(f"key-{at}", b"x", str(at)) for at in range(300)])),
    opened("data of 20 KB", packed(("k", rng.randbytes(20_000)), ("k", b"behind it"))),
    opened("500 records", packed(*[(f"key-{at % 50}", rng.randbytes(at % 8)) for at in range(500)])),
    opened("no records", framed(message(["k"], ["1"]))),
    opened("keys that no record uses", framed(message(["a", "b", "c"], ["1", "2"], [(2, b"x", 1)]))),
    opened("tags", framed(tagged())),
    opened("an aggregate within an aggregate", packed(("k", packed(("inner", b"data"))))),
    opened("tables behind the records", framed(message(records=[(1, b"x", 0), (0, b"y")]) +
                                               message(["a", "b"], ["9"]))),
    opened("tables and records in turns", framed(message(["a"], [], [(1, b"x")]) +
                                                 message(["b"], ["9"], [(0, b"y", 0)]))),
    opened("unknown fields", framed(bytes_field(4, b"later") + b"\x28\x96\x01" + b"\x318 bytes." + b"\x3dfour" + FEW +
                                    bytes_field(15, b""))),
    opened("unknown fields of a record", framed(message(["k"]) + bytes_field(
        3, b"\x08\x00" + bytes_field(5, b"later") + b"\x318 bytes." + b"\x3dfour" + bytes_field(3, b"data")))),
    opened("known fields of another wire type", framed(b"\x08\x05" + b"\x15four" + FEW + b"\x198 bytes.")),
    opened("the last of the same fields counts", framed(message(["a", "b"]) + bytes_field(
        3, b"\x08\x00\x08\x01" + bytes_field(3, b"first") + bytes_field(3, b"last")))),
    opened("numbers longer than they need be", framed(
        b"\x8a\x00\x81\x00a" + b"\x1a\x8a\x80\x00" + b"\x08\x80\x80\x00" + b"\x1a\x83\x00abc")),
    broken("an index without a key", message(["a"], [], [(0, b"x"), (1, b"y")])),
    broken("an index without a hash key", message(["a"], ["1"], [(0, b"x", 1)])),
    broken("an index of 2^32", message(["a"], [], [(2**32, b"x")])),
    broken("an index of 2^64 - 1", message(["a"], [], [(2**64 - 1, b"x")])),
    broken("a hash key index of 2^64 - 1", message(["a"], ["1"], [(0, b"x", 2**64 - 1)])),
    broken("records without keys", message([], [], [(0, b"x")])),
    broken("a record without a key index", message(["a"]) + bytes_field(3, bytes_field(3, b"data"))),
    broken("a record without data", message(["a"]) + bytes_field(3, b"\x08\x00")),
    broken("an empty record", message(["a"]) + bytes_field(3, b"")),
    broken("a hash key that is no number", message(["a"], ["seven"], [(0, b"x", 0)])),
    broken("a negative hash key", message(["a"], ["-1"], [(0, b"x", 0)])),
    broken("an empty hash key", message(["a"], [""], [(0, b"x", 0)])),
    broken("a hash key of 2^128", message(["a"], [str(LAST_HASH + 1)], [(0, b"x", 0)])),
    broken("a hash key with leading zeros, which Kinesis takes none of", message(["a"], ["007"], [(0, b"x", 0)]), True),
    broken("an unused hash key that is no number", message(["a"], ["1", "x"], [(0, b"x", 0)]), True),
    broken("a key beyond 256 characters of 4 bytes", message(["x" * 1025], [], [(0, b"x")]), True),
    broken("a key with a NUL, which no app could be told", message(["a\0b"], [], [(0, b"x")]), True),
    broken("a key that is no UTF-8", bytes_field(1, b"\xff\xfe") + message(records=[(0, b"x")]), True),
    broken("a group, which nobody writes", message(["a"], [], [(0, b"x")]) + b"\x23\x24", True),
    broken("the end of a group alone", message(["a"], [], [(0, b"x")]) + b"\x24"),
    broken("wire type 6", message(["a"], [], [(0, b"x")]) + b"\x26"),
    broken("field 0", message(["a"], [], [(0, b"x")]) + b"\x02\x00"),
    broken("a field number beyond 2^29", message(["a"]) + b"\x82\x80\x80\x80\x10\x00"),
    broken("a length beyond the end", message(["a"]) + b"\x1a\x7f\x08\x00"),
    broken("a length of 2^64 - 1", message(["a"]) + b"\x1a" + b"\xff" * 9 + b"\x01"),
    broken("a length within a record beyond it", message(["a"]) + b"\x1a\x06\x08\x00\x1a\x03ab" + b"c"),
    broken("a number of 11 bytes", message(["a"]) + b"\x28" + b"\x80" * 10 + b"\x01"),
    broken("half a tag", message(["a"]) + b"\x9a"),
    broken("half of 8 bytes", message(["a"]) + b"\x31four"),
    broken("half of 4 bytes", message(["a"]) + b"\x35no"),
    *[broken(f"cut after {size} bytes", FEW[:size]) for size in (1, 2, 4, 5, 8, 10, 14, 20, 26)],
    broken("noise", rng.randbytes(100)),
    plain("nothing", b""),
    plain("three bytes of the magic", MAGIC[:3]),
    plain("the magic alone", MAGIC),
    plain("the magic and a digest of nothing", framed(b"")),
    plain("another magic", b"\xf3\x89\x9a\xc3" + FEW + hashlib.md5(FEW).digest()),
    plain("another digest", MAGIC + FEW + hashlib.md5(FEW + b"x").digest()),
    plain("a digest over the magic, too", MAGIC + FEW + hashlib.md5(MAGIC + FEW).digest()),
    plain("text", b"hello world, this is a record"),
]

if __name__ == "__main__":
    assert aws_kinesis_agg.MAGIC == MAGIC
    lines = ",\n".join(json.dumps(case) for case in CASES)
    sys.stdout.write('{"origin": "make_aggregates.py with aws-kinesis-agg 1.2.3 and protobuf 7.36.2", "cases": [\n')
    sys.stdout.write(lines + "\n]}\n")
