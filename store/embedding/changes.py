"""Which messages change, told by a change stream of either driver."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import bson

from store.driver import Collection, Document, translated_errors

_PIPELINE = [{"$project": {"operationType": 1, "documentKey": 1}}]
_PATIENCE_MILLISECONDS = 250
_LONGEST_GATHERING = 2.0
_MOST_KEYS = 256


class Changes:
    """The keys of documents that were written or removed since the stream was opened.

    An event says neither what a removed document was nor what a written one has become by now, so keys are all that
    is taken from it. `token` is the place reached: a stream can be opened after it again.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._keys: dict[bytes, object] = {}

    @property
    def is_alive(self) -> bool:
        """False once the collection was dropped or renamed."""
        return bool(self._stream.alive)

    @property
    def token(self) -> Document | None:
        """The place after everything that was gathered."""
        token: Document | None = self._stream.resume_token
        return token

    async def look(self) -> bool:
        """Wait a moment for one event; whether there was any. Raises Unavailable, or the driver's OperationFailure."""
        # A look that is broken off would leave its connection or its thread in the middle of a reply.
        event = await _undisturbed(self._stream.try_next())
        if event is not None and "documentKey" in event:
            key = event["documentKey"]["_id"]
            self._keys[bson.encode({"": key})] = key
        return event is not None

    async def gather(self) -> list[object]:
        """The keys of what changed, each once: after a moment without events, or when there are many."""
        deadline = time.monotonic() + _LONGEST_GATHERING
        while len(self._keys) < _MOST_KEYS and time.monotonic() < deadline and await self.look():
            pass
        keys, self._keys = list(self._keys.values()), {}
        return keys


@asynccontextmanager
async def open_changes(collection: Collection, after: Document | None = None) -> AsyncIterator[Changes]:
    """Open a change stream on a collection, at the place `after` or now; nothing from then on is missed.

    Raises Unavailable, and the driver's OperationFailure, with a code of `NO_CHANGE_STREAMS` where the server has none.
    """
    place = {} if after is None else {"resume_after": after}
    with translated_errors():
        opened = collection.watch(_PIPELINE, max_await_time_ms=_PATIENCE_MILLISECONDS, **place)
        stream: Any = await opened if inspect.isawaitable(opened) else opened
        try:
            changes = Changes(stream)
            # Motor's stream is opened by the first look.
            await changes.look()
            yield changes
        finally:
            await stream.close()


async def _undisturbed(awaitable: Any) -> Any:
    """Await to the end, also when cancelled meanwhile."""
    task = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
