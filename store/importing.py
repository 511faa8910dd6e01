"""Bringing files that `mongoexport` wrote into a collection.

A document replaces the one with the same `id`, and keeps that one's `_id`; without `id`, `_id` decides. A batch is
written only when all of it could be read, so a bad line costs its own batch and nothing before it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import bson
from pymongo import InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError, OperationFailure

from store.driver import Collection, Document, translated_errors
from store.errors import TaskFailed, Unavailable
from store.extended_json import Malformed, read_documents

BATCH_SIZE = 500


@dataclass(frozen=True)
class ImportReport:
    """How many documents were new to the collection, and how many took the place of an older one."""

    inserted: int = 0
    replaced: int = 0

    @property
    def written(self) -> int:
        """All documents that were written."""
        return self.inserted + self.replaced


class ImportFailed(TaskFailed):
    """A file cannot be read, or a document not written. The message names the place; `report` what was done."""

    def __init__(self, message: str, report: ImportReport) -> None:
        super().__init__(f"{message} Documents written before: {report.written}.")
        self.report = report


@dataclass(frozen=True)
class _Row:
    place: str
    field: str
    document: Document

    @property
    def key(self) -> bytes:
        return bson.encode({self.field: self.document[self.field]})


async def import_documents(
    collection: Collection, paths: Iterable[Path], *, progress: Callable[[int], None] = lambda written: None
) -> ImportReport:
    """Write the documents of all files into a collection of either driver, in order, in batches.

    A collection whose documents have an `id` gets the unique index on it that Mastra makes, if it has none.
    `progress` is told after each batch how many documents have been written so far.
    Raises ImportFailed, which names file and line and says how much was written before.
    """
    report = ImportReport()
    batches = _batches(row for path in paths for row in _rows(path))
    try:
        with translated_errors():
            options = await _collation(collection)
            while batch := await asyncio.to_thread(next, batches, None):
                if report.written == 0:
                    await _ensure_index(collection, batch, options)
                report = await _write(collection, batch, options, report)
                progress(report.written)
    except (Malformed, Unavailable) as error:
        raise ImportFailed(str(error), report) from error
    return report


def _rows(path: Path) -> Iterator[_Row]:
    for place, document in read_documents(path):
        field = "_id" if document.get("id") is None else "id"
        key = document.get(field)
        if key is None:
            raise Malformed(f"{place}: the document has neither id nor _id.")
        if field == "id" and (not isinstance(key, str) or not key.strip()):
            raise Malformed(f"{place}: id must be text, and not blank.")
        yield _Row(place, field, document)


def _batches(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    """Rows in lists of BATCH_SIZE; a list ends early before a document that it already holds."""
    batch: dict[bytes, _Row] = {}
    for row in rows:
        if row.key in batch or len(batch) == BATCH_SIZE:
            yield list(batch.values())
            batch = {}
        batch[row.key] = row
    if batch:
        yield list(batch.values())


async def _collation(collection: Collection) -> dict[str, Any]:
    # An id is compared exactly, whatever collation the collection was created with.
    has_collation = "collation" in await collection.options()
    return {"collation": {"locale": "simple"}} if has_collation else {}


async def _ensure_index(collection: Collection, batch: list[_Row], options: dict[str, Any]) -> None:
    # Without an index on `id`, each batch reads the whole collection. Unique, because Mastra's own index is, and a
    # plain one would stand in its way. Where it cannot be made, the import is slow and still right.
    if all(row.field == "id" for row in batch):
        with suppress(OperationFailure):
            await collection.create_index("id", unique=True, **options)


async def _write(
    collection: Collection, batch: list[_Row], options: dict[str, Any], before: ImportReport
) -> ImportReport:
    ids = [row.document["id"] for row in batch if row.field == "id"]
    stored = await collection.find({"id": {"$in": ids}}, {"id": True}, **options).to_list(None)
    keys = {document["id"]: document["_id"] for document in stored}
    requests = [_to_request(row, keys, options) for row in batch]
    try:
        result = await collection.bulk_write(requests)
    except BulkWriteError as error:
        _raise_refusal(error, batch, before)
    except OperationFailure as error:
        message = f"{batch[0].place} and up to {len(batch) - 1} more: the database refuses them: {error}."
        raise ImportFailed(message, before) from error
    inserted = result.inserted_count + result.upserted_count
    return ImportReport(before.inserted + inserted, before.replaced + result.matched_count)


def _to_request(row: _Row, keys: dict[str, Any], options: dict[str, Any]) -> InsertOne[Document] | ReplaceOne[Document]:
    rest = {name: value for name, value in row.document.items() if name != "_id"}
    if row.field == "id" and row.document["id"] not in keys:
        # An _id is made here and not by the server, so that documents without one keep the order of the file.
        return InsertOne({"_id": row.document.get("_id", bson.ObjectId()), **rest})
    # By `_id`, which always has an index; and it is the one value that a replacement cannot change.
    key = keys[row.document["id"]] if row.field == "id" else row.document["_id"]
    return ReplaceOne({"_id": {"$eq": key}}, {"_id": key, **rest}, upsert=True, **options)


def _raise_refusal(error: BulkWriteError, batch: list[_Row], before: ImportReport) -> NoReturn:
    details = error.details or {}
    inserted = details.get("nInserted", 0) + details.get("nUpserted", 0)
    done = ImportReport(before.inserted + inserted, before.replaced + details.get("nMatched", 0))
    refusals = details.get("writeErrors") or [{"index": 0, "errmsg": str(error)}]
    place = batch[refusals[0]["index"]].place
    raise ImportFailed(f"{place}: the database refuses the document: {refusals[0]['errmsg']}.", done) from error
