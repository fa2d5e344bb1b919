# SPDX-License-Identifier: Apache-2.0
"""The blocking consumer. A thread of its own reads the stream and sends settlements; the app's threads get records."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import select
import signal
import socket
import threading
import time
from typing import Any, Callable, Iterator

from ._base import PERSISTED_SECONDS, Base, Batch, Collector, Stream, is_persisted, persisted_body, retry_failed
from ._connection import READ_BYTES, Caller, connect
from ._engine import Resolved
from ._errors import SidecarError
from ._lanes import Threads
from ._record import ACK, Record

WAKE = b"!"  # 33 is the number of no signal.
TROUBLE = (OSError, ValueError, SidecarError)  # Of a request.


class Consumer(Base):
    """Reads records from the sidecar, and settles them. See the README for the three ways to use it.

    Options, all by name: url, token_file, subscription, max_in_flight (1000), max_in_flight_bytes (16 MiB), ack_deadline (60 s),
    max_processing (3600 s), ack_interval (0.1 s), ordering, lanes, shards, share, salt, filter, on_event. `on_event(event)` is
    called by the thread that reads, with a dict that has "type". `filter` is a text or a dict.

    One thread at a time may iterate or run, and a consumer is used in one way only. Records may be settled in any thread."""

    def __init__(self, client_id: str, **options: Any):
        self._records: queue.SimpleQueue[list[Record] | Resolved] = queue.SimpleQueue()  # An empty list: it ended.
        super().__init__(client_id, options, self._records.put, self._wake, None)
        self._flow = self._make_flow()
        self._thread: threading.Thread | None = None
        self._waker, self._wakes = socket.socketpair()
        self._waker.setblocking(False)
        self._wakes.setblocking(False)
        self._caller = Caller(self.options)

    # --- For the app ---

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
                threads = Threads(self._engine, functools.partial(handle, handler), concurrency, self._is_stopped)
                threads.run(self._items())

    def __iter__(self) -> Iterator[Record]:
        """Hands out records. Each is acknowledged when the next one is asked for, unless it has an outcome. If the loop is
        left, the next loop hands its record out again, unless it has an outcome by then."""
        self._begin_loop()
        for record in self._begun():
            self._with_loop = [record]
            yield record
            if record.outcome is None:
                record.ack()

    def batches(self, max_records: int = 500, max_wait: float = 1.0) -> Iterator[Batch]:
        """Hands out batches of up to `max_records`, `max_wait` seconds after their first record at the latest. Each is
        acknowledged when the next one is asked for; see Batch. A loop that is left is as that over records."""
        self._begin_loop()
        collector = Collector(max_records, max_wait)
        for record in self._flow:
            batch = collector.add(record, time.monotonic())
            self._until = collector.until
            if batch is not None:
                self._with_loop = batch.records
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

    def _begun(self) -> Iterator[Record]:
        for record in self._flow:
            if record is not None:
                yield record
                if self._stopped:
                    return

    def _make_flow(self) -> Iterator[Record | None]:
        """The records that the app may have, in order. It outlives the loops of the app. None: it is `_until`."""
        for item in self._items():
            for record in self._engine.begin(item):
                yield record
                if self._again:
                    yield from self._handed_back()
            if not item:
                yield None
                if self._again:
                    yield from self._handed_back()

    def _items(self) -> Iterator[list[Record] | Resolved]:
        """What the thread that reads has put. An empty list: it is `_until`."""
        self._start()
        while not self._stopped:
            self._check_process()
            if self._engine.wants_request():
                self._wake()
            try:
                item = self._records.get(timeout=None if self._until is None else max(0.0, self._until - time.monotonic()))
            except queue.Empty:
                item = []
            self._check_error()
            if not self._stopped:
                yield item

    def _start(self) -> None:
        self._check_open()
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
        try:
            with connect(self.options) as connection:
                self._read(connection)
        except TROUBLE as err:
            pause = self._lost(err)
        self._pause(pause)

    def _read(self, connection: socket.socket) -> None:
        stream = Stream(self.options)
        connection.sendall(stream.request())
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        heard = time.monotonic()
        while not self._closing:
            now = time.monotonic()
            silence = heard + self._silence_max
            if now >= silence:
                raise ConnectionError("no heartbeat")
            ready = dict(poll.poll(max(0.0, min(silence, self._engine.next_at(now)) - now) * 1000))
            if self._wakes.fileno() in ready:
                self._clear_wakes()
            if connection.fileno() in ready:
                heard = time.monotonic()
                self._arrived(stream, connection.recv(READ_BYTES), heard)
            self._settle()

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
        while (request := self._engine.request(time.monotonic(), everything)) is not None:
            try:
                answer = self._caller.call("POST", self.options.settle_target(), request.body)
            except TROUBLE as err:
                if not self._engine.unanswered(request, err, time.monotonic()):
                    return False
            else:
                self._engine.answered(request, answer)
        return True

    def _end(self) -> None:
        """Nothing is left to be told to a sidecar that is away: it redelivers the records."""
        if self._engine.session_open and self._settle(everything=True):
            with contextlib.suppress(*TROUBLE):
                self._caller.call("DELETE", self.options.session_target())

    def _ack_persisted(self, record: Record) -> bool:
        """In the thread of the app: a wait for the lease table must not hold up other settlements."""
        persisted = False
        if record.outcome in (None, ACK):
            with contextlib.closing(Caller(self.options)) as caller, contextlib.suppress(*TROUBLE):
                answer = caller.call("POST", self.options.settle_target(), persisted_body(record), PERSISTED_SECONDS)
                persisted = is_persisted(answer)
        record.ack()  # Without an answer it is sent again, and does not wait.
        return persisted


def handle(handler: Callable[[Record], Any], record: Record) -> None:
    try:
        handler(record)
    except Exception as err:
        retry_failed(record, err)
    else:
        record.ack()
