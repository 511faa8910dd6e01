"""The Atlas engine: the database's own vector search index is asked, and nothing is kept in memory.

An index gives the rows nearest to a query, at most 10 000. Paths that it declares for filters go into the search
itself, and so before the cut. For other paths the ids of the rows in the scope go there, if there are not too many
(Mastra's index declares `_id`); failing that, more rows are read than needed and those of others left out.

An empty answer proves nothing: an index under construction, and one that is gone, give it too.
"""

import logging
import time
from collections import deque

import numpy as np
import pymongo
from pymongo.errors import OperationFailure

from store.driver import Database, Document, Pipeline, open_cursor, translated_errors
from store.errors import Unavailable
from store.values import CODEC
from store.vectors.atlas_pipeline import (
    MAX_CANDIDATES,
    ScopeFilter,
    id_stages,
    scope_of,
    search_stages,
    to_matches,
)
from store.vectors.collections import check_lengths, collection_name, mismatch
from store.vectors.engine import Candidates, EngineName, VectorEngine, VectorQuery
from store.vectors.search_indexes import IndexProbe, VectorIndex, probe_vector_index
from store.vectors.similarity import Match

log = logging.getLogger("recallql.store")

_LEAST_ROWS = 20
_ROWS_PER_MATCH = 2
_GROWTH = 10
_PROBE_SECONDS = 10.0


class AtlasEngine:
    """Searches with the vector search index for vectors of `dimensions` numbers.

    `index_name` None: the index is found by Mastra's registry and names. `fallback` answers what the index cannot:
    everything while it is missing or not ready, and what lies beyond its last row. Without one that is Unavailable,
    with the reason. `max_rows` bounds the rows of one search, at most Atlas's 10 000; `timeout` (seconds) every
    command.
    """

    name = EngineName.ATLAS

    def __init__(
        self,
        database: Database,
        dimensions: int,
        *,
        index_name: str | None = None,
        fallback: VectorEngine | None = None,
        timeout: float = 5.0,
        max_rows: int = MAX_CANDIDATES,
    ) -> None:
        self.database = database
        self.dimensions = dimensions
        self.index_name = index_name
        self.fallback = fallback
        self.timeout = timeout
        self.max_rows = min(max_rows, MAX_CANDIDATES)
        self._probe: IndexProbe | None = None
        self._probed_at = 0.0

    async def refresh(self) -> IndexProbe:
        """Look for the index anew; what is found serves the next searches. Raises Unavailable."""
        self._probe = await probe_vector_index(self.database, self.dimensions, self.index_name, timeout=self.timeout)
        self._probed_at = time.monotonic()
        return self._probe

    def doubt(self) -> None:
        """The index did not behave as the last look at it promised: the next search looks again."""
        self._probe = None

    async def search(self, query: VectorQuery) -> Candidates:
        """The candidates of a query.

        Raises EmbeddingMismatch for a query of another length than the index's, and Unavailable.
        """
        probe = await self._current_probe()
        index, length = probe.index, int(query.vector.size)
        is_fitting = index is not None and index.dimensions == length
        if index is not None and is_fitting and probe.obstacle is None:
            return AtlasCandidates(self, index, query)
        if self.fallback is not None:
            return await self.fallback.search(query)
        if index is not None and not is_fitting:
            raise mismatch(index.dimensions, length)
        if await self.has_rows(collection_name(self.dimensions), query):
            raise not_available(probe.obstacle or "")
        return NoCandidates()

    async def has_rows(self, collection: str, query: VectorQuery) -> bool:
        """Whether a row lies in the scope of a query. Raises EmbeddingMismatch when all vectors have other lengths."""
        rows = self.database.get_collection(collection, codec_options=CODEC)
        with translated_errors(), pymongo.timeout(self.timeout):
            if await rows.find_one(scope_of(query), {"_id": 1}):
                return True
        await check_lengths(self.database, self.dimensions, query.owner, timeout=self.timeout)
        return False

    async def _current_probe(self) -> IndexProbe:
        """What is known of the index; an obstacle is looked at again after a while, as it may have gone."""
        probe = self._probe
        is_old = time.monotonic() - self._probed_at > _PROBE_SECONDS
        return await self.refresh() if probe is None or (probe.obstacle and is_old) else probe


class NoCandidates:
    """The candidates where no vector is stored."""

    engine = EngineName.ATLAS

    async def take(self, count: int) -> list[Match]:
        """None, however many are wanted."""
        return []


