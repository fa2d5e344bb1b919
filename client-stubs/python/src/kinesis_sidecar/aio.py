# SPDX-License-Identifier: Apache-2.0
"""The consumer for asyncio. It has no threads: a task reads the stream and sends settlements."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import json
import os
import random
import signal
from typing import Any, AsyncIterator, Awaitable, Callable, Generator

from ._connection import CONNECT_SECONDS, READ_BYTES
from ._engine import HEARTBEATS_MISSED, RETRY_AFTER_MAX_SECONDS, Engine, Request, Resolved
from ._errors import SessionTakenOver, SidecarError
from ._http import Response, refusal, request_bytes
from ._options import Options
from ._record import Record
from ._sync import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, PERSISTED_WAIT_MS, SESSION_GONE, Batch
from ._wire import decoder

__all__ = ["Batch", "Consumer", "Record", "SessionTakenOver", "SidecarError"]


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
        content = b"".join(parts)
        if response.status >= 400:
            raise refusal(response, content)
        return json.loads(content) if content else {}

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


class Consumer:
    """As `kinesis_sidecar.Consumer`, with the same options, for one event loop. `on_event` is called in the loop."""

    def __init__(self, client_id: str, **options: Any):
        self.options = Options(client_id, **options)
        self._items: collections.deque[list[Record] | Resolved] = collections.deque()
        self._arrived = asyncio.Event()
        self._until: float | None = None  # How long to wait for records.
        self._flow = self._make_flow()
        self._decoder = decoder()
        self._engine = Engine(self.options, self._decoder.record_type, self._put, self._tell, self._wake, self._ack_persisted,
                              _Done())
        self._pid = os.getpid()
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._caller = _Caller(self.options)
        self._stopped = False
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

    async def run(self, handler: Callable[[Record], Awaitable[Any]], concurrency: int = 1, signals: bool = True) -> None:
        """Awaits the handler for each record until `stop`, SIGTERM, SIGINT or cancellation. Then waits for the running handlers
        and closes the consumer."""
        self.options.order_for(concurrency)
        lanes = _Lanes(self._engine, handler, concurrency, self._is_stopped)
        try:
            with self._signals(signals):
                async for item in self._handed():
                    await lanes.take(item)
        finally:
            self._stopped = True
            await asyncio.shield(self._finish(lanes))

    async def _finish(self, lanes: _Lanes) -> None:
        await lanes.join()
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Hands out records. Each is acknowledged when the next one is asked for, unless it has an outcome."""
        async for record in self._flow:
            if record is None:
                continue
            yield record
            if record.outcome is None:
                record.ack()
            if self._stopped:
                return

    async def batches(self, max_records: int = 500, max_wait: float = 1.0) -> AsyncIterator[Batch]:
        """Hands out batches of up to `max_records`, `max_wait` seconds after their first record at the latest. Each is
        acknowledged when the next one is asked for."""
        clock = asyncio.get_running_loop().time
        records: list[Record] = []
        async for record in self._flow:
            if record is not None:
                if not records:
                    self._until = clock() + max_wait
                records.append(record)
            if len(records) >= max_records or (records and self._until is not None and clock() >= self._until):
                batch, records, self._until = Batch(records), [], None
                yield batch
                batch.ack()

    def stop(self) -> None:
        """Ends the run or the iteration. `close` is still to be called."""
        self._stopped = True
        self._arrived.set()

    async def close(self) -> None:
        """Sends what is to be sent and ends the session: the sidecar redelivers the records without an outcome at once."""
        self.stop()
        self._closing = True
        self._wake()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    # --- Handing out ---

    def _is_stopped(self) -> bool:
        return self._stopped

    async def _make_flow(self) -> AsyncIterator[Record | None]:
        """The records that the app may have, in order. It outlives the loops of the app. None: it is `_until`."""
        engine = self._engine
        aside: dict[Any, list[Record]] = {}  # By scope, until no retry holds it.
        async for item in self._handed():
            records = aside.pop(item.scope, []) if isinstance(item, Resolved) else item
            for record in engine.not_held(records, aside):
                if engine.may_begin(record):
                    yield record
            if not records:
                yield None

    async def _handed(self) -> AsyncIterator[list[Record] | Resolved]:
        """What the task that reads has put. An empty list: it is `_until`."""
        self._start()
        engine = self._engine
        clock = asyncio.get_running_loop().time
        while not self._stopped:
            self._check_process()
            if engine.outcomes and engine.is_crowded(len(engine.outcomes)):
                self._wake()
            if not self._items and self._error is None:
                self._arrived.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), None if self._until is None else max(0.0, self._until - clock()))
            if self._error is not None:
                self._stopped = True
                raise self._error
            if not self._stopped:
                yield self._items.popleft() if self._items else []

    def _put(self, item: list[Record] | Resolved) -> None:
        self._items.append(item)
        self._arrived.set()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise SidecarError(0, {"detail": "the consumer was made in another process: make one after the fork"})

    def _start(self) -> None:
        self._check_process()
        if self._closing:
            raise SidecarError(0, {"detail": "the consumer is closed"})
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

    def _wake(self) -> None:
        self._due.set()

    def _tell(self, event: dict[str, Any]) -> None:
        if self.options.on_event is not None:
            self.options.on_event(event)

    async def _serve(self) -> None:
        settler = asyncio.get_running_loop().create_task(self._settle_when_due())
        try:
            while not self._closing:
                await self._connect_and_read(settler)
        except BaseException as err:  # The app's task raises it.
            self._error = err
            self._arrived.set()
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
        writer = None
        try:
            reader, writer = await connect(self.options)
            await self._read(reader, writer, settler)
        except (OSError, ValueError) as err:
            pause = self._lost(str(err) or type(err).__name__, 0.0)
        except SidecarError as err:
            if not err.is_temporary:
                raise
            pause = self._lost(str(err), err.retry_after or 0.0)
        finally:
            if writer is not None:
                writer.close()
        self._engine.disconnected()
        closing = asyncio.get_running_loop().time() + pause
        while not self._closing and (left := closing - asyncio.get_running_loop().time()) > 0:
            await self._or_settler(asyncio.sleep(min(left, 0.1)), settler, None)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settler: asyncio.Task[None]) -> None:
        options = self.options
        self._decoder = decoder()
        response = Response()
        writer.write(request_bytes(options.address, options.token.read(), "GET", options.stream_target(),
                                   accept=self._decoder.media_type))
        clock = asyncio.get_running_loop().time
        content = b""
        while not self._closing:
            data = await self._or_settler(reader.read(READ_BYTES), settler, HEARTBEATS_MISSED * self._engine.heartbeat + 1)
            if data is None:
                continue
            body = response.feed(data)
            if response.status >= 400:
                content += body
                if response.complete or not data:
                    raise refusal(response, content)
                continue
            if not data or response.complete:
                raise ConnectionError("the sidecar ended the stream")
            if body:
                self._retries = 0
                self._engine.receive(self._decoder.feed(body), clock())
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

    def _lost(self, reason: str, retry_after: float) -> float:
        """Returns the pause until the next attempt, in seconds."""
        pause: float = min(BACKOFF_FIRST_SECONDS * 2 ** min(self._retries, 10), BACKOFF_MAX_SECONDS)
        pause *= random.uniform(0.5, 1.0)
        pause = max(pause, min(retry_after, RETRY_AFTER_MAX_SECONDS))
        self._retries += 1
        self._tell({"type": "disconnected", "reason": reason, "retry_in_ms": int(pause * 1000)})
        return pause

    # --- Settling ---

    async def _settle_when_due(self) -> None:
        """Ends when the consumer is to be closed."""
        clock = asyncio.get_running_loop().time
        while not self._closing:
            left = self._engine.next_at(clock()) - clock() if self._engine.session_open else float("inf")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._due.wait(), None if left == float("inf") else max(0.0, left))
            self._due.clear()
            await self._settle()

    async def _settle(self, everything: bool = False) -> bool:
        """Sends what is due. False if the sidecar did not answer; then it is sent again."""
        while self._engine.session_open:
            request = self._engine.request(asyncio.get_running_loop().time(), everything)
            if request is None:
                return True
            retry_after = await self._send(request)
            if retry_after is not None:
                self._engine.unanswered(asyncio.get_running_loop().time(), retry_after)
                return False
        return True

    async def _send(self, request: Request) -> float | None:
        """Returns after how many seconds to send it again, at the earliest; None: the sidecar has answered."""
        try:
            answer = await self._caller.call("POST", self.options.settle_target(), request.body)
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

    async def _end(self) -> None:
        """Nothing is left to be told to a sidecar that is away: it redelivers the records."""
        if self._engine.session_open and await self._settle(everything=True):
            with contextlib.suppress(OSError, ValueError, SidecarError):
                await self._caller.call("DELETE", self.options.session_target())

    def _ack_persisted(self, record: Record) -> Awaitable[bool]:
        return self._wait_persisted(record)

    async def _wait_persisted(self, record: Record) -> bool:
        body = {"settlements": [{"ack_id": record.settle_id, "outcome": "ack"}], "wait": "persisted", "wait_ms": PERSISTED_WAIT_MS}
        persisted = False
        caller = _Caller(self.options)
        try:
            if record.outcome in (None, "ack"):
                answer = await caller.call("POST", self.options.settle_target(), body, PERSISTED_WAIT_MS / 1000 + 10)
                persisted = bool(answer.get("persisted")) and not answer.get("failed")
        except (OSError, ValueError, SidecarError):
            persisted = False  # It is sent again without the wait.
        finally:
            caller.close()
        record.ack()
        return persisted


