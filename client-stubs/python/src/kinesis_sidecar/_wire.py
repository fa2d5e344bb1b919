# SPDX-License-Identifier: Apache-2.0
"""The two encodings of the stream. A decoder turns bytes into messages, in order: `(batch_id, message, bytes)` for a record,
`(None, event, 0)` for a control event. Events are dicts with "type", the same in both encodings."""

from __future__ import annotations

import datetime
import json
from typing import Any, Iterator, Optional, Tuple

from ._record import JsonRecord, ProtobufRecord

try:
    from google.protobuf.message import DecodeError
    from .v1.record_pb2 import Record as _Record, StreamEvent as _StreamEvent
    HAS_PROTOBUF = True
except ImportError:  # The package works without protobuf; it costs more CPU then.
    HAS_PROTOBUF = False

FRAME_BYTES_MAX = 32 << 20
Message = Tuple[Optional[str], Any, int]


class JsonDecoder:
    media_type = "application/x-ndjson"
    record_type = JsonRecord

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        lines = (self._rest + data).split(b"\n") if self._rest else data.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > FRAME_BYTES_MAX:
            raise ValueError(f"a line has more than {FRAME_BYTES_MAX} bytes")
        loads = json.loads
        for line in lines:
            if not line:
                continue
            message = loads(line)
            if not isinstance(message, dict):
                raise ValueError("a line is not a JSON object")
            if message.get("type", "record") != "record":
                yield None, message, 0
            elif "batch_id" in message and "shard_id" in message:
                yield message["batch_id"], message, len(line)
            else:
                raise ValueError("a record has no batch_id or no shard_id")


class ProtobufDecoder:
    media_type = "application/x-protobuf"
    record_type = ProtobufRecord
    _RECORD_TAG = 0x12  # StreamEvent.record: field 2, with a length.

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        if self._rest:
            data = self._rest + data
        end = len(data)
        at = 0
        parse: Any = _Record.FromString  # Its types know bytes alone; it takes views as well.
        parse_event: Any = _StreamEvent.FromString
        view = memoryview(data)
        try:
            while at < end:
                size, begin = _varint(data, at, end)
                if begin == 0 or begin + size > end:
                    break
                at = begin + size
                if size and data[begin] == self._RECORD_TAG:
                    length, body = _varint(data, begin + 1, at)
                    if body + length == at:
                        record = parse(view[body:at])
                        yield record.batch_id, record, length
                        continue
                yield None, _event(parse_event(view[begin:at])), 0
        except DecodeError as err:
            raise ValueError(f"a message cannot be parsed: {err}") from err
        self._rest = data[at:]


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number and the place after it; place 0: it is not complete."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > FRAME_BYTES_MAX:
                raise ValueError(f"a message has more than {FRAME_BYTES_MAX} bytes")
            return value, at
        shift += 7
        if shift > 28:
            raise ValueError("the length of a message is damaged")
    return 0, 0


def _event(event: Any) -> dict[str, Any]:
    kind = event.WhichOneof("event")
    if kind is None:
        return {"type": "unknown"}
    message = getattr(event, kind)
    found: dict[str, Any] = {"type": kind}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.enum_type is not None:
            value = _enum_word(field.enum_type, value)
        elif field.name == "deadline":
            value = datetime.datetime.fromtimestamp(value / 1000, datetime.timezone.utc).isoformat(
                timespec="milliseconds").replace("+00:00", "Z")
        found[field.name] = value
    return found


def _enum_word(enum: Any, number: int) -> str:
    """As JSON writes it: SESSION_END_TAKEN_OVER is `taken_over`."""
    value = enum.values_by_number.get(number)
    if value is None:
        return ""
    prefix = "".join("_" + letter if letter.isupper() else letter.upper() for letter in enum.name).lstrip("_") + "_"
    word = value.name[len(prefix):].lower()
    return "" if word == "unspecified" else word


def decoder() -> JsonDecoder | ProtobufDecoder:
    return ProtobufDecoder() if HAS_PROTOBUF else JsonDecoder()
