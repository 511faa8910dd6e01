"""The exact engine: every vector of the owner is compared with the query, in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from store.driver import Database, open_raw_batches, translated_errors
from store.vectors.batch import VectorBatch
from store.vectors.cache import RowsCache
from store.vectors.collections import check_lengths, collection_name, mismatch
from store.vectors.decoding import decode_batch
from store.vectors.engine import EngineName, VectorQuery
from store.vectors.rows import VectorRows
from store.vectors.similarity import Match, Ranking, rank

T = TypeVar("T")

_SMALL = 4_000_000
"""Numbers that are compared in about a millisecond: less than the way to another thread and back is worth."""
_FEW = 200_000
"""Similarities among which the best are found in less time than that."""


class ExactEngine:
    """Compares on a worker thread; `cache` keeps the vectors of the owners used last."""

    name = EngineName.EXACT

    def __init__(self, database: Database, dimensions: int, cache: RowsCache, *, timeout: float = 5.0) -> None:
        self.database = database
        self.dimensions = dimensions
        self.cache = cache
        self.timeout = timeout
        self.collection = database[collection_name(dimensions)]

    async def search(self, query: VectorQuery) -> "RankedCandidates":
        """Compare the query with every vector in its scope. Raises EmbeddingMismatch, Unavailable."""
        rows = await self.cache.get(query.owner, lambda: self._load(query.owner))
        if not len(rows):
            await check_lengths(self.database, self.dimensions, query.owner, timeout=self.timeout)
        is_small = rows.columns.size <= _SMALL
        return RankedCandidates(await _run(lambda: self._rank(rows, query), is_small), len(rows) <= _FEW)

    def _rank(self, rows: VectorRows, query: VectorQuery) -> Ranking:
        return rank(rows, query.vector, thread_id=query.thread_id, threshold=query.threshold)

    async def _load(self, owner: str) -> VectorRows:
        """All vectors of an owner, in stored order."""
        batches = [await asyncio.to_thread(decode_batch, data, self.dimensions) async for data in self._read(owner)]
        self._check_lengths(batches)
        return await asyncio.to_thread(VectorRows.from_batches, batches, self.dimensions)

    async def _read(self, owner: str) -> AsyncIterator[bytes]:
        fields = {"embedding": 1, "metadata.message_id": 1, "metadata.thread_id": 1, "metadata.resource_id": 1}
        condition = {"metadata.resource_id": owner}
        with translated_errors():
            async for data in open_raw_batches(self.collection, condition, fields, timeout=self.timeout):
                yield data

    def _check_lengths(self, batches: list[VectorBatch]) -> None:
        others = {length for batch in batches for length in batch.other_lengths}
        if others and not any(batch.message_ids for batch in batches):
            raise mismatch(max(others), self.dimensions)


class RankedCandidates:
    """Candidates from a ranking, worked out no further than taken."""

    engine = EngineName.EXACT

    def __init__(self, ranking: Ranking, are_few: bool) -> None:
        self._ranking = ranking
        self._are_few = are_few

    async def take(self, count: int) -> list[Match]:
        """The next `count` candidates, fewer at the end, none after it."""
        return await _run(lambda: self._ranking.take(count), self._are_few)


async def _run(work: Callable[[], T], is_small: bool) -> T:
    """Work done here when it is small, else on another thread."""
    return work() if is_small else await asyncio.to_thread(work)
