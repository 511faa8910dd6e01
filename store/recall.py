"""Recall: a page of a thread, the included messages with their neighbours, each once, in one order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from store.driver import together
from store.errors import Forbidden
from store.messages import (
    NO_FILTER,
    Message,
    MessageFilter,
    MessageOrigin,
    MessagePage,
    Messages,
    unique_by_id,
)
from store.ordering import Order
from store.paging import Needs, PageRequest, check_rows
from store.scope import Scope, check_id
from store.threads import Threads
from store.windows import IncludeItem, Window, check_items, find_windows


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What is asked of a recall; `scope` holds the owner that the thread must have."""

    thread_id: str
    scope: Scope
    page: PageRequest
    matching: MessageFilter = NO_FILTER
    order: Order = Order()
    include: tuple[IncludeItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """The result: messages in the requested order; `total` and `has_more` are None where they were not needed."""

    messages: list[Message]
    total: int | None
    has_more: bool | None

    @property
    def transcript(self) -> list[Message]:
        """The same messages, oldest first."""
        return sorted(self.messages, key=lambda message: message.position)


EMPTY = Recall([], 0, False)


async def recall(messages: Messages, threads: Threads, request: RecallRequest, needs: Needs) -> Recall:
    """Answer a recall in at most five commands: owner, rows, count, and two for everything included.

    Raises InvalidArgument, Forbidden, LimitExceeded, Unavailable.
    """
    check_id(request.thread_id, "threadId")
    items = check_items(request.include) if needs.rows or needs.has_more else []
    page_needs = _page_needs(request, needs)
    exists, page, windows = await together(
        _check_owner(threads, request),
        messages.find(
            request.thread_id,
            request.scope,
            request.page,
            matching=request.matching,
            order=request.order,
            needs=page_needs,
        ),
        find_windows(messages.source, threads.source, items, request.scope),
    )
    if not exists:
        return EMPTY
    added = await _read_windows(messages, windows, page, request, page_needs)
    return _merge(request, page, added)


def _page_needs(request: RecallRequest, needs: Needs) -> Needs:
    """Whether the page is the end can only be told from the total once other messages are added to it."""
    if not request.include:
        return needs
    fields = needs.fields
    if fields is not None and request.matching.metadata:
        fields |= {"content"}
    return replace(needs, rows=needs.rows or needs.has_more, total=needs.total or needs.has_more, fields=fields)


async def _check_owner(threads: Threads, request: RecallRequest) -> bool:
    """Whether the thread exists, as far as an owner was named. Raises Forbidden when it is somebody else's."""
    if request.scope.resource_id is None:
        return True
    check_id(request.scope.resource_id, "resourceId")
    owner = await threads.get_owner(request.thread_id)
    if owner is not None and not request.scope.admits(owner):
        raise Forbidden("The thread does not belong to this resourceId.")
    return owner is not None


async def _read_windows(
    messages: Messages, windows: list[Window], page: MessagePage, request: RecallRequest, needs: Needs
) -> list[Message]:
    """The included messages and their neighbours that the page does not hold already."""
    targets = {window.key for window in windows}
    held = {message.position[2] for message in page.messages}
    keys = {key for window in windows for key in window.keys} - held
    if not keys:
        return []
    check_rows(len(keys), messages.limits)
    found = await messages.get_by_keys(keys, request.scope, needs)
    return [
        message.with_origin(MessageOrigin.INCLUDED if message.position[2] in targets else MessageOrigin.CONTEXT)
        for message in found
    ]


def _merge(request: RecallRequest, page: MessagePage, added: list[Message]) -> Recall:
    paged = [message.with_origin(MessageOrigin.PAGE) for message in page.messages]
    merged = sorted([*paged, *added], key=lambda message: message.position, reverse=request.order.descending)
    total = page.total
    has_more = page.has_more
    if added and total is not None and has_more:
        has_more = request.page.offset + len(page.messages) + _count_later(request, page, added) < total
    return Recall(unique_by_id(merged), total, has_more)


def _count_later(request: RecallRequest, page: MessagePage, added: Iterable[Message]) -> int:
    """How many added messages are matches of the thread that later pages would bring."""
    last = page.messages[-1].position if page.messages else None
    return sum(
        message.thread_id == request.thread_id
        and request.matching.matches(message)
        and (last is None or (message.position < last) == request.order.descending)
        for message in added
    )
