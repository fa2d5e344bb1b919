#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes cbor.json: CBOR bodies with what they mean, encoded by cbor2.

    pip install 'cbor2==5.6.5'
    tests/vectors/make_cbor.py > tests/vectors/cbor.json

Each case is one item. `expect` is what it means in JSON: bytes as {"bytes": hex}, a timestamp (tag 1) as
{"unix_ms": n}, undefined as null; absent for bytes that are no CBOR. `canonical` says that our writer gives these very
bytes. Items with indefinite lengths are put together here, because cbor2 writes none; cbor2 reads each of them back
before it is written out.
"""
import io
import json
import struct
import sys

import cbor2


def plain(value):
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, cbor2.CBORTag):
        if value.tag == 1:
            return {"unix_ms": round(value.value)}
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if value is cbor2.undefined else value


def own(name, value, canonical=True):
    return {"name": name, "hex": cbor2.dumps(value).hex(), "expect": plain(value), "canonical": canonical}


def hook(decoder, tag):
    return tag


def read_back(raw):
    # Tag 1 would become a datetime of seconds: it is taken off by hand, as AWS means milliseconds.
    return cbor2.loads(raw.replace(b"\xc1\x1b\x00\x00\x01", b"\x1b\x00\x00\x01"), tag_hook=hook)


def built(name, raw, expect):
    assert plain(read_back(raw)) == expect, name
    return {"name": name, "hex": raw.hex(), "expect": expect, "canonical": False}


def broken(name, raw, lenient=False):
    """No CBOR, or not one item. cbor2 refuses it too, or leaves something over; `lenient`: it lets pass what RFC 8949
    forbids."""
    stream = io.BytesIO(raw)
    try:
        cbor2.CBORDecoder(stream).decode()
        refused = stream.read(1) != b""
    except Exception:
        refused = True
    assert refused != lenient, name
    return {"name": name, "hex": raw.hex(), "canonical": False}


def text(value):
    return cbor2.dumps(value)


EDGES = [0, 1, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1,
         -1, -24, -25, -256, -257, -65536, -65537, -(2**32), -(2**32) - 1, -(2**63)]
TIME = 1787036486712
RECORD = {"SequenceNumber": "49545115243490985018280067714973144582180062593244200961", "Data": bytes(range(256)),
          "PartitionKey": "ключ 🔑", "EncryptionType": None}
INDEFINITE = (b"\xbf" + text("Records") + b"\x9f" + text(RECORD) + b"\xbf" + text("Data") + b"\x5f\x42ab\x40\x41c\xff" +
              text("PartitionKey") + b"\x7f" + text("ke") + text("") + text("y") + b"\xff\xff\xff" +
              text("MillisBehindLatest") + b"\x00\xff")

CASES = [
    *[own(f"integer_{value}", value) for value in EDGES],
    own("text_empty", ""), own("text_long", "ä" * 300), own("bytes_empty", b""), own("bytes_long", b"\xff" * 300),
    own("true", True), own("false", False), own("null", None), own("undefined", cbor2.undefined, canonical=False),
    own("array_empty", []), own("map_empty", {}), own("array", [1, [2, [3, "x"], b"y"], {}]),
    own("map_of_300", {f"key-{number:03}": number for number in range(300)}),
    own("get_records", {"Records": [RECORD, RECORD], "NextShardIterator": "AAA" * 40, "MillisBehindLatest": 123}),
    own("get_shard_iterator", {"StreamName": "s", "ShardId": "shardId-000000000000", "ShardIteratorType": "LATEST"}),
    own("tags_are_skipped", cbor2.CBORTag(55799, {"a": cbor2.CBORTag(37, b"x" * 16)}), canonical=False),
    own("timestamp", {"Timestamp": cbor2.CBORTag(1, TIME)}),
    own("timestamp_before_1970", {"Timestamp": cbor2.CBORTag(1, -TIME)}),
    built("indefinite_everything", INDEFINITE,
          {"Records": [plain(RECORD), {"Data": {"bytes": b"abc".hex()}, "PartitionKey": "key"}],
           "MillisBehindLatest": 0}),
    built("indefinite_empty", b"\x9f\xbf\xff\x9f\xff\x5f\xff\x7f\xff\xff", [{}, [], {"bytes": ""}, ""]),
    built("length_in_8_bytes", b"\x9b" + struct.pack(">Q", 1) + b"\x7b" + struct.pack(">Q", 2) + b"hi", ["hi"]),
    built("deep_but_allowed", b"\x81" * 31 + b"\x01", json.loads("[" * 31 + "1" + "]" * 31)),
    broken("nothing", b""),
    broken("half_a_head", b"\x19\x01"),
    broken("text_too_short", b"\x64abc"),
    broken("text_no_utf8", b"\x62\xff\xfe"),
    broken("text_half_a_character", b"\x61\xc3"),
    broken("chunk_half_a_character", b"\x7f\x61\xc3\x61\xa4\xff"),
    broken("chunk_of_other_type", b"\x7f\x41a\xff"),
    broken("chunk_within_chunk", b"\x7f\x7f\x61a\xff\xff"),
    broken("chunks_without_end", b"\x5f\x41a"),
    broken("array_too_short", b"\x83\x01\x02"),
    broken("map_without_value", b"\xbf\x61a\xff"),
    broken("map_too_short", b"\xa2\x61a\x01"),
    broken("array_of_2_to_the_64", b"\x9b" + b"\xff" * 8),
    broken("bytes_of_2_to_the_63", b"\x5b\x80" + b"\x00" * 7),
    broken("reserved_head_28", b"\x1c"), broken("reserved_head_29", b"\x3d"), broken("reserved_head_30", b"\x5e"),
    broken("indefinite_integer", b"\x1f"), broken("indefinite_tag", b"\xdf\x01"),
    broken("break_alone", b"\xff", lenient=True), broken("break_in_definite", b"\x82\x01\xff", lenient=True),
    broken("tag_without_item", b"\xc1"), broken("simple_below_32_in_two_bytes", b"\xf8\x14", lenient=True),
    broken("more_than_one_item", b"\x01\x02"),
]

if __name__ == "__main__":
    json.dump({"origin": "make_cbor.py with cbor2 5.6.5", "cases": CASES}, sys.stdout, indent=1)
    sys.stdout.write("\n")
