"""Threads and their pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import strawberry

from graph import inputs
from graph.context import Context, RequestInfo
from graph.loaders import ActivityKey, OwnedKey, PageKey
from graph.messages import STORED_FIELDS as MESSAGE_FIELDS
from graph.messages import Message, MessagePage
from graph.planning import BATCH
from graph.resources import Resource
from graph.scalars import Count, EndCursor, JSONObject, PerPage, Rows
from graph.selection import Selection, selection, stored_fields
from store import threads as store
from store.activity import Activity
from store.cursors import Cursor
from store.messages import NO_FILTER
from store.messages import Message as StoredMessage
from store.messages import MessagePage as StoredMessagePage
from store.nested_pages import NestedRequest
from store.paging import Needs, PageRequest
from store.resources import Resource as StoredResource

STORED_FIELDS: dict[str, tuple[str, ...]] = {
    "id": ("id",),
    "resourceId": ("resourceId",),
    "resource": ("resourceId",),
    "title": ("title",),
    "metadata": ("metadata",),
    "workingMemory": ("metadata",),
    "createdAt": ("createdAt",),
    "updatedAt": ("updatedAt", "createdAt"),
}
"""The stored fields behind each field of Thread."""

DEFAULT_MESSAGES = PerPage(10)


async def message_counts(threads: Sequence[store.Thread], context: Context, selected: Selection) -> list[int]:
    """How many messages each thread holds."""
    return [activity.message_count for activity in await _activities(threads, context)]


async def first_messages(
    threads: Sequence[store.Thread], context: Context, selected: Selection
) -> list[StoredMessage | None]:
    """The oldest message of each thread."""
    return [activity.first_message for activity in await _activities(threads, context, selected)]


async def last_messages(
    threads: Sequence[store.Thread], context: Context, selected: Selection
) -> list[StoredMessage | None]:
    """The newest message of each thread."""
    return [activity.last_message for activity in await _activities(threads, context, selected)]


async def resources(
    threads: Sequence[store.Thread], context: Context, selected: Selection
) -> list[StoredResource | None]:
    """The owner of each thread."""
    return await context.loaders.resources.load_many(OwnedKey(thread.resource_id, thread.scope) for thread in threads)


async def resolve_message_count(root: strawberry.Parent[store.Thread], info: RequestInfo) -> int:
    """How many messages a thread holds."""
    return (await message_counts([root], info.context, {}))[0]


async def resolve_first_message(root: strawberry.Parent[store.Thread], info: RequestInfo) -> StoredMessage | None:
    """The oldest message of a thread."""
    return (await first_messages([root], info.context, selection(info)))[0]


async def resolve_last_message(root: strawberry.Parent[store.Thread], info: RequestInfo) -> StoredMessage | None:
    """The newest message of a thread."""
    return (await last_messages([root], info.context, selection(info)))[0]


async def resolve_resource(root: strawberry.Parent[store.Thread], info: RequestInfo) -> StoredResource | None:
    """The owner of a thread."""
    return (await resources([root], info.context, {}))[0]


PerPageArgument = Annotated[
    PerPage | None, strawberry.argument(description="Messages of each thread; `false` for all of them.")
]
FilterArgument = Annotated[
    inputs.MessageFilter | None, strawberry.argument(description="Which messages to list; all by default.")
]
OrderArgument = Annotated[inputs.MessageOrder | None, strawberry.argument(description="Newest first by default.")]


async def message_pages(
    threads: Sequence[store.Thread],
    context: Context,
    selected: Selection,
    per_page: PerPage | None = DEFAULT_MESSAGES,
    page: int | None = 0,
    filter: inputs.MessageFilter | None = strawberry.UNSET,
    order_by: inputs.MessageOrder | None = strawberry.UNSET,
) -> list[MessagePage]:
    """A page of the messages of each thread."""
    paged = inputs.to_page(page, per_page, 10)
    matching = filter.to_filter() if filter else NO_FILTER
    order, needs = inputs.to_order(order_by), _needs(selected)
    requests = [(thread.id, NestedRequest(thread.scope, paged, matching, order, needs)) for thread in threads]
    found = await context.loaders.pages.load_many(PageKey(*request) for request in requests)
    return [to_message_page(each, paged) for each in found]


async def resolve_messages(
    root: strawberry.Parent[store.Thread],
    info: RequestInfo,
    per_page: PerPageArgument = DEFAULT_MESSAGES,
    page: inputs.PageArgument = 0,
    filter: FilterArgument = strawberry.UNSET,
    order_by: OrderArgument = strawberry.UNSET,
) -> MessagePage:
    """A page of the messages of a thread."""
    pages = await message_pages([root], info.context, selection(info), per_page, page, filter, order_by)
    return pages[0]


@strawberry.type(description="A conversation of one owner.")
class Thread:
    id: strawberry.ID = strawberry.field(description="The public id of the thread.")
    resource_id: strawberry.ID = strawberry.field(description="The owner of the thread.")
    title: str | None = strawberry.field(description="The title, if one was given.")
    metadata: JSONObject = strawberry.field(description="The thread's metadata, `{}` without any.")
    created_at: datetime = strawberry.field(description="When the thread was created.")
    updated_at: datetime = strawberry.field(description="When the thread was last changed.")
    message_count: int = strawberry.field(
        resolver=resolve_message_count,
        metadata={BATCH: message_counts},
        graphql_type=Count,
        description="How many messages the thread holds. One database command for all the threads of a page.",
    )
    first_message: StoredMessage | None = strawberry.field(
        resolver=resolve_first_message,
        metadata={BATCH: first_messages},
        graphql_type=Message | None,
        description="The oldest message, null in an empty thread. One database command for all threads of a page.",
    )
    last_message: StoredMessage | None = strawberry.field(
        resolver=resolve_last_message,
        metadata={BATCH: last_messages},
        graphql_type=Message | None,
        description="The newest message, null in an empty thread. One database command for all threads of a page.",
    )
    messages: MessagePage = strawberry.field(
        resolver=resolve_messages,
        metadata={BATCH: message_pages},
        description="A page of the thread's messages. Two database commands for all the threads of a page.",
    )
    working_memory: str | None = strawberry.field(
        description="Working memory kept with this thread (thread scope), null when there is none."
    )
    resource: StoredResource | None = strawberry.field(
        resolver=resolve_resource,
        metadata={BATCH: resources},
        graphql_type=Resource | None,
        description="The owner of the thread, null when nothing is kept about it.",
    )


@strawberry.type(description="One page of threads.")
class ThreadPage:
    threads: list[store.Thread] = strawberry.field(
        graphql_type=list[Thread], description="The threads of this page, in the order of `orderBy`."
    )
    total: int | None = strawberry.field(
        graphql_type=Count, description="How many threads match the filter, on all pages together."
    )
    page: int = strawberry.field(description="The zero-based page, as asked for.")
    per_page: Rows = strawberry.field(
        graphql_type=PerPage, description="Threads of a page, as asked for; `false` is all of them."
    )
    has_more: bool | None = strawberry.field(
        graphql_type=bool, description="Whether matching threads remain after this page."
    )
    end_cursor: Cursor | None = strawberry.field(
        graphql_type=EndCursor | None,
        description="Where this page ends: pass it as `after` for the next one. "
        "That of the request when the page is empty.",
    )


def to_thread_page(found: store.ThreadPage, asked: PageRequest) -> ThreadPage:
    """The store's page with what was asked for beside it."""
    return ThreadPage(
        threads=found.threads,
        total=found.total,
        page=asked.page,
        per_page=inputs.echo(asked),
        has_more=found.has_more,
        end_cursor=found.end,
    )


def to_message_page(found: StoredMessagePage, asked: PageRequest) -> MessagePage:
    """The store's page with what was asked for beside it."""
    return MessagePage(
        messages=found.messages,
        total=found.total,
        page=asked.page,
        per_page=inputs.echo(asked),
        has_more=found.has_more,
        end_cursor=found.end,
    )


async def _activities(
    threads: Sequence[store.Thread], context: Context, selected: Selection | None = None
) -> list[Activity]:
    """Counts of all these threads, and their ends where something is selected of them."""
    ends = selected is not None
    fields = stored_fields(MESSAGE_FIELDS, [selected] if selected else [])
    return await context.loaders.activity.load_many(
        ActivityKey(thread.id, thread.scope, ends, fields) for thread in threads
    )


def _needs(selected: Selection) -> Needs:
    fields = stored_fields(MESSAGE_FIELDS, [selected.get("messages", {})])
    return Needs("messages" in selected or "endCursor" in selected, "total" in selected, "hasMore" in selected, fields)
