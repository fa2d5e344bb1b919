#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes records.json: answers of GetRecords as bytes, with the records that are in them.

    pip install 'cbor2==5.6.5'
    tests/vectors/records/make_records.py > tests/vectors/records/records.json

Bodies are written by json and cbor2 from one model each, in the manners of AWS (blobs as bytes, milliseconds with
tag 1, absent members) and of the emulators (base64 text, seconds as a double, null members). `expect` is absent for
bytes that are no answer. Data stands as hex; `next` null is the end of the shard.
"""
import base64
import hashlib
import json
import random
import sys

import cbor2

MS = 1795223827896
KEYS = ["k", "ключ", "鍵", "🐟", 'quote" back\\ slash/', "tab\tline\n", " ", "x" * 40]
SEQUENCE = 49680414573595759865136095135580413368112465103170830338
aggregate_body = bytes(range(50))
AGGREGATE = bytes.fromhex("f3899ac2") + aggregate_body + hashlib.md5(aggregate_body).digest()
rng = random.Random(7)


def record(index, data, key):
    return {"SequenceNumber": str(SEQUENCE + index), "Data": data, "PartitionKey": key, "ms": MS + index}


MODELS = {
    "empty": ([], "AAA", 0, None),
    "one": ([record(0, b"hello", "k")], "AAAAAAAAAAHm+yZg14m3SOi6UwAQ3an7iPFF75fJ6EEL+fjxuzy0/s==", 7, None),
    "no data": ([record(0, b"", "k")], "A", 0, None),
    "keys": ([record(at, bytes([at]), key) for at, key in enumerate(KEYS)], "A", 12345678901, None),
    "sizes": ([record(at, rng.randbytes(at), "k") for at in range(20)], "A", 0, None),
    "large": ([record(0, rng.randbytes(3_000), "k"), record(1, b"x", "k")], "A", 0, None),
    "aggregate": ([record(0, AGGREGATE, "a"), record(1, AGGREGATE[:-1] + b"?", "a")], "A", 0, None),
    "end of a split": ([record(0, b"last", "k")], None, 0, ["shardId-000000000002", "shardId-000000000003"]),
    "end of a merge": ([], None, 0, ["shardId-000000000002"]),
    "end without children": ([], None, 0, None),
}


def expect(model):
    records, following, behind, children = model
    return {
        "records": [{"sequence": r["SequenceNumber"], "data": r["Data"].hex(), "key": r["PartitionKey"], "ms": r["ms"],
                     "aggregated": r["Data"] == AGGREGATE} for r in records],
        "next": following, "millis_behind": behind, "children": children or [],
    }


def body(model, data, time, nulls):
    records, following, behind, children = model
    answer = {"MillisBehindLatest": behind, "Records": [
        {"ApproximateArrivalTimestamp": time(r["ms"]), "Data": data(r["Data"]), "PartitionKey": r["PartitionKey"],
         "SequenceNumber": r["SequenceNumber"], **({"EncryptionType": None} if nulls else {})} for r in records]}
    if following is not None or nulls:
        answer["NextShardIterator"] = following
    if children is not None or nulls:
        answer["ChildShards"] = None if children is None else [
            {"ShardId": child, "ParentShards": ["shardId-000000000000"],
             "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "999"}} for child in children]
    return answer


def text(data):
    return base64.b64encode(data).decode()


def cases():
    for name, model in MODELS.items():
        for nulls in (False, True):
            told = f"{name}, {'null' if nulls else 'absent'} members"
            plain = body(model, text, lambda ms: ms / 1000, nulls)
            yield f"{told}, JSON", "json", json.dumps(plain).encode(), expect(model)
            yield f"{told}, JSON as UTF-8 with space", "json", \
                json.dumps(plain, ensure_ascii=False, indent=1).encode(), expect(model)
            escaped = json.dumps(plain, separators=(",", ":")).replace("/", "\\/").encode()
            yield f"{told}, JSON with escaped slashes", "json", escaped, expect(model)
            aws = body(model, bytes, lambda ms: cbor2.CBORTag(1, ms), nulls)
            yield f"{told}, CBOR of AWS", "cbor", cbor2.dumps(aws), expect(model)
            emulated = body(model, text, lambda ms: ms / 1000, nulls)
            yield f"{told}, CBOR of emulators", "cbor", cbor2.dumps(emulated), expect(model)
            untagged = body(model, text, int, nulls)
            yield f"{told}, CBOR sorted and untagged", "cbor", cbor2.dumps(untagged, canonical=True), expect(model)
    for name, answer in {
        "no records": {"NextShardIterator": "A"},
        "records that are no list": {"Records": {}},
        "a record without key": {"Records": [{"Data": "", "SequenceNumber": "1"}]},
        "a record without number": {"Records": [{"Data": "", "PartitionKey": "k"}]},
        "a record without data": {"Records": [{"PartitionKey": "k", "SequenceNumber": "1"}]},
        "a number that is none": {"Records": [{"Data": "", "PartitionKey": "k", "SequenceNumber": "0x1"}]},
        "a number that is too long": {"Records": [{"Data": "", "PartitionKey": "k", "SequenceNumber": "1" * 130}]},
        "a key that is too long": {"Records": [{"Data": "", "PartitionKey": "k" * 1025, "SequenceNumber": "1"}]},
        "data that is no base64": {"Records": [{"Data": "!!!!", "PartitionKey": "k", "SequenceNumber": "1"}]},
        "an iterator that is too long": {"Records": [], "NextShardIterator": "A" * 1025},
        "an error": {"__type": "ExpiredIteratorException", "message": "Iterator expired."},
    }.items():
        yield f"{name}, JSON", "json", json.dumps(answer).encode(), None
        yield f"{name}, CBOR", "cbor", cbor2.dumps(answer), None


def main():
    seen = []
    for name, kind, raw, meaning in cases():
        one = {"name": name, "type": kind, "base64": base64.b64encode(raw).decode()}
        if meaning is not None:
            one["expect"] = meaning
        seen.append(one)
    json.dump({"made_by": "make_records.py", "cases": seen}, sys.stdout, indent=0, ensure_ascii=True)
    sys.stdout.write("\n")


main()
