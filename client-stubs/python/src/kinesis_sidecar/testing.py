# SPDX-License-Identifier: Apache-2.0
"""Consumers without a sidecar, for the tests of an app.

    from kinesis_sidecar.testing import FakeConsumer, make_record

    consumer = FakeConsumer([make_record({"id": 1}), make_record(b"not JSON")])
    consumer.run(handle)
    assert [(record.json(), outcome) for record, outcome, _ in consumer.outcomes] == ..

A fake consumer hands out its records in order and ends when all have an outcome. A retried record is delivered again with the
next attempt, after `max_attempts` (3) it is given up as a dead letter. `outcomes` lists (record, outcome, reason) in order."""

from __future__ import annotations

import asyncio
import collections
import json
from typing import Any, AsyncIterator, Awaitable, Callable, Iterable, Iterator

from ._base import Batch
from ._engine import Group
from ._record import ACK, DEAD_LETTER, RETRY, JsonRecord, Record
from ._sync import handle
from .aio import _Done
from .aio import handle as handle_async

_counter = 0


def make_record(data: Any, partition_key: str = "key", shard_id: str = "shardId-000000000000", sequence_number: str | None = None,
                **members: Any) -> Record:
    """A record with `data` (bytes, or a value that becomes JSON). `members` are those of a line of the stream."""
    global _counter
    _counter += 1
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    message = {"ack_id": f"fake-{_counter}", "batch_id": "fake", "stream": "fake", "shard_id": shard_id, "epoch": 1,
               "sequence_number": sequence_number or str(_counter), "sub_sequence_number": 0, "partition_key": partition_key,
               "approximate_arrival_timestamp": "2026-01-01T00:00:00.000Z", "attempt": 1, **members}
    return _FakeRecord(message, content)


class _FakeRecord(JsonRecord):
    __slots__ = ("_content",)

    def __init__(self, message: dict[str, Any], content: bytes):
        super().__init__(message, _Outcomes([], 0), Group("fake", message["shard_id"], 0.0))  # type: ignore[arg-type]
        self._content = content

    @property
    def data(self) -> bytes:
        return self._content


class _Outcomes:
    """Stands for the engine of a record."""

    barriers_seen = 0

    def __init__(self, records: Iterable[Record], max_attempts: int):
        self.waiting = collections.deque(records)
        self.done: Any = None
        self.max_attempts = max_attempts
        self.found: list[tuple[Record, str, str]] = []
        self.outcomes = self  # `Record.ack` appends to it.
        for record in self.waiting:
            record._engine = self  # type: ignore[assignment]

    def append(self, record: Record) -> None:
        self.found.append((record, ACK, ""))

    def decided(self, record: Record) -> None:
        assert record.settlement is not None
        outcome, reason = record.settlement.outcome, record.settlement.reason
        if outcome == RETRY and record.attempt < self.max_attempts:
            again = make_record(record.data, **dict(record._message, attempt=record.attempt + 1))
            again._engine = self  # type: ignore[assignment]
            self.waiting.appendleft(again)
        elif outcome == RETRY:
            outcome = DEAD_LETTER
        self.found.append((record, outcome, reason))

    def extend(self, record: Record, settlement: Any) -> None:
        """A fake delivery has no deadline."""

    def ack_persisted(self, record: Record) -> Any:
        record.ack()
        return True if self.done is None else _done_true()


async def _done_true() -> bool:
    return True


class _Fake:
    def __init__(self, records: Iterable[Record], max_attempts: int = 3):
        self._engine = _Outcomes(records, max_attempts)
        self._stopped = False
        self._with_loop: list[Record] = []
        self.stale = self.failed = 0

    @property
    def outcomes(self) -> list[tuple[Record, str, str]]:
        return self._engine.found

    def stop(self) -> None:
        self._stopped = True

    def _begin_loop(self) -> None:
        """The records without an outcome of a loop that was left are handed out again."""
        self._engine.waiting.extendleft(record for record in reversed(self._with_loop) if record.outcome is None)
        self._with_loop = []

    def _next(self) -> Record | None:
        return self._engine.waiting.popleft() if self._engine.waiting and not self._stopped else None

    def _batch(self, max_records: int) -> Batch | None:
        records: list[Record] = []
        while len(records) < max_records and (record := self._next()) is not None:
            records.append(record)
        return Batch(records) if records else None


class FakeConsumer(_Fake):
    """Stands for `kinesis_sidecar.Consumer`."""

    def run(self, handler: Callable[[Record], Any], concurrency: int = 1, signals: bool = True) -> None:
        while (record := self._next()) is not None:
            handle(handler, record)

    def __iter__(self) -> Iterator[Record]:
        self._begin_loop()
        while (record := self._next()) is not None:
            self._with_loop = [record]
            yield record
            record.ack()

    def batches(self, max_records: int = 500, max_wait: float = 1.0) -> Iterator[Batch]:
        self._begin_loop()
        while (batch := self._batch(max_records)) is not None:
            self._with_loop = batch.records
            yield batch
            batch.ack()

    def close(self) -> None:
        self.stop()

    def __enter__(self) -> FakeConsumer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class AsyncFakeConsumer(_Fake):
    """Stands for `kinesis_sidecar.aio.Consumer`."""

    def __init__(self, records: Iterable[Record], max_attempts: int = 3):
        super().__init__(records, max_attempts)
        self._engine.done = _Done()

    async def run(self, handler: Callable[[Record], Awaitable[Any]], concurrency: int = 1, signals: bool = True) -> None:
        while (record := self._next()) is not None:
            await handle_async(handler, record)

    async def __aiter__(self) -> AsyncIterator[Record]:
        self._begin_loop()
        while (record := self._next()) is not None:
            self._with_loop = [record]
            yield record
            record.ack()
            await asyncio.sleep(0)

    async def batches(self, max_records: int = 500, max_wait: float = 1.0) -> AsyncIterator[Batch]:
        self._begin_loop()
        while (batch := self._batch(max_records)) is not None:
            self._with_loop = batch.records
            yield batch
            batch.ack()

    async def close(self) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncFakeConsumer:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()
