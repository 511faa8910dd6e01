"""Recall: a page of a thread, with included and semantically found messages and their neighbours, in one order."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from store.cursors import Cursor
from store.driver import outcome, together
from store.errors import Forbidden
from store.listing import to_cursor
from store.locating import Located, Locator
from store.messages import Message, MessageOrigin, MessagePage, Messages, unique_by_id, wanted_fields
from store.paging import Limits, Needs, check_rows
from store.recall_request import RecallRequest
from store.scope import check_id, check_scope
from store.threads import Threads
from store.vectors.engine import EngineName
from store.windows import check_items


@dataclass(frozen=True, slots=True)
class RecallNeeds:
    """What the caller will look at of a recall: the page with its numbers, and what semantic recall found."""

    page: Needs = Needs()
    search: bool = True

    @property
    def is_located(self) -> bool:
        """Whether included and found messages bear on the answer."""
        return self.page.rows or self.page.has_more or self.search


@dataclass(frozen=True, slots=True)
class RecallMatch:
    """A message that semantic recall found; rank 1 is the best, neighbours are oldest first."""

    message: Message
    score: float
    rank: int
    before: list[Message]
    after: list[Message]


@dataclass(frozen=True, slots=True)
class Recall:
    """The result: messages in the requested order; `total` and `has_more` are None where they were not needed."""

    messages: list[Message]
    total: int | None
    has_more: bool | None
    is_descending: bool = True
    matches: list[RecallMatch] = field(default_factory=list)
    tokens: int | None = None
    engine: EngineName | None = None
    end: Cursor | None = None
    """After which the next page of the thread begins."""

    @property
    def transcript(self) -> list[Message]:
        """The same messages, oldest first."""
        return self.messages[::-1] if self.is_descending else self.messages


EMPTY = Recall([], 0, False)


async def recall(
    messages: Messages, threads: Threads, locator: Locator, request: RecallRequest, needs: RecallNeeds
) -> Recall:
    """Answer a recall in at most five commands: owner, rows, count, and two for everything included and found.

    Raises InvalidArgument, Forbidden, LimitExceeded, EmbedderFailed, EmbeddingMismatch, Unavailable.
    """
    _check(request, messages.limits)
    page_needs = _page_needs(request, needs)
    reading = messages.find(
        request.thread_id,
        request.scope,
        request.page,
        matching=request.matching,
        order=request.order,
        needs=page_needs,
        origin=MessageOrigin.PAGE,
    )
    # What goes wrong with somebody else's thread is not told: whether it is one comes first.
    exists, read, located = await together(
        _check_owner(threads, request), outcome(reading), outcome(_locate(locator, request, needs))
    )
    page = read() if exists else MessagePage([], 0, False)
    located = located()
    added = await _read_windows(messages, located, page, request, page_needs)
    return _merge(request, page, added, located)


def _check(request: RecallRequest, limits: Limits) -> None:
    """Refuse a bad request before anything is asked. Raises InvalidArgument, LimitExceeded."""
    check_id(request.thread_id, "threadId")
    check_scope(request.scope, "resourceId")
    to_cursor(request.page.check(limits), "messages", request.order)
    check_items(request.include)


def _page_needs(request: RecallRequest, needs: RecallNeeds) -> Needs:
    """Whether the page is the end can only be told from all that is left once other messages are added to it."""
    page = needs.page
    if not request.include and request.semantic is None:
        return page
    fields = page.fields
    if fields is not None and request.matching.metadata:
        fields |= {"content"}
    return replace(page, rows=page.rows or page.has_more, left=page.has_more, fields=fields)


async def _check_owner(threads: Threads, request: RecallRequest) -> bool:
    """Whether the thread exists, as far as an owner was named. Raises Forbidden when it is somebody else's."""
    if request.scope.resource_id is None:
        return True
    owner = await threads.get_owner(request.thread_id)
    is_owned = request.scope.admits(owner)
    if owner is not None and not is_owned and not request.conceals:
        raise Forbidden("The thread does not belong to this resourceId.")
    return is_owned


async def _locate(locator: Locator, request: RecallRequest, needs: RecallNeeds) -> Located:
    if not needs.is_located:
        return Located()
    shown = frozenset(wanted_fields(_page_needs(request, needs)))
    if request.semantic is None or request.search_text is None:
        return await locator.locate_items(request.include, request.scope, shown)
    return await locator.locate_all(request, request.search_text, request.semantic, shown)


async def _read_windows(
    messages: Messages, located: Located, page: MessagePage, request: RecallRequest, needs: Needs
) -> list[Message]:
    """The included and found messages and their neighbours that the page does not hold already."""
    keys = located.keys - {message.key for message in page.messages}
    if not keys:
        return []
    check_rows(len(keys), messages.limits)
    included, matched = located.included_keys, located.match_keys

    def origin_of(key: object) -> MessageOrigin:
        if key in included:
            return MessageOrigin.INCLUDED
        return MessageOrigin.MATCH if key in matched else MessageOrigin.CONTEXT

    return await messages.get_by_keys(keys, located.rows, request.scope, needs, origin_of)


def _merge(request: RecallRequest, page: MessagePage, added: list[Message], located: Located) -> Recall:
    merged, has_more = page.messages, page.has_more
    descending = request.order.descending
    if added:
        ordered = sorted([*merged, *added], key=lambda message: message.position, reverse=descending)
        merged = unique_by_id(ordered)
        if page.left is not None and has_more:
            has_more = page.rows + _count_later(request, page, added) < page.left
    matches = _to_matches(located, {message.key: message for message in [*page.messages, *added]})
    return Recall(merged, page.total, has_more, descending, matches, located.tokens, located.engine, page.end)


def _count_later(request: RecallRequest, page: MessagePage, added: Iterable[Message]) -> int:
    """How many added messages are matches of the thread that later pages would bring."""
    last = page.messages[-1].position if page.messages else None
    return sum(
        message.thread_id == request.thread_id
        and request.matching.matches(message)
        and (last is None or (message.position < last) == request.order.descending)
        for message in added
    )


def _to_matches(located: Located, messages: dict[object, Message]) -> list[RecallMatch]:
    def present(keys: Iterable[object]) -> list[Message]:
        # A message may be deleted between two commands.
        return [messages[key] for key in keys if key in messages]

    alive = [match for match in located.matches if match.window.key in messages]
    return [
        RecallMatch(
            message=messages[match.window.key],
            score=match.score,
            rank=rank,
            before=present(reversed(match.window.before)),
            after=present(match.window.after),
        )
        for rank, match in enumerate(alive, start=1)
    ]
