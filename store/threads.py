"""Conversation threads: one by id, many by id, and the filtered, ordered, paged list."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import orjson

from store.content import parse_metadata, to_metadata
from store.cursors import Cursor
from store.driver import Document, Pipeline
from store.filters import MetadataFilter
from store.lazy import lazy
from store.listing import Read, end_of, read_listing, to_cursor
from store.ordering import Order
from store.paging import Limits, Needs, PageRequest, Reading, read_page
from store.scope import EVERYBODY, Scope, check_id, check_scope
from store.source import Source
from store.values import JSON, to_clamped_moment, to_text
from store.verifying import PARSED, Verification, read_mostly_documents, read_verified

FIELDS = ("id", "resourceId", "title", "metadata", "createdAt", "updatedAt")
"""The stored fields of a thread; `_id` is MongoDB's own and is not among them."""


@dataclass(frozen=True)
class Thread:
    """A conversation thread."""

    id: str
    resource_id: str
    title: str | None
    created_at: datetime
    updated_at: datetime
    stored_metadata: object = field(repr=False)
    scope: Scope = EVERYBODY
    """Whose rows may be seen beneath this thread."""

    @classmethod
    def from_document(cls, document: Document, scope: Scope) -> "Thread":
        """A stored document as a thread; odd or missing values never raise."""
        title = document.get("title")
        thread = cls(
            id=to_text(document.get("id")),
            resource_id=to_text(document.get("resourceId")),
            title=None if title is None else to_text(title),
            created_at=to_clamped_moment(document.get("createdAt")),
            updated_at=to_clamped_moment(document.get("updatedAt", document.get("createdAt"))),
            stored_metadata=document.get("metadata"),
            scope=scope,
        )
        if PARSED in document:
            thread.__dict__["metadata"] = to_metadata(document[PARSED])
        return thread

    @lazy
    def metadata(self) -> dict[str, JSON]:
        """The thread's metadata, also from old rows that hold them as text."""
        return parse_metadata(self.stored_metadata)

    @lazy
    def working_memory(self) -> str | None:
        """Working memory kept with the thread; a document is given as its JSON text."""
        memory = self.metadata.get("workingMemory")
        return memory if memory is None or isinstance(memory, str) else orjson.dumps(memory).decode()


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """A page of threads; `total` and `has_more` are None where they were not needed.

    After `end` the next page begins: the place of the last row, or that of the request when there is no row.
    """

    threads: list[Thread]
    total: int | None
    has_more: bool | None
    end: Cursor | None = None


class Threads:
    """Reads the collection of threads."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits

    async def find(
        self,
        scope: Scope,
        page: PageRequest,
        *,
        metadata: MetadataFilter = MetadataFilter(),
        order: Order = Order(),
        needs: Needs = Needs(),
    ) -> ThreadPage:
        """The threads of a scope that match, in order, one page of them.

        Raises InvalidArgument, LimitExceeded, Unavailable.
        """
        check_scope(scope, "filter.resourceId")
        cursor = to_cursor(page.check(self.limits), "threads", order)
        wanted = {"_id", "id", order.field, *(FIELDS if needs.fields is None else needs.fields)}
        reading = self._reading(scope, order, wanted)
        found = await read_listing(self._reader(metadata, wanted), reading, page, cursor, needs)
        threads = [Thread.from_document(document, scope) for document in found.documents]
        return ThreadPage(unique_by_id(threads), found.total, found.has_more, end_of(found, "threads", order, cursor))

    def _reading(self, scope: Scope, order: Order, wanted: set[str]) -> Reading:
        def matches() -> Pipeline:
            return [{"$match": scope.to_condition()}, *self.source.repair_stage()]

        return Reading(self.source, matches, order.to_sort(), [{"$project": _project(wanted)}], self.limits)

    def _reader(self, metadata: MetadataFilter, wanted: set[str]) -> Read:
        """How a page is read, depending on who can decide the filter."""
        if not metadata:
            return read_page
        verification = Verification("metadata", "metadata", metadata, wanted)
        return partial(read_verified if self.source.has_text_metadata else read_mostly_documents, verification)

    async def get(self, thread_id: str, scope: Scope, needs: Needs = Needs()) -> Thread | None:
        """One thread by its public id; None when it does not exist or lies outside the scope."""
        check_scope(scope, "resourceId")
        found = await self.get_many([check_id(thread_id, "id")], scope, needs)
        return found.get(thread_id)

    async def get_many(self, thread_ids: Iterable[str], scope: Scope, needs: Needs = Needs()) -> dict[str, Thread]:
        """Threads by their public ids in one command; what does not exist or lies outside the scope is left out."""
        ids = sorted(set(thread_ids))
        pipeline: Pipeline = [
            {"$match": {"id": {"$in": ids}}},
            *scope.to_stages(),
            {"$sort": {"_id": 1}},
            {"$project": _project({"_id", "id", *(FIELDS if needs.fields is None else needs.fields)})},
        ]
        rows = await self.source.rows(pipeline, batch_size=len(ids) + 1)
        return {thread.id: thread for thread in (Thread.from_document(row, scope) for row in reversed(rows))}

    async def get_owner(self, thread_id: str) -> str | None:
        """The resource that owns a thread; None when there is no such thread."""
        pipeline: Pipeline = [
            {"$match": {"id": thread_id}},
            {"$sort": {"_id": 1}},
            {"$limit": 1},
            {"$project": {"_id": 1, "resourceId": 1}},
        ]
        rows = await self.source.rows(pipeline, batch_size=2)
        return to_text(rows[0].get("resourceId")) if rows else None


def unique_by_id(threads: list[Thread]) -> list[Thread]:
    """Threads without repeated ids, which a database without a unique index may hold: the first of each."""
    unique: dict[str, Thread] = {}
    for thread in threads:
        unique.setdefault(thread.id, thread)
    return list(unique.values())


def _project(fields: set[str]) -> dict[str, int]:
    return dict.fromkeys(sorted(fields), 1)
