"""A collection as the store reads it: every read goes through here, with what was learnt about the collection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import bson
import pymongo

from store.bson_batches import parts_of
from store.driver import (
    Collection,
    Cursor,
    Database,
    Document,
    Pipeline,
    explained_errors,
    open_cursor,
    open_raw_aggregate,
    uncut,
)
from store.errors import Unavailable
from store.slices import SLICE
from store.values import CODEC

T = TypeVar("T")
log = logging.getLogger("recallql.store")

STREAM_BATCH = 1000
"""Documents of one batch while candidates are verified: bounds the memory of a stream."""
_PROBE_SECONDS = 1.0


class Source:
    """One collection: its name, the pipelines' runner, and two facts that change how it is read.

    `collation`: the collection's own default collation, switched off in every query so that text is
    compared exactly. `text_dates`: some rows keep their times as ISO text (old or imported data);
    they are then put in order by the server with `repair_stage`. `has_text_metadata`: some rows keep
    their metadata (`metadata_field`) as text, so that a filter on them is verified here. `joins_ranges`: the
    server looks up neighbours by an index.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        *,
        timeout: float,
        date_fields: tuple[str, ...],
        metadata_field: str | None = None,
    ) -> None:
        self.name = name
        self.metadata_field = metadata_field
        self.has_text_metadata = False
        self.joins_ranges = True
        self.timeout = timeout
        self.date_fields = date_fields
        self.text_dates = False
        self.collation: dict[str, Any] | None = None
        self.collection: Collection = database.get_collection(name, codec_options=CODEC)

    async def rows(self, pipeline: Pipeline, *, batch_size: int) -> list[Document]:
        """Run a pipeline and return all its rows; a batch of more than them saves a second command."""
        rows = await uncut(self._read(pipeline, batch_size))
        self.note(rows)
        return rows

    async def _read(self, pipeline: Pipeline, batch_size: int) -> list[Document]:
        with explained_errors(), pymongo.timeout(self.timeout):
            cursor = await self._open(pipeline, batch_size)
            try:
                return await cursor.to_list(None)
            finally:
                await cursor.close()

    async def many_rows(self, pipeline: Pipeline, *, batch_size: int) -> list[Document]:
        """Like `rows`, for very many: they are decoded in slices, between which other requests have their turn."""
        rows: list[Document] = []
        for data in await uncut(self._read_raw(pipeline, batch_size)):
            for part in parts_of(data, SLICE):
                rows += bson.decode_all(part, CODEC)
                await asyncio.sleep(0)
        self.note(rows)
        return rows

    async def _read_raw(self, pipeline: Pipeline, batch_size: int) -> list[bytes]:
        with explained_errors(), pymongo.timeout(self.timeout):
            return [data async for data in open_raw_aggregate(self.collection, pipeline, **self._options(batch_size))]

    @asynccontextmanager
    async def stream(self, pipeline: Pipeline) -> AsyncIterator[AsyncIterator[Document]]:
        """Run a pipeline and give its rows one by one, however many; closing it early ends the work."""
        cursor = await uncut(self._open_in_time(pipeline))
        try:
            yield self._steps(cursor)
        finally:
            await uncut(self._close(cursor))

    async def _close(self, cursor: Cursor) -> None:
        """Let the server forget a cursor; one that does not answer forgets it by itself."""
        with suppress(Unavailable), explained_errors(), pymongo.timeout(self.timeout):
            await cursor.close()

    async def _open_in_time(self, pipeline: Pipeline) -> Cursor:
        with explained_errors(), pymongo.timeout(self.timeout):
            return await self._open(pipeline, STREAM_BATCH)

    async def with_repair(self, read: Callable[[], Awaitable[T]]) -> T:
        """Run a read, and once more when it was the first to meet a time kept as text."""
        before = self.text_dates
        result = await read()
        return await read() if self.text_dates and not before else result

    def repair_stage(self) -> Pipeline:
        """Stages that turn times kept as text into dates; none where no such row is known."""
        if not self.text_dates:
            return []
        return [{"$set": {field: _to_date(field) for field in self.date_fields}}]

    async def survey(self, options: dict[str, Any]) -> None:
        """Learn the facts: `options` are the collection's own, as `listCollections` gives them."""
        self.collation = {"locale": "simple"} if options.get("collation") else None
        if not self.text_dates:
            self.text_dates = any([await self._has_text(field) for field in self.date_fields])
        if self.metadata_field is not None and not self.has_text_metadata:
            self.has_text_metadata = await self._has_text(self.metadata_field)

    async def _has_text(self, field: str) -> bool:
        """Whether any row keeps this field as text; not known within a second counts as no."""
        stages: Pipeline = [{"$match": {field: {"$type": "string"}}}, {"$limit": 1}, {"$project": {"_id": 1}}]
        try:
            with explained_errors(), pymongo.timeout(_PROBE_SECONDS):
                cursor = await open_cursor(self.collection, stages)
                return bool(await cursor.to_list(None))
        except Unavailable:
            log.info("%s: not searched for text in %s within %s s", self.name, field, _PROBE_SECONDS)
            return False

    async def _open(self, pipeline: Pipeline, batch_size: int) -> Cursor:
        return await open_cursor(self.collection, pipeline, **self._options(batch_size))

    def _options(self, batch_size: int) -> dict[str, Any]:
        options: dict[str, Any] = {"batchSize": batch_size}
        return options | {"collation": self.collation} if self.collation else options

    async def _steps(self, cursor: Cursor) -> AsyncIterator[Document]:
        while batch := await uncut(self._next_batch(cursor)):
            self.note(batch)
            for row in batch:
                yield row

    async def _next_batch(self, cursor: Cursor) -> list[Document]:
        with explained_errors(), pymongo.timeout(self.timeout):
            return await cursor.to_list(STREAM_BATCH)

    def note(self, rows: Iterable[Document]) -> None:
        """Learn from rows that were read whether times are kept as text."""
        if not self.text_dates:
            self.text_dates = any(isinstance(row.get(field), str) for row in rows for field in self.date_fields)


def _to_date(field: str) -> dict[str, Any]:
    convert = {"$dateFromString": {"dateString": f"${field}", "onError": None}}
    return {"$cond": [{"$eq": [{"$type": f"${field}"}, "string"]}, convert, f"${field}"]}
