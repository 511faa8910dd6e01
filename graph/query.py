"""The queries: every way into the memory."""

from typing import Annotated

import strawberry

from graph import inputs
from graph.context import RequestInfo
from graph.messages import STORED_FIELDS as MESSAGE_FIELDS
from graph.messages import Message
from graph.recall import RecallResult, resolve_recall
from graph.resources import Resource
from graph.scalars import PerPage
from graph.selection import selection, stored_fields
from graph.threads import STORED_FIELDS, Thread, ThreadPage, to_thread_page
from store import threads as store
from store.filters import MetadataFilter
from store.messages import Message as StoredMessage
from store.paging import Needs, PageRequest
from store.resources import Resource as StoredResource

DEFAULT_THREADS = PerPage(100)

OwnerArgument = Annotated[
    strawberry.ID | None,
    strawberry.argument(description="The owner it must have; null is answered when it has another one."),
]


async def resolve_threads(
    info: RequestInfo,
    filter: Annotated[
        inputs.ThreadFilter | None, strawberry.argument(description="Which threads to list; all by default.")
    ] = strawberry.UNSET,
    page: inputs.PageArgument = 0,
    per_page: Annotated[
        PerPage | None, strawberry.argument(description="Threads of a page; `false` for all of them.")
    ] = DEFAULT_THREADS,
    order_by: Annotated[
        inputs.ThreadOrder | None, strawberry.argument(description="Newest first by default.")
    ] = strawberry.UNSET,
    after: inputs.AfterArgument = strawberry.UNSET,
) -> ThreadPage:
    """Threads that match, in order, one page of them."""
    asked = inputs.to_page(page, per_page, 100, after)
    return to_thread_page(await _find_threads(info, filter, asked, order_by), asked)


async def resolve_thread(
    info: RequestInfo,
    id: Annotated[strawberry.ID, strawberry.argument(description="The public id of the thread.")],
    resource_id: OwnerArgument = strawberry.UNSET,
) -> store.Thread | None:
    """One thread."""
    scope = info.context.scope(resource_id)
    needs = Needs(fields=stored_fields(STORED_FIELDS, [selection(info)]))
    return await info.context.memory.threads.get(id, scope, needs) if scope else None


async def resolve_message(
    info: RequestInfo,
    id: Annotated[strawberry.ID, strawberry.argument(description="The public id of the message.")],
    resource_id: OwnerArgument = strawberry.UNSET,
) -> StoredMessage | None:
    """One message."""
    scope = info.context.scope(resource_id)
    needs = Needs(fields=stored_fields(MESSAGE_FIELDS, [selection(info)]))
    return await info.context.memory.get_message(id, scope, needs) if scope else None


async def resolve_resource(
    info: RequestInfo,
    id: Annotated[strawberry.ID, strawberry.argument(description="The `resourceId` of threads and messages.")],
) -> StoredResource | None:
    """One resource."""
    return await info.context.memory.get_resource(id, info.context.caller)


@strawberry.type(description="Reads the memory of agents: threads, messages, and the resources that own them.")
class Query:
    threads: ThreadPage = strawberry.field(
        resolver=resolve_threads,
        description="Threads that match, in order, one page of them. Mastra: `memory.listThreads()`.",
    )
    thread: store.Thread | None = strawberry.field(
        resolver=resolve_thread, graphql_type=Thread | None, description="One thread, null when it does not exist."
    )
    recall: RecallResult = strawberry.field(
        resolver=resolve_recall,
        description="A page of a thread, newest first by default, with included messages. Mastra: `memory.recall()`.",
    )
    message: StoredMessage | None = strawberry.field(
        resolver=resolve_message, graphql_type=Message | None, description="One message, null when it does not exist."
    )
    resource: StoredResource | None = strawberry.field(
        resolver=resolve_resource,
        graphql_type=Resource | None,
        description="One owner of threads, null when nothing is kept about it.",
    )


async def _find_threads(
    info: RequestInfo,
    filter: inputs.ThreadFilter | None,
    page: PageRequest,
    order: inputs.ThreadOrder | None,
) -> store.ThreadPage:
    selected = selection(info)
    needs = Needs(
        rows="threads" in selected or "endCursor" in selected,
        total="total" in selected,
        has_more="hasMore" in selected,
        fields=stored_fields(STORED_FIELDS, [selected.get("threads", {})]),
    )
    scope = info.context.scope(filter.resource_id if filter else None)
    if scope is None:
        return store.ThreadPage([], 0, False)
    metadata = filter.to_metadata() if filter else MetadataFilter()
    return await info.context.memory.threads.find(
        scope, page, metadata=metadata, order=inputs.to_order(order), needs=needs
    )
