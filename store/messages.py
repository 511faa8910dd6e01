"""Messages: one by id, and the filtered, ordered, paged list of one thread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

from store.content import Stored, content_metadata, parse_content, read_stored
from store.cursors import Cursor
from store.driver import Document, Pipeline
from store.filters import MetadataFilter
from store.instants import DateRange
from store.lazy import lazy
from store.listing import end_of, read_listing, to_cursor
from store.ordering import Order, Position, position
from store.paging import Limits, Needs, PageRequest, RawPage, Reading, read_page
from store.scope import Scope, check_id, check_scope
from store.slices import in_slices
from store.source import Source
from store.texts import readable_text
from store.ui_messages import to_ui_message
from store.values import JSON, JSONText, iso_text, to_clamped_moment, to_optional_texts, to_texts
from store.verifying import PARSED, Verification, read_verified

FIELDS = ("id", "thread_id", "resourceId", "role", "type", "createdAt", "content")
"""The stored fields of a message; `_id` is MongoDB's own and is not among them."""
KEY_FIELDS = frozenset({"_id", "id", "thread_id", "createdAt"})
"""What every read of messages fetches: identity and place in the order."""


class MessageOrigin(StrEnum):
    """Why a message is in the result of a recall; the first reason that holds."""

    PAGE = "PAGE"
    INCLUDED = "INCLUDED"
    MATCH = "MATCH"
    CONTEXT = "CONTEXT"


class MessageFields(NamedTuple):
    """What a message is made of. A tuple: there may be very many, and a frozen dataclass takes ten times as long."""

    id: str
    thread_id: str
    resource_id: str | None
    role: str
    type: str | None
    created_at: datetime
    stored_content: object
    stored_time: object
    key: object
    """MongoDB's own key, which never leaves the store."""
    scope: Scope
    """Whose rows may be seen beneath this message."""
    origin: MessageOrigin | None


class Message(MessageFields):
    """One message of a thread. Content is parsed when it is first looked at, and once."""

    @classmethod
    def from_document(cls, document: Document, scope: Scope, origin: MessageOrigin | None = None) -> "Message":
        """A stored document as a message; odd or missing values never raise."""
        return cls.from_documents([document], scope, [origin])[0]

    @classmethod
    def from_documents(
        cls, documents: Sequence[Document], scope: Scope, origins: Iterable[MessageOrigin | None] = repeat(None)
    ) -> list["Message"]:
        """Stored documents as messages, one field of all of them after the other; as `from_document`."""
        ids, thread_ids, owners, roles, kinds, times, contents, keys = (
            [document.get(name) for document in documents] for name in (*FIELDS, "_id")
        )
        fields = zip(
            to_texts(ids),
            to_texts(thread_ids),
            to_optional_texts(owners),
            to_texts(roles, "unknown"),
            to_optional_texts(kinds),
            map(to_clamped_moment, times),
            contents,
            times,
            keys,
            repeat(scope),
            origins,
        )
        # Faster than `_make`, which is Python.
        messages: list[Message] = list(map(partial(tuple.__new__, cls), fields))
        for message, document in zip(messages, documents, strict=True):
            if PARSED in document:
                message.__dict__["stored"] = document[PARSED]
        return messages

    @lazy
    def position(self) -> Position:
        """Where the message stands in the total order."""
        return position(self.stored_time, self.key)

    @lazy
    def stored(self) -> Stored:
        """The content as it was stored, text that holds JSON read."""
        return read_stored(self.stored_content)

    @lazy
    def content(self) -> JSON:
        """The content as it is shown: what JSON lacks is spelt as documented."""
        return self.stored.to_json() if "stored" in self.__dict__ else parse_content(self.stored_content)

    @property
    def content_json(self) -> JSON | JSONText:
        """The content, left as it was written where that is strict JSON."""
        text = self.stored_content
        return JSONText(text) if isinstance(text, str) and self.stored.is_json else self.content

    @property
    def metadata(self) -> dict[str, JSON]:
        """The message's metadata, empty where there are none."""
        return content_metadata(self.content)

    @property
    def text(self) -> str:
        """The readable text of the message."""
        return readable_text(self.content)

    @property
    def ui_message(self) -> dict[str, JSON] | None:
        """The message as AI SDK v5 UIMessage; None for system messages."""
        return to_ui_message(
            id=self.id,
            role=self.role,
            created_at=iso_text(self.created_at),
            thread_id=self.thread_id,
            resource_id=self.resource_id,
            content=self.content,
        )


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages of a thread match: a range of `createdAt`, and metadata."""

    date_range: DateRange = DateRange()
    metadata: MetadataFilter = MetadataFilter()

    def matches(self, message: Message) -> bool:
        """Whether a message that was read for another reason matches too."""
        return self.date_range.contains(message.created_at) and (
            not self.metadata or self.metadata.matches(message.stored.get("metadata").to_mapping())
        )


NO_FILTER = MessageFilter()


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of messages; `total` and `has_more` are None where they were not needed."""

    messages: list[Message]
    total: int | None
    has_more: bool | None
    rows: int = 0
    """How many rows were read: more than messages where ids are doubled."""
    left: int | None = None
    """How many matches there are from the beginning of the page on; None where that was not needed."""
    end: Cursor | None = None
    """After which the next page begins: the place of the last row, or that of the request when there is no row."""


