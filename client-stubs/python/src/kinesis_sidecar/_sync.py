# SPDX-License-Identifier: Apache-2.0
"""The blocking consumer. A thread of its own reads the stream and sends settlements; the app's threads get records."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import random
import select
import signal
import socket
import threading
import time
from typing import Any, Callable, Iterator

from ._connection import READ_BYTES, Caller, connect
from ._engine import HEARTBEATS_MISSED, RETRY_AFTER_MAX_SECONDS, Engine, Request, Resolved
from ._errors import SidecarError
from ._http import Response, refusal, request_bytes
from ._lanes import Lanes
from ._options import Options
from ._record import Record
from ._wire import decoder

BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_MAX_SECONDS = 5.0
PERSISTED_WAIT_MS = 10000
SESSION_GONE = (409, 410)
WAKE = b"!"  # 33 is the number of no signal.


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
        for record in reversed(self.records):  # A retry takes the later ones back, and they could not be retried any more.
            record.retry(delay, reason)


class Consumer:
    """Reads records from the sidecar, and settles them. See the README for the three ways to use it.

    Options, all by name: url, token_file, subscription, max_in_flight (1000), max_in_flight_bytes (16 MiB), ack_deadline (60 s),
    max_processing (3600 s), ack_interval (0.1 s), ordering, lanes, shards, on_event. `on_event(event)` is called by the thread
    that reads, with a dict that has "type".

    One thread at a time may iterate or run, and a consumer is used in one way only. Records may be settled in any thread."""

    def __init__(self, client_id: str, **options: Any):
        self.options = Options(client_id, **options)
        self._records: queue.SimpleQueue[list[Record] | Resolved] = queue.SimpleQueue()  # An empty list: it ended.
        self._until: float | None = None  # How long to wait for records.
        self._flow = self._make_flow()
        self._decoder = decoder()
        self._engine = Engine(self.options, self._decoder.record_type, self._records.put, self._tell, self._wake,
                              self._ack_persisted, None)
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._waker, self._wakes = socket.socketpair()
        self._waker.setblocking(False)
        self._wakes.setblocking(False)
        self._caller = Caller(self.options)
        self._stopped = False    # No further records are handed out.
        self._closing = False
        self._error: BaseException | None = None
        self._retries = 0

    # --- For the app ---

    @property
    def stale(self) -> int:
        """Settlements whose session had ended: the records are redelivered."""
        return self._engine.stale

    @property
    def failed(self) -> int:
        """Settlements that the sidecar refused one by one."""
        return self._engine.failed

    def run(self, handler: Callable[[Record], Any], concurrency: int = 1, signals: bool = True) -> None:
        """Calls the handler with each record until `stop`, SIGTERM or SIGINT. Then waits for the running handlers and closes the
        consumer. `signals`: take these signals; only done in the main thread."""
        self.options.order_for(concurrency)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            if signals and threading.current_thread() is threading.main_thread():
                stack.enter_context(self._signals())
            if concurrency == 1:
                for record in self._begun():
                    handle(handler, record)
            else:
                Lanes(self._engine, functools.partial(handle, handler), concurrency, self._is_stopped).run(
                    self._items())

    def __iter__(self) -> Iterator[Record]:
        """Hands out records. Each is acknowledged when the next one is asked for, unless it has an outcome."""
        for record in self._begun():
            yield record
            if record.outcome is None:
                record.ack()

    def batches(self, max_records: int = 500, max_wait: float = 1.0) -> Iterator[Batch]:
        """Hands out batches of up to `max_records`, `max_wait` seconds after their first record at the latest. Each is
        acknowledged when the next one is asked for; see Batch."""
        records: list[Record] = []
        for record in self._flow:
            if record is not None:
                if not records:
                    self._until = time.monotonic() + max_wait
                records.append(record)
            if len(records) >= max_records or (records and self._until is not None and time.monotonic() >= self._until):
                batch, records, self._until = Batch(records), [], None
                yield batch
                batch.ack()

    def stop(self) -> None:
        """Ends the run or the iteration, from any thread or a signal handler. `close` is still to be called."""
        self._stopped = True
        self._records.put([])

    def close(self) -> None:
        """Sends what is to be sent and ends the session: the sidecar redelivers the records without an outcome at once."""
        self._stopped = True
        if self._pid != os.getpid():
            return
        self._closing = True
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- Handing out ---

    def _is_stopped(self) -> bool:
        return self._stopped

    def _begun(self) -> Iterator[Record]:
        for record in self._flow:
            if record is not None:
                yield record
                if self._stopped:
                    return

    def _make_flow(self) -> Iterator[Record | None]:
        """The records that the app may have, in order. It outlives the loops of the app. None: it is `_until`."""
        engine = self._engine
        aside: dict[Any, list[Record]] = {}  # By scope, until no retry holds it.
        for item in self._items():
            records = aside.pop(item.scope, []) if isinstance(item, Resolved) else item
            for record in engine.not_held(records, aside):
                if engine.may_begin(record):
                    yield record
            if not records:
                yield None

    def _items(self) -> Iterator[list[Record] | Resolved]:
        """What the thread that reads has put. An empty list: it is `_until`."""
        self._start()
        while not self._stopped:
            self._check_process()
            self._wake_if_crowded()
            try:
                item = self._records.get(timeout=None if self._until is None else max(0.0, self._until - time.monotonic()))
            except queue.Empty:
                item = []
            if self._error is not None:
                self._stopped = True
                raise self._error
            if not self._stopped:
                yield item

    def _wake_if_crowded(self) -> None:
        """The thread that reads looks at outcomes every `ack_interval`. Credit does not wait for that."""
        engine = self._engine
        if engine.outcomes and engine.is_crowded(len(engine.outcomes)):
            self._wake()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise SidecarError(0, {"detail": "the consumer was made in another process: make one after the fork"})

    def _start(self) -> None:
        self._check_process()
        if self._closing:
            raise SidecarError(0, {"detail": "the consumer is closed"})
        if self._thread is None:
            self.options.order_for(1)
            self._thread = threading.Thread(target=self._serve, name=f"kinesis-sidecar-{self.options.client_id}", daemon=True)
            self._thread.start()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(number, lambda *_: self.stop()) for number in numbers]
        # A signal that comes just before the main thread waits for records does not end the wait: the reading thread does.
        wakeup = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in zip(numbers, before):
                signal.signal(number, handler)

    # --- The thread that reads ---

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # It is awake already.
            self._waker.send(WAKE)

    def _tell(self, event: dict[str, Any]) -> None:
        if self.options.on_event is not None:
            self.options.on_event(event)

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._connect_and_read()
            self._end()
        except BaseException as err:  # The app's thread raises it.
            self._error = err
            self._records.put([])
            self._engine.abandon()
            with contextlib.suppress(SidecarError):
                self._settle(everything=True)
        finally:
            self._caller.close()

    def _connect_and_read(self) -> None:
        pause = 0.0
        stream = None
        try:
            stream = connect(self.options)
            self._read(stream)
        except (OSError, ValueError) as err:
            pause = self._lost(str(err) or type(err).__name__, 0.0)
        except SidecarError as err:
            if not err.is_temporary:
                raise
            pause = self._lost(str(err), err.retry_after or 0.0)
        finally:
            if stream is not None:
                stream.close()
        self._engine.disconnected()
        self._pause(pause)

    def _read(self, stream: socket.socket) -> None:
        options = self.options
        self._decoder = decoder()
        response = Response()
        stream.sendall(request_bytes(options.address, options.token.read(), "GET", options.stream_target(),
                                     accept=self._decoder.media_type))
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        heard = time.monotonic()
        while not self._closing:
            now = time.monotonic()
            silence = heard + HEARTBEATS_MISSED * self._engine.heartbeat + 1
            if now >= silence:
                raise ConnectionError("no heartbeat")
            ready = dict(poll.poll(max(0.0, min(silence, self._engine.next_at(now)) - now) * 1000))
            if self._wakes.fileno() in ready:
                self._clear_wakes()
            if stream.fileno() in ready:
                heard = time.monotonic()
                self._take(stream, response, heard)
            self._settle()

    def _take(self, stream: socket.socket, response: Response, now: float) -> None:
        data = stream.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the sidecar ended the stream")
        body = response.feed(data)
        if response.status >= 400:
            content = body
            while not response.complete and data:
                data = stream.recv(READ_BYTES)
                content += response.feed(data)
            raise refusal(response, content)
        if body:
            self._retries = 0
            self._engine.receive(self._decoder.feed(body), now)
        if response.complete:
            raise ConnectionError("the sidecar ended the stream")

    def _lost(self, reason: str, retry_after: float) -> float:
        """Returns the pause until the next attempt, in seconds."""
        pause: float = min(BACKOFF_FIRST_SECONDS * 2 ** min(self._retries, 10), BACKOFF_MAX_SECONDS)
        pause *= random.uniform(0.5, 1.0)
        pause = max(pause, min(retry_after, RETRY_AFTER_MAX_SECONDS))
        self._retries += 1
        self._tell({"type": "disconnected", "reason": reason, "retry_in_ms": int(pause * 1000)})
        return pause

    def _pause(self, seconds: float) -> None:
        """Settlements of the session that has lost its stream are still accepted."""
        until = time.monotonic() + seconds
        while not self._closing and (left := until - time.monotonic()) > 0:
            self._settle()
            if select.select([self._wakes], [], [], min(left, self.options.ack_interval))[0]:
                self._clear_wakes()

    def _clear_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                if self._wakes.recv(4096).strip(WAKE):  # A signal.
                    self._records.put([])

    # --- Settling ---

    def _settle(self, everything: bool = False) -> bool:
        """Sends what is due. False if the sidecar did not answer; then it is sent again."""
        while self._engine.session_open:
            request = self._engine.request(time.monotonic(), everything)
            if request is None:
                return True
            retry_after = self._send(request)
            if retry_after is not None:
                self._engine.unanswered(time.monotonic(), retry_after)
                return False
        return True

    def _send(self, request: Request) -> float | None:
        """Returns after how many seconds to send it again, at the earliest; None: the sidecar has answered."""
        try:
            answer = self._caller.call("POST", self.options.settle_target(), request.body)
        except (OSError, ValueError):
            return 0.0
        except SidecarError as err:
            if err.is_temporary and err.status != 409:
                return err.retry_after or 0.0
            if err.status not in SESSION_GONE:
                raise
            self._engine.refused(request)
        else:
            self._engine.answered(request, answer)
        return None

    def _end(self) -> None:
        """Nothing is left to be told to a sidecar that is away: it redelivers the records."""
        if self._engine.session_open and self._settle(everything=True):
            with contextlib.suppress(OSError, ValueError, SidecarError):
                self._caller.call("DELETE", self.options.session_target())

    def _ack_persisted(self, record: Record) -> bool:
        """In the thread of the app: a wait for the lease table must not hold up other settlements."""
        body = {"settlements": [{"ack_id": record.settle_id, "outcome": "ack"}], "wait": "persisted", "wait_ms": PERSISTED_WAIT_MS}
        persisted = False
        caller = Caller(self.options)
        try:
            if record.outcome in (None, "ack"):
                answer = caller.call("POST", self.options.settle_target(), body, PERSISTED_WAIT_MS / 1000 + 10)
                persisted = bool(answer.get("persisted")) and not answer.get("failed")
        except (OSError, ValueError, SidecarError):
            persisted = False  # It is sent again without the wait.
        finally:
            caller.close()
        record.ack()
        return persisted


def handle(handler: Callable[[Record], Any], record: Record) -> None:
    try:
        handler(record)
    except Exception as err:
        record.retry(reason=f"{type(err).__name__}: {err}")
    else:
        record.ack()
