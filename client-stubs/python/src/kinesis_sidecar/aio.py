# SPDX-License-Identifier: Apache-2.0
"""The consumer for asyncio. It has no threads: a task reads the stream and sends settlements."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import signal
from typing import Any, AsyncIterator, Awaitable, Callable, Generator

from ._base import PERSISTED_SECONDS, Base, Batch, Collector, Stream, is_persisted, persisted_body, retry_failed
from ._connection import CONNECT_SECONDS, READ_BYTES
from ._engine import Engine, Resolved
from ._errors import SessionTakenOver, SidecarError
from ._http import Response, request_bytes, result_of
from ._lanes import Lanes
from ._options import Options
from ._record import ACK, Record

__all__ = ["Batch", "Consumer", "Record", "SessionTakenOver", "SidecarError"]

TROUBLE = (OSError, ValueError, SidecarError)  # Of a request.


class _Done:
    """The result of an `ack` that does not wait. It may be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class _Caller:
    """Requests and their JSON answers, one at a time, over a connection that is kept."""

    def __init__(self, options: Options):
        self.options = options
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, target: str, body: Any = None, seconds: float = CONNECT_SECONDS) -> dict[str, Any]:
        """Raises SidecarError, OSError or ValueError. A kept connection may have been closed while it was idle: then the
        request is sent once more. The requests of this package may all be repeated."""
        kept = self.streams is not None
        try:
            return await asyncio.wait_for(self._exchange(method, target, body), seconds)
        except asyncio.TimeoutError:
            self.close()
            raise OSError("the sidecar did not answer in time") from None
        except OSError:
            if not kept:
                raise
        return await asyncio.wait_for(self._exchange(method, target, body), seconds)

    async def _exchange(self, method: str, target: str, body: Any) -> dict[str, Any]:
        data = request_bytes(self.options.address, self.options.token.read(), method, target, body)
        response = Response()
        parts = []
        try:
            if self.streams is None:
                self.streams = await connect(self.options)
            reader, writer = self.streams
            writer.write(data)
            await writer.drain()
            while not response.complete:
                received = await reader.read(READ_BYTES)
                if not received:
                    raise ConnectionError("the sidecar closed the connection")
                parts.append(response.feed(received))
        except BaseException:
            self.close()
            raise
        if not response.keeps_connection:
            self.close()
        return result_of(response, b"".join(parts))

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def connect(options: Options) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = options.address
    if address.path is not None:
        opening = asyncio.open_unix_connection(address.path, limit=READ_BYTES)
    else:
        opening = asyncio.open_connection(address.host, address.port, limit=READ_BYTES)
    try:
        return await asyncio.wait_for(opening, CONNECT_SECONDS)
    except asyncio.TimeoutError:
        raise OSError("no connection in time") from None


