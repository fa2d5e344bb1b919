# SPDX-License-Identifier: Apache-2.0
"""Records as apps see them. The outcome of a record is noted here and sent by the consumer."""

from __future__ import annotations

import binascii
import datetime
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._engine import Engine, Group

ACK, RETRY, DEAD_LETTER, DROP, EXTEND = "ack", "retry", "dead_letter", "drop", "extend"
TAKEN_BACK = "taken_back"  # By a retry of an earlier record: it is redelivered.
REASON_MAX = 500  # Characters. The sidecar keeps 1000 bytes.


class Settlement:
    """What an app decided about a record, other than an acknowledgement."""

    __slots__ = ("outcome", "delay_ms", "reason")

    def __init__(self, outcome: str, delay: float | None = None, reason: str = ""):
        self.outcome = outcome
        self.delay_ms = max(0, int(delay * 1000)) if delay else 0
        # Text that JSON or the sidecar refuses would refuse the other settlements of the request.
        self.reason = reason[:REASON_MAX].replace("\0", "?").encode("utf-8", "replace").decode()


class Record:
    """One record. `outcome` is None until the app, or the consumer for it, has decided."""

    __slots__ = ("outcome", "settlement", "begun", "processed", "barriers", "_engine", "_group", "_message", "_adopted")

    def __init__(self, message: Any, engine: Engine, group: Group):
        self.outcome: str | None = None
        self.settlement: Settlement | None = None
        self.begun = False        # The app has it.
        self.processed = False    # The engine has taken the outcome.
        self.barriers = engine.barriers_seen  # Before this record on the stream.
        self._engine = engine
        self._group = group
        self._message = message
        self._adopted: Record | None = None  # The redelivery that the outcome settles.

    # --- Settling ---

    def ack(self, persisted: bool = False) -> Any:
        """Acknowledges the record. `persisted` waits until the checkpoint in the lease table covers it (at most 10 s), and
        returns whether it does; with asyncio the result is awaitable."""
        if persisted:
            return self._engine.ack_persisted(self)
        if self.outcome is None:
            self.outcome = ACK
            self._engine.outcomes.append(self)
        return self._engine.done

    def retry(self, delay: float | None = None, reason: str = "") -> None:
        """Has the record delivered again, not before `delay` seconds; without it by the sidecar's own back-off."""
        self._settle(Settlement(RETRY, delay, reason))

    def dead_letter(self, reason: str = "") -> None:
        """Gives the record up and keeps it as a dead letter."""
        self._settle(Settlement(DEAD_LETTER, None, reason))

    def drop(self) -> None:
        """Gives the record up."""
        self._settle(Settlement(DROP))

    def extend(self, duration: float) -> None:
        """Moves the ack deadline to `duration` seconds from now."""
        if self.outcome is None:
            self._engine.extend(self, Settlement(EXTEND, duration))

    def _settle(self, settlement: Settlement) -> None:
        if self.outcome is None:
            self.outcome = settlement.outcome
            self.settlement = settlement
            self._engine.decided(self)

    # --- Content ---

    def json(self) -> Any:
        """The data parsed as JSON. Raises ValueError for other data."""
        return json.loads(self.data)

    @property
    def data(self) -> bytes:
        raise NotImplementedError

    @property
    def ack_id(self) -> str:
        raise NotImplementedError

    @property
    def stream(self) -> str:
        raise NotImplementedError

    @property
    def shard_id(self) -> str:
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def sequence_number(self) -> str:
        raise NotImplementedError

    @property
    def sub_sequence_number(self) -> int:
        raise NotImplementedError

    @property
    def partition_key(self) -> str:
        raise NotImplementedError

    @property
    def arrived_at(self) -> datetime.datetime | None:
        """The approximate arrival, in UTC; None if it is not known."""
        raise NotImplementedError

    @property
    def attempt(self) -> int:
        """Counts the deliveries in one lease epoch, from 1."""
        raise NotImplementedError

    @property
    def aggregated(self) -> bool:
        """A KPL aggregate that could not be taken apart."""
        raise NotImplementedError

    @property
    def redriven(self) -> bool:
        """A dead letter that is delivered again."""
        raise NotImplementedError

    @property
    def settle_id(self) -> str:
        """The ack_id of the last delivery."""
        return self.ack_id if self._adopted is None else self._adopted.ack_id

    @property
    def lane(self) -> int:
        """With `ordering="key"`: the number of the lane in the shard."""
        raise NotImplementedError

    @property
    def position(self) -> tuple[int, int]:
        """Orders the records of one shard."""
        return int(self.sequence_number), self.sub_sequence_number

    @property
    def identity(self) -> tuple[Any, ...]:
        """The same for every delivery of the record, until it is a dead letter that is delivered again."""
        return self.shard_id, self.sequence_number, self.sub_sequence_number, self.redriven

    def __repr__(self) -> str:
        return f"<Record {self.shard_id} {self.sequence_number} attempt {self.attempt}>"


def _of_json(name: str, default: Any) -> property:
    return property(lambda record: record._message.get(name, default))


class JsonRecord(Record):
    """A line of NDJSON."""

    __slots__ = ()

    @property
    def data(self) -> bytes:
        return binascii.a2b_base64(self._message["data"])

    @property
    def arrived_at(self) -> datetime.datetime | None:
        text = self._message.get("approximate_arrival_timestamp")
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None

    ack_id = _of_json("ack_id", "")
    stream = _of_json("stream", "")
    shard_id = _of_json("shard_id", "")
    epoch = _of_json("epoch", 0)
    sequence_number = _of_json("sequence_number", "")
    sub_sequence_number = _of_json("sub_sequence_number", 0)
    partition_key = _of_json("partition_key", "")
    attempt = _of_json("attempt", 1)
    aggregated = _of_json("aggregated", False)
    redriven = _of_json("redriven", False)
    lane = _of_json("lane", 0)


def _of_protobuf(name: str) -> property:
    return property(lambda record: getattr(record._message, name))


class ProtobufRecord(Record):
    """A message kinesis_sidecar.v1.Record."""

    __slots__ = ()

    @property
    def arrived_at(self) -> datetime.datetime | None:
        millis = self._message.approximate_arrival_timestamp
        return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc) if millis else None

    data = _of_protobuf("data")
    ack_id = _of_protobuf("ack_id")
    stream = _of_protobuf("stream")
    shard_id = _of_protobuf("shard_id")
    epoch = _of_protobuf("epoch")
    sequence_number = _of_protobuf("sequence_number")
    sub_sequence_number = _of_protobuf("sub_sequence_number")
    partition_key = _of_protobuf("partition_key")
    attempt = _of_protobuf("attempt")
    aggregated = _of_protobuf("aggregated")
    redriven = _of_protobuf("redriven")
    lane = _of_protobuf("lane")
