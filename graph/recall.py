"""Recall: a page of a thread with its included messages."""

from typing import Annotated, Any

import strawberry

from graph import inputs
from graph.context import Defaults, RequestInfo
from graph.messages import STORED_FIELDS as MESSAGE_FIELDS
from graph.messages import Message
from graph.scalars import Count, PerPage, Rows
from graph.selection import selection, stored_fields
from store import messages as store
from store.paging import Needs, PageRequest
from store.recall import RecallRequest
from store.scope import Scope


@strawberry.type(description="What a recall found.")
class RecallResult:
    messages: list[store.Message] = strawberry.field(
        graphql_type=list[Message],
        description="The page and the included messages, each once, in the order of `orderBy` (default: newest first).",
    )
    transcript: list[store.Message] = strawberry.field(
        graphql_type=list[Message], description="The same messages, oldest first: the way a chat shows them."
    )
    total: int | None = strawberry.field(
        graphql_type=Count,
        description="Messages of the thread that satisfy `filter`, whatever `page` and `include` add.",
    )
    page: int = strawberry.field(description="The zero-based page, as asked for.")
    per_page: Rows = strawberry.field(
        graphql_type=PerPage, description="Messages of a page, as asked for; `false` is all of them."
    )
    has_more: bool | None = strawberry.field(
        graphql_type=bool,
        description="Whether matching messages of the thread remain after this page; "
        "false once this answer holds every one of them.",
    )


async def resolve_recall(
    info: RequestInfo,
    thread_id: Annotated[strawberry.ID, strawberry.argument(description="The thread to read.")],
    resource_id: Annotated[
        strawberry.ID | None,
        strawberry.argument(
            description="The owner that the thread must have, else FORBIDDEN; nothing of other owners appears."
        ),
    ] = strawberry.UNSET,
    per_page: Annotated[
        PerPage | None,
        strawberry.argument(
            description="Messages of a page; `false` for all. Left out: `threadConfig.lastMessages`, "
            "else the server's setting, else 10."
        ),
    ] = strawberry.UNSET,
    page: inputs.PageArgument = 0,
    include: Annotated[
        list[inputs.IncludeMessage] | None,
        strawberry.argument(description="Messages to add wherever they stand, with neighbours; at most 100."),
    ] = strawberry.UNSET,
    filter: Annotated[
        inputs.MessageFilter | None,
        strawberry.argument(description="Which messages make up the pages; included ones are added regardless."),
    ] = strawberry.UNSET,
    order_by: Annotated[
        inputs.MessageOrder | None,
        strawberry.argument(description="Newest first by default: page 0 then holds the newest messages."),
    ] = strawberry.UNSET,
    thread_config: Annotated[
        inputs.ThreadConfig | None, strawberry.argument(description="A memory's configuration, as Mastra's.")
    ] = strawberry.UNSET,
) -> RecallResult:
    """A page of a thread, newest first unless `orderBy` says otherwise, together with included messages."""
    scope = info.context.require_scope(resource_id)
    paged = to_page(page, per_page, thread_config, info.context.defaults)
    request = to_request(thread_id, scope, paged, include, filter, order_by)
    found = await info.context.memory.recall(request, to_needs(info))
    return RecallResult(
        messages=found.messages,
        transcript=found.transcript,
        total=found.total,
        page=paged.page,
        per_page=inputs.echo(paged),
        has_more=found.has_more,
    )


def to_page(
    page: int | None, per_page: PerPage | None, config: inputs.ThreadConfig | None, defaults: Defaults
) -> PageRequest:
    """The page to read: `perPage`, else `threadConfig.lastMessages`, else the server's setting.

    `false` means every message for `perPage`, but no history for the other two.
    """
    last: Any = inputs.given(config.last_messages if config else None, defaults.last_messages)
    return inputs.to_page(page, per_page, 0 if last is False else last)


def to_request(
    thread_id: str,
    scope: Scope,
    page: PageRequest,
    include: list[inputs.IncludeMessage] | None,
    matching: inputs.MessageFilter | None,
    order: inputs.MessageOrder | None,
) -> RecallRequest:
    """The arguments as the store's value; what is left out keeps its default."""
    return RecallRequest(
        thread_id=thread_id,
        scope=scope,
        page=page,
        matching=matching.to_filter() if matching else store.NO_FILTER,
        order=inputs.to_order(order),
        include=tuple(item.to_item(thread_id, default_window=0) for item in include or ()),
    )


def to_needs(info: RequestInfo) -> Needs:
    """What the query selects of the result."""
    selected = selection(info)
    lists = [selected[name] for name in ("messages", "transcript") if name in selected]
    return Needs(
        rows=bool(lists),
        total="total" in selected,
        has_more="hasMore" in selected,
        fields=stored_fields(MESSAGE_FIELDS, lists),
    )
