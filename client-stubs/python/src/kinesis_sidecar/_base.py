# SPDX-License-Identifier: Apache-2.0
"""What the blocking and the asyncio consumer have in common, without I/O and without waiting."""

from __future__ import annotations

import collections
import os
import random
from typing import Any, Callable, Iterator

from ._engine import HEARTBEATS_MISSED, RETRY_AFTER_MAX_SECONDS, Engine, Resolved
from ._errors import SidecarError
from ._http import Response, refusal, request_bytes
from ._options import Options
from ._record import ACK, Record
from ._wire import decoder

BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MAX_SECONDS = 5.0
PERSISTED_WAIT_MS = 10000
PERSISTED_SECONDS = 20.0  # For the answer.


class Batch:
    """Records in the order of delivery."""

    def __init__(self, records: list[Record]):
        self.records = records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def ack(self) -> None:
        """Acknowledges the records that have no outcome."""
        for record in self.records:
            record.ack()

    def retry(self, delay: float | None = None, reason: str = "") -> None:
        """Retries the records that have no outcome."""
        # Backwards: a retry takes the later ones back, and they could not be retried any more.
        for record in reversed(self.records):
            record.retry(delay, reason)


class Collector:
    """Collects the records of the next batch."""

    def __init__(self, max_records: int, max_wait: float):
        self._max_records = max_records
        self._max_wait = max_wait
        self._records: list[Record] = []
        self.until: float | None = None  # When the batch is handed out, if it has a record.

    def add(self, record: Record | None, now: float) -> Batch | None:
        """Returns the batch if it is full or `until` is over. None: time has passed."""
        if record is not None:
            if self.until is None:
                self.until = now + self._max_wait
            self._records.append(record)
        if self.until is None or (len(self._records) < self._max_records and now < self.until):
            return None
        batch, self._records, self.until = Batch(self._records), [], None
        return batch


class Stream:
    """The bytes of one stream: its request, and its response."""

    def __init__(self, options: Options):
        self._options = options
        self._decoder = decoder()
        self._response = Response()
        self._refusal = b""

    def request(self) -> bytes:
        options = self._options
        return request_bytes(options.address, options.token.read(), "GET", options.stream_target(),
                             accept=self._decoder.media_type)

    def feed(self, data: bytes, engine: Engine, now: float) -> bool:
        """Gives the engine what arrived. Returns whether there was anything. Raises the end of the stream."""
        body = self._response.feed(data)
        is_over = self._response.complete or not data
        if self._response.status >= 400:
            self._refusal += body
            if is_over:
                raise refusal(self._response, self._refusal)
            return False
        if body:
            engine.receive(self._decoder.feed(body), now)
        if is_over:
            raise ConnectionError("the sidecar ended the stream")
        return bool(body)


class Base:
    """`hand_out` and `wake` are those of the engine."""

    def __init__(self, client_id: str, options: dict[str, Any], hand_out: Callable[[list[Record] | Resolved], Any],
                 wake: Callable[[], Any], done: Any):
        self.options = Options(client_id, **options)
        self._engine = Engine(self.options, decoder().record_type, hand_out, self._tell, wake, self._ack_persisted,
                              done)
        self._until: float | None = None  # How long to wait for records.
        self._pid = os.getpid()
        self._stopped = False             # No further records are handed out.
        self._closing = False
        self._error: BaseException | None = None
        self._with_loop: list[Record] = []  # Handed out last by a loop.
        self._again: collections.deque[Record] = collections.deque()  # Handed out before all others.
        self._attempts = 0                # To connect, without success.

    @property
    def stale(self) -> int:
        """Settlements whose session had ended: the records are redelivered."""
        return self._engine.stale

    @property
    def failed(self) -> int:
        """Settlements that the sidecar refused one by one."""
        return self._engine.failed

    def _ack_persisted(self, record: Record) -> Any:
        raise NotImplementedError

    def _is_stopped(self) -> bool:
        return self._stopped

    def _begin_loop(self) -> None:
        """The records without an outcome of a loop that was left are handed out again."""
        self._check_process()
        self._again.extendleft(reversed(self._engine.give_back(self._with_loop)))
        self._with_loop = []

    def _handed_back(self) -> Iterator[Record]:
        while self._again and not self._stopped:
            yield from self._engine.begin([self._again.popleft()])

    def _tell(self, event: dict[str, Any]) -> None:
        if self.options.on_event is not None:
            self.options.on_event(event)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise SidecarError(0, {"detail": "the consumer was made in another process: make one after the fork"})

    def _check_open(self) -> None:
        self._check_process()
        if self._closing:
            raise SidecarError(0, {"detail": "the consumer is closed"})

    def _check_error(self) -> None:
        """Raises what ended the reading."""
        if self._error is not None:
            self._stopped = True
            raise self._error

    @property
    def _silence_max(self) -> float:
        """Seconds without a byte after which the connection counts as lost."""
        return float(HEARTBEATS_MISSED * self._engine.heartbeat + 1)

    def _arrived(self, stream: Stream, data: bytes, now: float) -> None:
        if stream.feed(data, self._engine, now):
            self._attempts = 0

    def _lost(self, err: Exception) -> float:
        """The stream is lost, or could not be opened. Returns the pause until the next attempt, in seconds. Raises an
        error that no other attempt mends."""
        retry_after = 0.0
        if isinstance(err, SidecarError):
            if not err.is_temporary:
                raise err
            retry_after = err.retry_after or 0.0
        self._engine.disconnected()
        pause = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(self._attempts, 10), BACKOFF_MAX_SECONDS)
        pause *= random.uniform(0.5, 1.0)
        pause = max(pause, min(retry_after, RETRY_AFTER_MAX_SECONDS))
        self._attempts += 1
        self._tell({"type": "disconnected", "reason": str(err) or type(err).__name__, "retry_in_ms": int(pause * 1000)})
        return pause


def persisted_body(record: Record) -> dict[str, Any]:
    """A settle request that is answered when the checkpoint covers the record, or after PERSISTED_WAIT_MS."""
    return {"settlements": [{"ack_id": record.settle_id, "outcome": ACK}], "wait": "persisted",
            "wait_ms": PERSISTED_WAIT_MS}


def is_persisted(answer: dict[str, Any]) -> bool:
    return bool(answer.get("persisted")) and not answer.get("failed")


def retry_failed(record: Record, err: Exception) -> None:
    """The handler of the record has failed."""
    record.retry(reason=f"{type(err).__name__}: {err}")
