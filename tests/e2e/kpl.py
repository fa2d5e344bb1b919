# SPDX-License-Identifier: Apache-2.0
"""Packs records as the Kinesis Producer Library does: aggregation-format.md of awslabs/amazon-kinesis-producer."""

import hashlib

MAGIC = bytes.fromhex("f3899ac2")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def framed(message):
    return MAGIC + message + hashlib.md5(message).digest()


def pack(records):
    """One record of many: (key, data) or (key, data, explicit hash key)."""
    keys = list(dict.fromkeys(record[0] for record in records))
    hash_keys = list(dict.fromkeys(record[2] for record in records if len(record) > 2))
    place = {key: varint(at) for at, key in enumerate(keys)}
    hash_place = {key: varint(at) for at, key in enumerate(hash_keys)}
    message = [text(1, key.encode()) for key in keys] + [text(2, key.encode()) for key in hash_keys]
    for key, data, *hash_key in records:
        record = b"\x08" + place[key]
        if hash_key:
            record += b"\x10" + hash_place[hash_key[0]]
        message.append(text(3, record + text(3, data)))
    return framed(b"".join(message))
