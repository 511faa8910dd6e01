"""Recall: a page of a thread, with included and semantically found messages."""

from enum import Enum
from typing import Annotated, Any

import strawberry

from graph import inputs
from graph.context import Defaults, RequestInfo
from graph.messages import STORED_FIELDS as MESSAGE_FIELDS
from graph.messages import Message
from graph.scalars import Count, EndCursor, PerPage, Rows
from graph.selection import selection, stored_fields
from store import messages as store
from store.cursors import Cursor
from store.errors import InvalidArgument
from store.paging import Needs, PageRequest
from store.recall import EMPTY, Recall, RecallNeeds
from store.recall import RecallMatch as FoundMatch
from store.recall_request import RecallRequest
from store.semantic import SemanticRecall
from store.vectors.engine import EngineName

SEARCH_WINDOW = 2
"""Neighbours on either side of an included message when a text is searched for, as for the matches."""


@strawberry.enum(description="Which engine answered a semantic recall.")
class VectorEngine(Enum):
    ATLAS = strawberry.enum_value("ATLAS", description="Atlas Vector Search: approximate nearest neighbours.")
    EXACT = strawberry.enum_value("EXACT", description="The exact engine of this server: every vector is compared.")


@strawberry.type(description="A message that semantic recall found.")
class RecallMatch:
    message: store.Message = strawberry.field(graphql_type=Message, description="The message.")
    score: float = strawberry.field(description="(1 + cosine) / 2, from 0 to 1: the same scale on both engines.")
    rank: int = strawberry.field(description="1 is the best match.")
    before: list[store.Message] = strawberry.field(
        graphql_type=list[Message], description="The messages before it in its thread, oldest first."
    )
    after: list[store.Message] = strawberry.field(
        graphql_type=list[Message], description="The messages after it in its thread, oldest first."
    )


@strawberry.type(description="What a semantic recall cost.")
class RecallUsage:
    tokens: int = strawberry.field(description="Embedding tokens spent on `vectorSearchString`.")


