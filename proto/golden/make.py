#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py - makes the golden frames beside it with Google's protobuf for Python, not with our own code.

Needs protoc and the Python module `protobuf` of the same generation (3.20 or later):
    PYTHONPATH=<where protobuf is> proto/golden/make.py
Each NAME.bin is one StreamEvent behind its length as a varint, as GET /v1/records/stream carries it. The unit tests of
server/api/frame.c and server/api/control.c write the same events and compare bytes. tests/fuzz/corpus/ack_id gets two
ids to begin with. The ids are computed here a second time, by the words of server/api/ack_id.h.
"""

import base64
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MASK = (1 << 64) - 1


def siphash(key, message):
    """SipHash-2-4 (Aumasson and Bernstein 2012)."""
    v = [key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
         key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573]

    def turn(value, bits):
        return (value << bits | value >> 64 - bits) & MASK

    def rounds(count):
        for _ in range(count):
            v[0] = v[0] + v[1] & MASK
            v[2] = v[2] + v[3] & MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2] = v[2] + v[1] & MASK
            v[0] = v[0] + v[3] & MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def sealed(key, message):
    return base64.urlsafe_b64encode(message + siphash(key, message).to_bytes(8, "big")).decode().rstrip("=")


def head(kind, boot, session, session_epoch):
    return bytes([kind]) + struct.pack(">IBHI", boot, 0, session, session_epoch)


def place(shard, epoch, assignment, number):
    words = ((shard, 4), (epoch, 5), (assignment, 6), (number, 6))
    return b"".join(word.to_bytes(size, "big") for word, size in words)


def ack_id(key, boot, session, session_epoch, shard, epoch, assignment, number):
    return sealed(key, head(1, boot, session, session_epoch) + place(shard, epoch, assignment, number))


def batch_id(key, boot, session, session_epoch, shard, epoch, assignment, number, count):
    where = place(shard, epoch, assignment, number)
    return sealed(key, head(2, boot, session, session_epoch) + where + struct.pack(">I", count))


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def compiled():
    """The messages, compiled by protoc into a folder that is gone when we are."""
    folder = tempfile.TemporaryDirectory()
    names = [os.path.join(ROOT, "proto", "kinesis_sidecar", "v1", name) for name in
             ("record.proto", "problem.proto", "settle.proto")]
    subprocess.run(["protoc", "--proto_path", os.path.join(ROOT, "proto"), "--python_out", folder.name, *names],
                   check=True)
    sys.path.insert(0, folder.name)
    from kinesis_sidecar.v1 import record_pb2
    return folder, record_pb2


def events(pb):
    record = pb.Record(ack_id=ack_id((11, 22), 33, 1, 2, 3, 9, 1, 100), batch_id="batch", stream="the-stream",
                       shard_id="shardId-000000000003", epoch=9,
                       sequence_number="49590338271490256608559692538361571095921575989136588898",
                       partition_key="k\u00e9y", approximate_arrival_timestamp=1763685600123, attempt=4,
                       data=bytes(range(256)))
    part = pb.Record()
    part.CopyFrom(record)
    part.ack_id = ack_id((11, 22), 33, 1, 2, 3, 9, 1, 101)
    part.sub_sequence_number = 17
    part.aggregated = True
    part.data = b""
    again = pb.Record()
    again.CopyFrom(record)
    again.ack_id = ack_id((11, 22), 33, 1, 2, MASK & 0xffffffff, 0, 1, 100)
    again.epoch = 0
    again.redriven = True
    return {
        "record_redriven": pb.StreamEvent(record=again),
        "record_too_large": pb.StreamEvent(record_too_large=pb.RecordTooLarge(
            shard_id="shardId-000000000003", epoch=9, sequence_number="4959", sub_sequence_number=17,
            partition_key="k", bytes=5001, max_message_bytes=4096, max_message_bytes_wanted=7049)),
        "record": pb.StreamEvent(record=record),
        "record_part": pb.StreamEvent(record=part),
        "session": pb.StreamEvent(session=pb.SessionOpened(
            session="me", client_id="me", boot_id="00000000000000ab", max_in_flight=1000,
            max_in_flight_bytes=16 << 20, ack_deadline_ms=60000, heartbeat_ms=10000)),
        "heartbeat": pb.StreamEvent(heartbeat=pb.Heartbeat(in_flight=12, credit=88,
                                                           idle_reason=pb.IDLE_REASON_NO_DATA)),
        "draining": pb.StreamEvent(draining=pb.Draining(deadline=1763685600123)),
        "lease_returning": pb.StreamEvent(lease_returning=pb.LeaseReturning(
            shard_id="shardId-000000000003", deadline=1763685600123)),
        "lease_lost": pb.StreamEvent(lease_lost=pb.LeaseLost(shard_id="shardId-000000000003")),
        "ended": pb.StreamEvent(ended=pb.SessionEnded(reason=pb.SESSION_END_TAKEN_OVER)),
    }


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def main():
    folder, pb = compiled()
    with folder:
        for name, event in events(pb).items():
            message = event.SerializeToString(deterministic=True)
            write(os.path.join(HERE, name + ".bin"), varint(len(message)) + message)
    corpus = os.path.join(ROOT, "tests", "fuzz", "corpus", "ack_id")
    where = ((1, 2), 0x64656164, 7, 3, 70000, 12, 77, 123456789012)
    write(os.path.join(corpus, "ack"), ack_id(*where).encode())
    write(os.path.join(corpus, "batch"), batch_id(*where, 500).encode())


if __name__ == "__main__":
    main()