class _Lanes:
    """Up to `concurrency` handlers at the same time, and the records of one scope one after the other."""

    def __init__(self, engine: Engine, handler: Callable[[Record], Awaitable[Any]], concurrency: int,
                 is_stopped: Callable[[], bool]):
        self._engine = engine
        self._handler = handler
        self._free = asyncio.Semaphore(concurrency)
        self._is_stopped = is_stopped
        self._waiting: dict[Any, collections.deque[Record]] = {}
        self._held: set[Any] = set()  # Scopes without a record that is ready or handled.
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, item: list[Record] | Resolved) -> None:
        if isinstance(item, Resolved):
            if item.scope in self._held:
                self._held.remove(item.scope)
                self._next(item.scope)
            return
        for record in item:
            scope = self._engine.scope_of(record)
            if scope is None:
                self._begin(record)
            elif scope in self._waiting:
                self._waiting[scope].append(record)
            else:
                self._waiting[scope] = collections.deque([record])
                self._next(scope)
        await asyncio.sleep(0)

    async def join(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, record: Record) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, record: Record) -> None:
        async with self._free:
            if not self._is_stopped() and self._engine.may_begin(record):
                await self._call(record)
        scope = self._engine.scope_of(record)
        if scope is not None:
            self._next(scope)

    async def _call(self, record: Record) -> None:
        try:
            result = self._handler(record)
            if inspect.isawaitable(result):
                await result
        except Exception as err:
            record.retry(reason=f"{type(err).__name__}: {err}")
        else:
            record.ack()

    def _next(self, scope: Any) -> None:
        """No record of the scope is handled: the next one is, unless a retry holds the scope."""
        if not self._waiting[scope] or self._is_stopped():
            del self._waiting[scope]
        elif self._engine.is_held(scope):
            self._held.add(scope)
        else:
            self._begin(self._waiting[scope].popleft())