@strawberry.type(description="What a recall found.")
class RecallResult:
    messages: list[store.Message] = strawberry.field(
        graphql_type=list[Message],
        description="The page, the included and the found messages, each once, in the order of `orderBy` "
        "(default: newest first).",
    )
    transcript: list[store.Message] = strawberry.field(
        graphql_type=list[Message], description="The same messages, oldest first: the way a chat shows them."
    )
    total: int | None = strawberry.field(
        graphql_type=Count,
        description="Messages of the thread that satisfy `filter`, whatever page, include or semantic recall add.",
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
    end_cursor: Cursor | None = strawberry.field(
        graphql_type=EndCursor | None,
        description="Where this page ends: pass it as `after` for the next one, or for what is saved later "
        "(`direction: ASC`). That of the request when the page is empty.",
    )
    matches: list[FoundMatch] = strawberry.field(
        graphql_type=list[RecallMatch],
        description="What semantic recall found, best first. Empty without `vectorSearchString`.",
    )
    usage: RecallUsage | None = strawberry.field(
        description="Embedding tokens spent on `vectorSearchString`; null where the embedder does not report them."
    )
    engine: EngineName | None = strawberry.field(
        graphql_type=VectorEngine | None,
        description="Which engine answered; null without `vectorSearchString`.",
    )


ThreadArgument = Annotated[strawberry.ID, strawberry.argument(description="The thread to read.")]
OwnerArgument = Annotated[
    strawberry.ID | None,
    strawberry.argument(
        description="The owner that the thread must have, else FORBIDDEN; nothing of other owners appears."
    ),
]
SearchArgument = Annotated[
    str | None,
    strawberry.argument(
        description="A text to search for by meaning; needs semantic recall to be enabled, by "
        "`threadConfig.semanticRecall` or by the server's setting. Blank counts as left out."
    ),
]
RowsArgument = Annotated[
    PerPage | None,
    strawberry.argument(
        description="Messages of a page; `false` for all. Left out: `threadConfig.lastMessages`, "
        "else the server's setting, else 10."
    ),
]
IncludeArgument = Annotated[
    list[inputs.IncludeMessage] | None,
    strawberry.argument(description="Messages to add wherever they stand, with neighbours; at most 100."),
]
FilterArgument = Annotated[
    inputs.MessageFilter | None,
    strawberry.argument(description="Which messages make up the pages; included ones are added regardless."),
]
OrderArgument = Annotated[
    inputs.MessageOrder | None,
    strawberry.argument(description="Newest first by default: page 0 then holds the newest messages."),
]
ConfigArgument = Annotated[
    inputs.ThreadConfig | None, strawberry.argument(description="A memory's configuration, as Mastra's.")
]


async def resolve_recall(
    info: RequestInfo,
    thread_id: ThreadArgument,
    resource_id: OwnerArgument = strawberry.UNSET,
    vector_search_string: SearchArgument = strawberry.UNSET,
    per_page: RowsArgument = strawberry.UNSET,
    page: inputs.PageArgument = 0,
    include: IncludeArgument = strawberry.UNSET,
    filter: FilterArgument = strawberry.UNSET,
    order_by: OrderArgument = strawberry.UNSET,
    thread_config: ConfigArgument = strawberry.UNSET,
    after: inputs.AfterArgument = strawberry.UNSET,
) -> RecallResult:
    """A page of a thread, newest first unless `orderBy` says otherwise, with included and found messages."""
    paged = to_page(page, per_page, thread_config, info.context.defaults, after)
    text, semantic = to_search(vector_search_string, thread_config, info.context.defaults)
    items = tuple(item.to_item(thread_id, SEARCH_WINDOW if text else 0) for item in include or ())
    matching, order = filter.to_filter() if filter else store.NO_FILTER, inputs.to_order(order_by)
    scope, conceals = info.context.scope(resource_id), info.context.is_limited
    if scope is None:
        return to_result(EMPTY, paged)
    return await _recall(info, RecallRequest(thread_id, scope, paged, matching, order, items, text, semantic, conceals))


async def _recall(info: RequestInfo, request: RecallRequest) -> RecallResult:
    found = await info.context.memory.recall(request, to_needs(info))
    info.context.metrics.observe_recall(found)
    return to_result(found, request.page)


def to_result(found: Recall, page: PageRequest) -> RecallResult:
    """The store's answer with what was asked for beside it."""
    return RecallResult(
        messages=found.messages,
        transcript=found.transcript,
        total=found.total,
        page=page.page,
        per_page=inputs.echo(page),
        has_more=found.has_more,
        end_cursor=found.end,
        matches=found.matches,
        usage=None if found.tokens is None else RecallUsage(tokens=found.tokens),
        engine=found.engine,
    )


def to_search(
    text: str | None, config: inputs.ThreadConfig | None, defaults: Defaults
) -> tuple[str | None, SemanticRecall | None]:
    """The text to search for and how, or nothing for a blank text. Raises InvalidArgument when it is not enabled."""
    if not text or not text.strip():
        return None, None
    semantic = inputs.given(config.semantic_recall if config else None, defaults.semantic_recall)
    if not semantic:
        raise InvalidArgument(
            "vectorSearchString needs semantic recall: pass threadConfig: {semanticRecall: true}, "
            "or set RECALLQL_SEMANTIC_RECALL on the server."
        )
    return text, semantic


def to_page(
    page: int | None,
    per_page: PerPage | None,
    config: inputs.ThreadConfig | None,
    defaults: Defaults,
    after: EndCursor | None = None,
) -> PageRequest:
    """The page to read: `perPage`, else `threadConfig.lastMessages`, else the server's setting.

    `false` means every message for `perPage`, but no history for the other two.
    """
    last: Any = inputs.given(config.last_messages if config else None, defaults.last_messages)
    return inputs.to_page(page, per_page, 0 if last is False else last, after)


def to_needs(info: RequestInfo) -> RecallNeeds:
    """What the query selects of the result."""
    selected = selection(info)
    lists = [selected[name] for name in ("messages", "transcript") if name in selected]
    found = selected.get("matches", {})
    beside = [found[name] for name in ("message", "before", "after") if name in found]
    page = Needs(
        rows=bool(lists) or "endCursor" in selected,
        total="total" in selected,
        has_more="hasMore" in selected,
        fields=stored_fields(MESSAGE_FIELDS, [*lists, *beside]),
    )
    return RecallNeeds(page, search=any(name in selected for name in ("matches", "usage", "engine")))
