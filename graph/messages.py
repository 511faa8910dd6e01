"""Messages and their pages.

A field is an attribute of the store's object; `graphql_type` says what it is in the schema where the two differ.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import strawberry

from graph.context import Context, RequestInfo
from graph.loaders import OwnedKey
from graph.planning import BATCH, JSON_TEXT
from graph.scalars import Count, EndCursor, JSONObject, JSONValue, PerPage, Rows
from graph.selection import Selection
from store import messages as store
from store.cursors import Cursor
from store.threads import Thread as StoredThread

if TYPE_CHECKING:
    from graph.threads import Thread

STORED_FIELDS: dict[str, tuple[str, ...]] = {
    "id": ("id",),
    "threadId": ("thread_id",),
    "thread": ("thread_id",),
    "resourceId": ("resourceId",),
    "role": ("role",),
    "type": ("type",),
    "createdAt": ("createdAt",),
    "content": ("content",),
    "metadata": ("content",),
    "text": ("content",),
    "uiMessage": ("id", "thread_id", "resourceId", "role", "createdAt", "content"),
}
"""The stored fields behind each field of Message; `content` is the large one."""


@strawberry.enum(description="Why a message is in the result of a recall.")
class MessageOrigin(Enum):
    PAGE = strawberry.enum_value("PAGE", description="Of the requested page.")
    INCLUDED = strawberry.enum_value("INCLUDED", description="Named by `include`.")
    MATCH = strawberry.enum_value("MATCH", description="Found by semantic recall.")
    CONTEXT = strawberry.enum_value("CONTEXT", description="A neighbour of an included or found message.")


async def threads(
    messages: Sequence[store.Message], context: Context, selected: Selection
) -> list[StoredThread | None]:
    """The thread of each message."""
    return await context.loaders.threads.load_many(OwnedKey(message.thread_id, message.scope) for message in messages)


async def resolve_thread(root: strawberry.Parent[store.Message], info: RequestInfo) -> StoredThread | None:
    """The thread of a message, loaded for all messages of the answer at once."""
    return (await threads([root], info.context, {}))[0]


@strawberry.type(description="One message of a thread.")
class Message:
    id: strawberry.ID = strawberry.field(description="The public id of the message.")
    thread_id: strawberry.ID = strawberry.field(description="The id of the thread that the message lies in.")
    resource_id: strawberry.ID | None = strawberry.field(
        description="The owner kept with the message; null in old rows, which belong to the owner of the thread."
    )
    role: str = strawberry.field(description="Who speaks: `user`, `assistant`, `system`, or `tool`.")
    type: str | None = strawberry.field(description="The form of the row: `v2`, or null in old rows.")
    created_at: datetime = strawberry.field(description="When the message was created.")
    content: JSONValue | None = strawberry.field(
        metadata={JSON_TEXT: "content_json"},
        description="The content as stored: an object of format 2 (`parts`, `metadata`), or plain words in old rows.",
    )
    metadata: JSONObject = strawberry.field(
        description="The message's metadata (`content.metadata`), `{}` without any."
    )
    text: str = strawberry.field(description="The readable text of the message: its text parts, joined.")
    ui_message: JSONValue | None = strawberry.field(
        description="The message as UIMessage of the AI SDK v5: `{id, role, parts, metadata}`. "
        "Null for system messages and reminders."
    )
    origin: store.MessageOrigin | None = strawberry.field(
        graphql_type=MessageOrigin | None,
        description="Why the message is in this recall, the first reason that holds; null outside a recall.",
    )
    thread: StoredThread | None = strawberry.field(
        resolver=resolve_thread,
        metadata={BATCH: threads},
        graphql_type=Annotated["Thread", strawberry.lazy("graph.threads")] | None,
        description="The thread that the message lies in; null when there is no such thread.",
    )


@strawberry.type(description="One page of the messages of a thread.")
class MessagePage:
    messages: list[store.Message] = strawberry.field(
        graphql_type=list[Message], description="The messages of this page, in the order of `orderBy`."
    )
    total: int | None = strawberry.field(
        graphql_type=Count, description="How many messages match the filter, on all pages together."
    )
    page: int = strawberry.field(description="The zero-based page, as asked for.")
    per_page: Rows = strawberry.field(
        graphql_type=PerPage, description="Messages of a page, as asked for; `false` is all of them."
    )
    has_more: bool | None = strawberry.field(
        graphql_type=bool, description="Whether matching messages remain after this page."
    )
    end_cursor: Cursor | None = strawberry.field(
        graphql_type=EndCursor | None,
        description="Where this page ends: pass it as `after` of `recall`, with the same `orderBy`, for what follows. "
        "Null when the page is empty.",
    )