class AtlasCandidates:
    """Candidates from an index, read as far as they are taken: each reading starts at the best and reaches further."""

    engine = EngineName.ATLAS

    def __init__(self, engine: AtlasEngine, index: VectorIndex, query: VectorQuery) -> None:
        """Made by `AtlasEngine.search`."""
        self._engine = engine
        self._index = index
        self._query = query
        self._collection = engine.database.get_collection(index.collection, codec_options=CODEC)
        self._scope: ScopeFilter | None = None
        self._stored = 0
        self._limit = 0
        self._ready: deque[Match] = deque()
        self._seen: set[str] = set()
        self._has_found = False
        self._is_read = not _has_direction(query)
        self._rest: Candidates | None = None

    async def take(self, count: int) -> list[Match]:
        """The next `count` candidates, fewer at the end, none after it. Raises EmbeddingMismatch, Unavailable."""
        while len(self._ready) < count and not self._is_read:
            await self._read_further(count)
        taken = [self._ready.popleft() for _ in range(min(count, len(self._ready)))]
        while self._rest is not None and len(taken) < count:
            more = await self._rest.take(count - len(taken))
            taken += [match for match in more if match.message_id not in self._seen]
            if more and not self._has_found:
                self._engine.doubt()
            if not more:
                self._rest = None
        return taken

    async def _read_further(self, count: int) -> None:
        """Read the nearest rows once more, and more of them; after the last time the other engine goes on."""
        scope = self._scope = self._scope or await self._find_scope()
        self._limit = self._next_limit(scope, count)
        rows = await self._ask(scope)
        if rows is None:
            self._is_read = True
            self._rest = await self._delegate(f"The index {self._index.name} refuses the query.")
            return
        self._has_found = self._has_found or bool(rows)
        is_all = self._stored <= self._limit if scope.matched else len(rows) < self._limit
        is_last = is_all or self._limit == self._engine.max_rows
        is_below = self._add(to_matches(rows), is_last)
        self._is_read = is_last or is_below
        if is_last and not is_below and not await self._is_end(is_all):
            reason = f"The index {self._index.name} gives {self._limit} rows at most, too few for this search."
            self._rest = await self._delegate(reason)

    async def _delegate(self, reason: str) -> Candidates:
        if self._engine.fallback is None:
            raise not_available(reason)
        return await self._engine.fallback.search(self._query)

    def _next_limit(self, scope: ScopeFilter, count: int) -> int:
        wanted = _ROWS_PER_MATCH * (len(self._seen) + count) * (_GROWTH if scope.matched else 1)
        return min(max(_LEAST_ROWS, wanted, _GROWTH * self._limit), self._engine.max_rows)

    def _add(self, matches: list[Match], is_last: bool) -> bool:
        """Make ready what further rows cannot displace; whether the threshold was passed."""
        # Rows as good as the last one may be missing, and which of them came is chance.
        floor = matches[-1].score if matches and not is_last else -1.0
        for match in matches:
            if self._query.threshold is not None and match.score < self._query.threshold:
                return True
            if match.score > floor and match.message_id not in self._seen:
                self._seen.add(match.message_id)
                self._ready.append(match)
        return False

    async def _is_end(self, is_all: bool) -> bool:
        """Whether nothing in the scope lies beyond the rows that were read."""
        if self._has_found:
            return is_all
        if self._engine.fallback is not None:
            return False
        if not await self._engine.has_rows(self._index.collection, self._query):
            return True
        obstacle = (await self._engine.refresh()).obstacle
        if obstacle is not None:
            raise not_available(obstacle)
        return is_all

    async def _find_scope(self) -> ScopeFilter:
        """How to keep to the scope: by declared paths alone if possible, else by ids, else by reading too much."""
        scope = ScopeFilter.of(self._query, self._index.filter_paths)
        if not scope.matched:
            return scope
        most = self._engine.max_rows
        if "_id" in self._index.filter_paths:
            ids = [row["_id"] for row in await self._rows(id_stages(self._query, most + 1), most + 2)]
            # One filter takes values of one type only.
            if len(ids) <= most and len(set(map(type, ids))) <= 1:
                return ScopeFilter.of_ids(ids)
        with translated_errors(), pymongo.timeout(self._engine.timeout):
            self._stored = await self._collection.estimated_document_count()
        return scope

    async def _ask(self, scope: ScopeFilter) -> list[Document] | None:
        """The rows that the index gives; None when it refuses."""
        if scope.is_empty:
            return []
        stages = search_stages(self._index.name, self._query.vector.tolist(), scope, self._limit)
        try:
            return await self._rows(stages, self._limit + 1)
        except OperationFailure as error:
            log.warning("%s: the search index refuses a query (code %s)", self._index.name, error.code, exc_info=error)
            self._engine.doubt()
            return None

    async def _rows(self, stages: Pipeline, batch_size: int) -> list[Document]:
        """Run a pipeline in one command. Raises Unavailable, and OperationFailure for what is refused."""
        with translated_errors(), pymongo.timeout(self._engine.timeout):
            cursor = await open_cursor(self._collection, stages, batchSize=batch_size)
            try:
                return await cursor.to_list(None)
            finally:
                await cursor.close()


def _has_direction(query: VectorQuery) -> bool:
    length = float(np.linalg.norm(np.asarray(query.vector, dtype=np.float64)))
    return bool(np.isfinite(length)) and length > 0


def not_available(reason: str) -> Unavailable:
    """The error for a search that the index cannot answer, and nobody else does."""
    return Unavailable(f"Semantic recall is not available. {reason}")
