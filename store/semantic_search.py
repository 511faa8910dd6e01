"""Semantic search over one database: an embedder, the engine that was chosen, and what keeps it fresh."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from store.driver import Database
from store.embedders.cache import CachedEmbedder
from store.embedders.protocol import Embedder
from store.search import Found
from store.vectors.blas import use_one_blas_thread
from store.vectors.cache import RowsCache
from store.vectors.choosing import EngineChoice, choose_engine
from store.vectors.engine import VectorEngine, VectorQuery
from store.vectors.exact import ExactEngine
from store.vectors.watching import watch


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Which engine answers, the name of a vector index, and how much of the exact engine's memory lives how long.

    `cache_bytes` bounds the vectors in memory; `cache_seconds` is how long they are kept where the server has no
    change streams; `timeout` (seconds) bounds every exchange with the server.
    """

    engine: EngineChoice = "auto"
    index: str | None = None
    cache_bytes: int = 512 * 1024 * 1024
    cache_seconds: float = 5.0
    cached_queries: int = 1024
    timeout: float = 5.0


class SemanticSearch:
    """Turns a text into a vector and searches for it with the engine that `refresh` chose."""

    def __init__(self, database: Database, embedder: Embedder, options: SearchOptions = SearchOptions()) -> None:
        self.database = database
        self.embedder = CachedEmbedder(embedder, options.cached_queries)
        self.options = options
        self.cache = RowsCache(options.cache_bytes, options.cache_seconds)
        self._engine: VectorEngine | None = None
        self._choosing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        use_one_blas_thread()

    async def find(self, text: str, owner: str, thread_id: str | None, threshold: float | None) -> Found:
        """Candidates for a text among the messages of one owner, or of one of its threads.

        Raises EmbedderFailed, EmbeddingMismatch, Unavailable.
        """
        embedded = await self.embedder.embed([text])
        vector = embedded.vectors[0]
        engine = await self._engine_for(int(np.size(vector)))
        candidates = await engine.search(VectorQuery(vector, owner, thread_id, threshold))
        return Found(candidates.engine, embedded.tokens, candidates)

    async def refresh(self) -> None:
        """Choose the engine, and choose anew later: an index may have become ready, or have gone.

        Does nothing before the embedder's dimensions are known. Raises Unavailable.
        """
        dimensions = self.embedder.dimensions
        if dimensions is not None:
            async with self._choosing:
                await self._choose(dimensions)

    async def _engine_for(self, dimensions: int) -> VectorEngine:
        async with self._choosing:
            return self._engine or await self._choose(dimensions)

    async def _choose(self, dimensions: int) -> VectorEngine:
        exact = ExactEngine(self.database, dimensions, self.cache, timeout=self.options.timeout)
        if self._watching is None:
            self._watching = asyncio.create_task(watch(exact.collection, self.cache))
        self._engine = await choose_engine(exact, self.options.engine, self.options.index)
        return self._engine

    async def aclose(self) -> None:
        """End what runs in the background and close the embedder."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self.cache.aclose()
        await self.embedder.aclose()