class Consumer(Base):
    """As `kinesis_sidecar.Consumer`, with the same options, for one event loop. `on_event` is called in the loop."""

    def __init__(self, client_id: str, **options: Any):
        self._items: collections.deque[list[Record] | Resolved] = collections.deque()
        self._has_items = asyncio.Event()
        self._due = asyncio.Event()
        super().__init__(client_id, options, self._put, self._due.set, _Done())
        self._flow = self._make_flow()
        self._task: asyncio.Task[None] | None = None
        self._caller = _Caller(self.options)

    # --- For the app ---

    async def run(self, handler: Callable[[Record], Awaitable[Any]], concurrency: int = 1, signals: bool = True) -> None:
        """Awaits the handler for each record until `stop`, SIGTERM, SIGINT or cancellation. Then waits for the running handlers
        and closes the consumer."""
        self.options.order_for(concurrency)
        lanes = _Tasks(self._engine, handler, concurrency, self._is_stopped)
        try:
            with self._signals(signals):
                async for item in self._handed():
                    await lanes.take(item)
        finally:
            self._stopped = True
            await asyncio.shield(self._finish(lanes))

    async def _finish(self, lanes: _Tasks) -> None:
        await lanes.join()
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Hands out records. Each is acknowledged when the next one is asked for, unless it has an outcome. If the loop is
        left, the next loop hands its record out again, unless it has an outcome by then."""
        self._begin_loop()
        async for record in self._flow:
            if record is None:
                continue
            self._with_loop = [record]
            yield record
            if record.outcome is None:
                record.ack()
            if self._stopped:
                return

    async def batches(self, max_records: int = 500, max_wait: float = 1.0) -> AsyncIterator[Batch]:
        """Hands out batches of up to `max_records`, `max_wait` seconds after their first record at the latest. Each is
        acknowledged when the next one is asked for. A loop that is left is as that over records."""
        self._begin_loop()
        clock = asyncio.get_running_loop().time
        collector = Collector(max_records, max_wait)
        async for record in self._flow:
            batch = collector.add(record, clock())
            self._until = collector.until
            if batch is not None:
                self._with_loop = batch.records
                yield batch
                batch.ack()

    def stop(self) -> None:
        """Ends the run or the iteration. `close` is still to be called."""
        self._stopped = True
        self._has_items.set()

    async def close(self) -> None:
        """Sends what is to be sent and ends the session: the sidecar redelivers the records without an outcome at once."""
        self.stop()
        self._closing = True
        self._due.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    # --- Handing out ---

    async def _make_flow(self) -> AsyncIterator[Record | None]:
        """The records that the app may have, in order. It outlives the loops of the app. None: it is `_until`."""
        async for item in self._handed():
            for record in self._engine.begin(item):
                yield record
                for again in self._handed_back():
                    yield again
            if not item:
                yield None
                for again in self._handed_back():
                    yield again

    async def _handed(self) -> AsyncIterator[list[Record] | Resolved]:
        """What the task that reads has put. An empty list: it is `_until`."""
        self._start()
        clock = asyncio.get_running_loop().time
        while not self._stopped:
            self._check_process()
            if self._engine.wants_request():
                self._due.set()
            if not self._items and self._error is None:
                self._has_items.clear()
                await _wait(self._has_items, None if self._until is None else self._until - clock())
            self._check_error()
            if not self._stopped:
                yield self._items.popleft() if self._items else []

    def _put(self, item: list[Record] | Resolved) -> None:
        self._items.append(item)
        self._has_items.set()

    def _start(self) -> None:
        self._check_open()
        if self._task is None:
            self.options.order_for(1)
            self._task = asyncio.get_running_loop().create_task(self._serve())

    @contextlib.contextmanager
    def _signals(self, wanted: bool) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        taken = []
        for number in (signal.SIGTERM, signal.SIGINT) if wanted else ():
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Not in the main thread.
                loop.add_signal_handler(number, self.stop)
                taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    # --- The task that reads ---

    async def _serve(self) -> None:
        settler = asyncio.get_running_loop().create_task(self._settle_when_due())
        try:
            while not self._closing:
                await self._connect_and_read(settler)
        except BaseException as err:  # The app's task raises it.
            self._error = err
            self._has_items.set()
        finally:
            settler.cancel()
            await asyncio.gather(settler, return_exceptions=True)
            if self._error is None:
                await self._end()
            else:
                self._engine.abandon()
                with contextlib.suppress(SidecarError):
                    await self._settle(everything=True)
            self._caller.close()

    async def _connect_and_read(self, settler: asyncio.Task[None]) -> None:
        pause = 0.0
        try:
            reader, writer = await connect(self.options)
            try:
                await self._read(reader, writer, settler)
            finally:
                writer.close()
        except TROUBLE as err:
            pause = self._lost(err)
        clock = asyncio.get_running_loop().time
        until = clock() + pause
        while not self._closing and (left := until - clock()) > 0:
            await self._or_settler(asyncio.sleep(min(left, 0.1)), settler, None)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settler: asyncio.Task[None]) -> None:
        stream = Stream(self.options)
        writer.write(stream.request())
        clock = asyncio.get_running_loop().time
        while not self._closing:
            data = await self._or_settler(reader.read(READ_BYTES), settler, self._silence_max)
            if data is not None:
                self._arrived(stream, data, clock())
                self._due.set()

    async def _or_settler(self, waiting: Any, settler: asyncio.Task[None], seconds: float | None) -> Any:
        """Awaits the first of the two. None if the consumer is to be closed; raises what the settling task raised."""
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({task, settler}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if settler.done() and not settler.cancelled():
                settler.result()
            if task.done():
                return task.result()
            if self._closing:
                return None
            raise ConnectionError("no heartbeat")
        finally:
            task.cancel()

    # --- Settling ---

    async def _settle_when_due(self) -> None:
        """Ends when the consumer is to be closed."""
        clock = asyncio.get_running_loop().time
        while not self._closing:
            await _wait(self._due, self._engine.next_at(clock()) - clock())
            self._due.clear()
            await self._settle()

    async def _settle(self, everything: bool = False) -> bool:
        """Sends what is due. False if the sidecar did not answer; then it is sent again."""
        clock = asyncio.get_running_loop().time
        while (request := self._engine.request(clock(), everything)) is not None:
            try:
                answer = await self._caller.call("POST", self.options.settle_target(), request.body)
            except TROUBLE as err:
                if not self._engine.unanswered(request, err, clock()):
                    return False
            else:
                self._engine.answered(request, answer)
        return True

    async def _end(self) -> None:
        """Nothing is left to be told to a sidecar that is away: it redelivers the records."""
        if self._engine.session_open and await self._settle(everything=True):
            with contextlib.suppress(*TROUBLE):
                await self._caller.call("DELETE", self.options.session_target())

    async def _ack_persisted(self, record: Record) -> bool:
        persisted = False
        if record.outcome in (None, ACK):
            with contextlib.closing(_Caller(self.options)) as caller, contextlib.suppress(*TROUBLE):
                body = persisted_body(record)
                answer = await caller.call("POST", self.options.settle_target(), body, PERSISTED_SECONDS)
                persisted = is_persisted(answer)
        record.ack()  # Without an answer it is sent again, and does not wait.
        return persisted


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), None if seconds is None or seconds == float("inf") else max(0.0, seconds))


class _Tasks:
    """Handles records in tasks, up to `concurrency` at the same time."""

    def __init__(self, engine: Engine, handler: Callable[[Record], Awaitable[Any]], concurrency: int,
                 is_stopped: Callable[[], bool]):
        self._engine = engine
        self._handler = handler
        self._free = asyncio.Semaphore(concurrency)
        self._is_stopped = is_stopped
        self._lanes = Lanes(engine, self._begin)
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, item: list[Record] | Resolved) -> None:
        self._lanes.take(item)
        await asyncio.sleep(0)

    async def join(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, record: Record) -> None:
        if self._is_stopped():
            return
        task = asyncio.get_running_loop().create_task(self._work(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, record: Record) -> None:
        async with self._free:
            if not self._is_stopped() and self._engine.may_begin(record):
                await handle(self._handler, record)
        self._lanes.done(record)


async def handle(handler: Callable[[Record], Awaitable[Any]], record: Record) -> None:
    try:
        result = handler(record)
        if inspect.isawaitable(result):
            await result
    except Exception as err:
        retry_failed(record, err)
    else:
        record.ack()
