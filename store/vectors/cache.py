"""The vectors of the owners used last, in memory: bounded in bytes, loaded once however many ask, never stale."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from store.vectors.rows import VectorRows


@dataclass(frozen=True, slots=True)
class _Entry:
    rows: VectorRows
    loaded_at: float


class RowsCache:
    """Rows by owner.

    `max_bytes` bounds what is kept: the least recently used go first, and rows that are larger than the bound
    alone are used but not kept. While somebody tells of every change (`is_told`), entries live until `forget`;
    otherwise for `lifetime` seconds.
    """

    def __init__(self, max_bytes: int, lifetime: float) -> None:
        self.max_bytes = max_bytes
        self.lifetime = lifetime
        self.is_told = False
        self.nbytes = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._loading: dict[str, asyncio.Task[VectorRows]] = {}
        self._running: set[asyncio.Task[VectorRows]] = set()

    async def get(self, owner: str, load: Callable[[], Awaitable[VectorRows]]) -> VectorRows:
        """The rows of an owner, loaded if need be; callers at the same time share one load. Raises what `load` does."""
        entry = self._entries.get(owner)
        if entry is not None and self._is_fresh(entry):
            self._entries.move_to_end(owner)
            return entry.rows
        task = self._loading.get(owner)
        if task is None:
            task = asyncio.create_task(self._load(owner, load))
            self._running.add(task)
            task.add_done_callback(self._ended)
            self._loading[owner] = task
        # One caller who leaves does not end the load of the others.
        return await asyncio.shield(task)

    def forget(self, owner: str) -> None:
        """The rows of an owner changed: the next call loads them anew, also while a load is under way."""
        self._loading.pop(owner, None)
        self._drop(owner)

    def forget_all(self) -> None:
        """Any rows may have changed."""
        for owner in [*self._loading, *self._entries]:
            self.forget(owner)

    async def aclose(self) -> None:
        """End the loads under way."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[VectorRows]) -> None:
        self._running.discard(task)
        # A failure that every caller has left behind is no fault of the loop's.
        if not task.cancelled():
            task.exception()

    def _is_fresh(self, entry: _Entry) -> bool:
        return self.is_told or time.monotonic() - entry.loaded_at < self.lifetime

    async def _load(self, owner: str, load: Callable[[], Awaitable[VectorRows]]) -> VectorRows:
        # Told of changes only from before the reading on: the clock starts before it, too.
        started = time.monotonic()
        this = asyncio.current_task()
        try:
            rows = await load()
            if self._loading.get(owner) is this:
                self._keep(owner, _Entry(rows, started))
            return rows
        finally:
            if self._loading.get(owner) is this:
                del self._loading[owner]

    def _keep(self, owner: str, entry: _Entry) -> None:
        self._drop(owner)
        size = entry.rows.nbytes
        if size > self.max_bytes:
            return
        while self.nbytes + size > self.max_bytes:
            self._drop(next(iter(self._entries)))
        self._entries[owner] = entry
        self.nbytes += size

    def _drop(self, owner: str) -> None:
        entry = self._entries.pop(owner, None)
        if entry is not None:
            self.nbytes -= entry.rows.nbytes
