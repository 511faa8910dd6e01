"""The pages of messages of many threads at once, for `messages` beneath a list of threads."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from store.cursors import Cursor
from store.driver import Document, Pipeline, together
from store.messages import (
    NO_FILTER,
    Message,
    MessageFilter,
    MessagePage,
    Messages,
    project,
    unique_by_id,
    wanted_fields,
)
from store.ordering import Order
from store.paging import Limits, Needs, PageRequest, check_rows
from store.scope import Scope
from store.source import Source
from store.verifying import Slice, Verification


@dataclass(frozen=True, slots=True)
class NestedRequest:
    """The same page of each of many threads."""

    scope: Scope
    page: PageRequest
    matching: MessageFilter = NO_FILTER
    order: Order = Order()
    needs: Needs = Needs()


class NestedPages:
    """Reads the same page of many threads in two commands, whatever their number."""

    def __init__(self, threads: Source, messages: Messages, limits: Limits) -> None:
        self.threads = threads
        self.messages = messages
        self.limits = limits

    async def find(self, thread_ids: Iterable[str], request: NestedRequest) -> dict[str, MessagePage]:
        """The page of every thread, also of those without messages. Raises InvalidArgument, LimitExceeded."""
        ids = sorted(set(thread_ids))
        request.page.check(self.limits)
        read = self._read_verified if request.matching.metadata else self._read
        found = await self.messages.source.with_repair(lambda: read(ids, request))
        return {thread_id: found[thread_id] for thread_id in ids}

    async def _read(self, ids: list[str], request: NestedRequest) -> dict[str, MessagePage]:
        rows, totals = await together(self._read_rows(ids, request), self._read_totals(ids, request))
        pages = {}
        for thread_id in ids:
            found, total = rows[thread_id], None if totals is None else totals.get(thread_id, 0)
            seen = request.page.offset + len(found) if total is None else total
            pages[thread_id] = _to_page(found, seen, request)
        return pages

    def _limit(self, request: NestedRequest) -> int:
        """Rows to read of each thread; one more where only that tells whether there are more."""
        per_page, needs = request.page.per_page, request.needs
        if per_page is None:
            return self.limits.max_rows + 1
        return per_page + (needs.has_more and not needs.total) if per_page else 0

    async def _read_rows(self, ids: list[str], request: NestedRequest) -> defaultdict[str, list[Document]]:
        limit = self._limit(request) if request.needs.rows else 0
        by_thread: defaultdict[str, list[Document]] = defaultdict(list)
        if not limit:
            return by_thread
        rows = await self.threads.rows(self.to_pipeline(ids, request, limit), batch_size=self.limits.max_rows)
        for row in rows:
            by_thread[row["message"]["thread_id"]].append(row["message"])
        self.messages.source.note(row["message"] for row in rows)
        if request.page.per_page is None:
            check_rows(len(rows), self.limits)
        return by_thread

    def to_pipeline(self, ids: list[str], request: NestedRequest, limit: int) -> Pipeline:
        """From the threads, a look-up of each one's slice, unwound so that no document outgrows its limit."""
        source = self.messages.source
        slice_of_thread: Pipeline = [
            *self.messages.to_matches({}, request.scope, request.matching.date_range),
            {"$sort": request.order.to_sort()},
            {"$skip": request.page.offset},
            {"$limit": limit},
            *project(wanted_fields(request.needs)),
        ]
        look_up = {
            "from": source.name,
            "localField": "id",
            "foreignField": "thread_id",
            "pipeline": slice_of_thread,
            "as": "message",
        }
        return [
            {"$match": {"id": {"$in": ids}}},
            {"$group": {"_id": "$id"}},
            {"$project": {"id": "$_id"}},
            {"$lookup": look_up},
            {"$unwind": "$message"},
            {"$project": {"_id": 0, "message": 1}},
        ]

    async def _read_totals(self, ids: list[str], request: NestedRequest) -> dict[str, int] | None:
        """How many messages of each thread match; None where nobody asks and the rows tell whether there are more."""
        needs = request.needs
        if not needs.total and not (needs.has_more and not (needs.rows and request.page.per_page)):
            return None
        pipeline = [
            *self._matches(ids, request),
            {"$group": {"_id": "$thread_id", "count": {"$sum": 1}}},
        ]
        rows = await self.messages.source.rows(pipeline, batch_size=len(ids) + 1)
        return {row["_id"]: int(row["count"]) for row in rows}

    def _matches(self, ids: list[str], request: NestedRequest) -> Pipeline:
        # The threads choose the index in a stage of their own: not every server combines a list with a range.
        in_range = self.messages.to_matches({}, request.scope, request.matching.date_range)
        return [{"$match": {"thread_id": {"$in": ids}}}, *in_range]

    async def _read_verified(self, ids: list[str], request: NestedRequest) -> dict[str, MessagePage]:
        """With a metadata filter every candidate is verified, so one stream serves all threads."""
        fields = {*wanted_fields(request.needs), "content"}
        verification = Verification("content", "content.metadata", request.matching.metadata, fields)
        limit = request.page.per_page if request.needs.rows else 0
        slices = {thread_id: Slice(request.page.offset, limit) for thread_id in ids}
        pipeline = [
            *self._matches(ids, request),
            *verification.stage(),
            {"$sort": {"thread_id": 1, **request.order.to_sort()}},
            *project(fields),
        ]
        seen = 0
        async with self.messages.source.stream(pipeline) as rows:
            async for row in rows:
                if verification.admits(row):
                    slices[row["thread_id"]].add(row)
                    seen += 1
                    if request.page.per_page is None:
                        check_rows(seen, self.limits)
        return {thread_id: _to_page(found.rows, found.seen, request) for thread_id, found in slices.items()}


def _to_page(rows: list[Document], seen: int, request: NestedRequest) -> MessagePage:
    """A page of one thread from its rows, perhaps with one too many, and how many matches are known of."""
    page = request.page
    rows = rows[: page.per_page]
    messages = Message.from_documents(rows, request.scope)
    has_more = page.per_page is not None and page.offset + page.per_page < seen
    end = Cursor.of("messages", request.order, rows[-1]) if rows else None
    return MessagePage(unique_by_id(messages), seen if request.needs.total else None, has_more, end=end)
