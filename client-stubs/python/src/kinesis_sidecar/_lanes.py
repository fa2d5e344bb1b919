# SPDX-License-Identifier: Apache-2.0
"""Several handlers at the same time, and the records of one scope (shard or lane) one after the other."""

from __future__ import annotations

import collections
import queue
import threading
from typing import Any, Callable, Iterable

from ._engine import Engine, Resolved
from ._record import Record


class Lanes:
    """Decides which records may be handled. Calls `ready` with each, in order; its user calls `done` when one was
    handled."""

    def __init__(self, engine: Engine, ready: Callable[[Record], Any]):
        self._engine = engine
        self._ready = ready
        # Records that wait for the one of their scope that is ready, is handled, or holds the scope.
        self._waiting: dict[Any, collections.deque[Record]] = {}
        self._held: set[Any] = set()  # Scopes without a record that is ready or handled.

    def take(self, item: list[Record] | Resolved) -> None:
        if isinstance(item, Resolved):
            if item.scope in self._held:
                self._held.remove(item.scope)
                self._next(item.scope)
            return
        for record in item:
            scope = self._engine.scope_of(record)
            if scope is None:
                self._ready(record)
            elif scope in self._waiting:
                self._waiting[scope].append(record)
            else:
                self._waiting[scope] = collections.deque([record])
                self._next(scope)

    def done(self, record: Record) -> None:
        scope = self._engine.scope_of(record)
        if scope is not None:
            self._next(scope)

    def _next(self, scope: Any) -> None:
        """No record of the scope is ready or handled: the next one becomes ready, unless a retry holds the scope."""
        if not self._waiting[scope]:
            del self._waiting[scope]
        elif self._engine.is_held(scope):
            self._held.add(scope)
        else:
            self._ready(self._waiting[scope].popleft())


class Threads:
    """Handles records in threads."""

    def __init__(self, engine: Engine, handle: Callable[[Record], Any], concurrency: int,
                 is_stopped: Callable[[], bool]):
        self._engine = engine
        self._handle = handle
        self._is_stopped = is_stopped
        self._ready: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._lanes = Lanes(engine, self._ready.put)
        self._lock = threading.Lock()  # Of the lanes.
        self._threads = [threading.Thread(target=self._work, name=f"kinesis-sidecar-handler-{number}", daemon=True)
                         for number in range(concurrency)]

    def run(self, items: Iterable[list[Record] | Resolved]) -> None:
        """Handles records until the items end. Returns when no handler runs."""
        for thread in self._threads:
            thread.start()
        try:
            for item in items:
                with self._lock:
                    self._lanes.take(item)
        finally:
            for _ in self._threads:
                self._ready.put(None)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (record := self._ready.get()) is not None:
            if not self._is_stopped() and self._engine.may_begin(record):
                self._handle(record)
            with self._lock:
                self._lanes.done(record)