class Messages:
    """Reads the collection of messages."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits

    async def find(
        self,
        thread_id: str,
        scope: Scope,
        page: PageRequest,
        *,
        matching: MessageFilter = NO_FILTER,
        order: Order = Order(),
        needs: Needs = Needs(),
        origin: MessageOrigin | None = None,
    ) -> MessagePage:
        """One page of the messages of a thread that match, in order.

        Raises InvalidArgument, LimitExceeded, Unavailable.
        """
        check_id(thread_id, "threadId")
        cursor = to_cursor(page.check(self.limits), "messages", order)
        found = await self._find(thread_id, scope, page, cursor, matching, order, needs)
        messages = await in_slices(found.documents, lambda rows: Message.from_documents(rows, scope, repeat(origin)))
        end = end_of(found, "messages", order, cursor)
        return MessagePage(unique_by_id(messages), found.total, found.has_more, len(messages), found.left, end)

    async def _find(
        self,
        thread_id: str,
        scope: Scope,
        page: PageRequest,
        cursor: Cursor | None,
        matching: MessageFilter,
        order: Order,
        needs: Needs,
    ) -> RawPage:
        wanted = wanted_fields(needs)
        reading = Reading(
            self.source,
            lambda: self.to_matches({"thread_id": thread_id}, scope, matching.date_range),
            order.to_sort(),
            project(wanted),
            self.limits,
        )
        if not matching.metadata:
            return await read_listing(read_page, reading, page, cursor, needs)
        verification = Verification("content", "content.metadata", matching.metadata, wanted)
        return await read_listing(partial(read_verified, verification), reading, page, cursor, needs)

    def to_matches(self, condition: dict[str, Any], scope: Scope, date_range: DateRange) -> Pipeline:
        """The stages for rows that satisfy a condition on their thread, lie in a range of time, and may be seen.

        The range joins the first stage, where an index serves it, unless times kept as text must be turned
        into dates before they can be compared.
        """
        times = date_range.to_condition()
        bounds = {"createdAt": times} if times else {}
        repair = self.source.repair_stage()
        joined, after = (condition, bounds) if repair else (condition | bounds, {})
        return [{"$match": joined}, *scope.to_message_stages(), *repair, *([{"$match": after}] if after else [])]

    async def get(self, message_id: str, scope: Scope, needs: Needs = Needs()) -> Message | None:
        """One message by its public id; None when it does not exist or belongs to another resource."""
        check_scope(scope, "resourceId")
        pipeline: Pipeline = [
            {"$match": {"id": check_id(message_id, "id")}},
            *scope.to_message_stages(),
            {"$sort": {"_id": 1}},
            {"$limit": 1},
            *project(wanted_fields(needs)),
        ]
        rows = await self.source.rows(pipeline, batch_size=2)
        return Message.from_document(rows[0], scope) if rows else None

    async def get_by_keys(
        self,
        keys: Iterable[object],
        known: Mapping[object, Document],
        scope: Scope,
        needs: Needs,
        origin_of: Callable[[object], MessageOrigin],
    ) -> list[Message]:
        """Messages by MongoDB's own keys, which never leave the store; one command for those that are not known yet."""
        wanted = set(keys)
        rows = [known[key] for key in wanted & known.keys()]
        if lacking := list(wanted - known.keys()):
            pipeline: Pipeline = [
                {"$match": {"_id": {"$in": lacking}}},
                *self.source.repair_stage(),
                *project(wanted_fields(needs)),
            ]
            rows += await self.source.rows(pipeline, batch_size=len(lacking) + 1)
        return await in_slices(
            rows, lambda part: Message.from_documents(part, scope, [origin_of(row["_id"]) for row in part])
        )


def wanted_fields(needs: Needs) -> set[str]:
    """The stored fields to fetch for what is needed."""
    return {*KEY_FIELDS, *(FIELDS if needs.fields is None else needs.fields)}


def project(fields: set[str]) -> Pipeline:
    """The stage that fetches just these fields."""
    return [{"$project": dict.fromkeys(sorted(fields), 1)}]


def unique_by_id(messages: list[Message]) -> list[Message]:
    """Messages without repeated ids: the first of each, in the same order."""
    if len(set(map(attrgetter("id"), messages))) == len(messages):
        return messages
    unique: dict[str, Message] = {}
    for message in messages:
        unique.setdefault(message.id, message)
    return list(unique.values())
