"""Remembers the vectors of the latest texts, for queries that come again."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b

import numpy as np

from store.embedders.protocol import Embedder, Embeddings, Vectors, no_embeddings

_Key = bytes


class CachedEmbedder:
    """Puts a bounded memory in front of another embedder.

    Texts that are asked for at the same time are embedded once. A failure is remembered by nobody: the next call
    tries again. A caller who stops waiting does not stop the others, nor the call they share. Meant for queries;
    what embeds many messages should ask the inner embedder, or it empties the memory.
    """

    def __init__(self, inner: Embedder, capacity: int = 1024) -> None:
        """Keeps the vectors of the `capacity` texts used last."""
        self._inner = inner
        self._capacity = capacity
        self._rows: OrderedDict[_Key, Vectors] = OrderedDict()
        self._running: dict[_Key, tuple[asyncio.Task[Embeddings], int]] = {}

    @property
    def model(self) -> str:
        """The inner embedder's model."""
        return self._inner.model

    @property
    def dimensions(self) -> int | None:
        """The inner embedder's dimensions."""
        return self._inner.dimensions

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of the texts. `tokens` is what this very call cost.

        Remembered texts, and texts that another call is just embedding, cost nothing: 0 when there are no others.
        Raises EmbedderFailed.
        """
        if not texts:
            return no_embeddings(self.dimensions)
        keys = [_key(text) for text in texts]
        if len(keys) == 1 and keys[0] in self._rows:
            return Embeddings(self._recalled(keys[0])[np.newaxis], tokens=0)
        remembered = {key: self._recalled(key) for key in keys if key in self._rows}
        own = self._started({key: text for key, text in zip(keys, texts, strict=True) if self._is_new(key)})
        # Taken now: while we wait, a finished call leaves `_running` and its rows may be forgotten.
        awaited = {key: self._running[key] for key in keys if key not in remembered}
        rows = dict(remembered)
        for key, (task, row) in awaited.items():
            rows[key] = (await asyncio.shield(task)).vectors[row]
        return Embeddings(np.stack([rows[key] for key in keys]), tokens=own.result().tokens if own else 0)

    async def aclose(self) -> None:
        """Ends the calls under way and closes the inner embedder."""
        tasks = {task for task, _ in self._running.values()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._inner.aclose()

    def _is_new(self, key: _Key) -> bool:
        return key not in self._rows and key not in self._running

    def _recalled(self, key: _Key) -> Vectors:
        self._rows.move_to_end(key)
        return self._rows[key]

    def _started(self, new: dict[_Key, str]) -> asyncio.Task[Embeddings] | None:
        """Starts one call for all the new texts; None when there are none."""
        if not new:
            return None
        task = asyncio.ensure_future(self._inner.embed(list(new.values())))
        self._running.update((key, (task, row)) for row, key in enumerate(new))
        task.add_done_callback(partial(self._finished, list(new)))
        return task

    def _finished(self, keys: list[_Key], task: asyncio.Task[Embeddings]) -> None:
        for key in keys:
            del self._running[key]
        if task.cancelled() or task.exception() is not None:
            return
        for key, row in zip(keys, task.result().vectors, strict=True):
            # A copy: a row of the matrix would keep the whole matrix.
            self._rows[key] = row.copy()
        while len(self._rows) > self._capacity:
            self._rows.popitem(last=False)


def _key(text: str) -> _Key:
    """A digest in place of the text, which may be long."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()
