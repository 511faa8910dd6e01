"""Input types: what threads and messages to list, in which order, and what a recall includes."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, TypeVar

import strawberry

from graph.scalars import EndCursor, JSONObject, PerPage, Rows
from store.filters import MetadataFilter
from store.instants import DateRange as StoreDateRange
from store.instants import Instant
from store.messages import MessageFilter as StoreMessageFilter
from store.ordering import Order
from store.paging import PageRequest
from store.semantic import SemanticRecall
from store.windows import IncludeItem

T = TypeVar("T")


@strawberry.enum(description="Which way a list is sorted.")
class SortDirection(Enum):
    ASC = strawberry.enum_value("ASC", description="Oldest first.")
    DESC = strawberry.enum_value("DESC", description="Newest first.")


@strawberry.enum(description="The time that sorts threads.")
class ThreadOrderField(Enum):
    createdAt = strawberry.enum_value("createdAt", description="When the thread was created.")
    updatedAt = strawberry.enum_value("updatedAt", description="When the thread was last changed.")


@strawberry.enum(description="The time that sorts messages.")
class MessageOrderField(Enum):
    createdAt = strawberry.enum_value("createdAt", description="When the message was created.")


@strawberry.input(description="The order of threads. Equal times are in the order of insertion, in the same direction.")
class ThreadOrder:
    field: ThreadOrderField = strawberry.field(
        default=ThreadOrderField.createdAt, description="The time that sorts the list."
    )
    direction: SortDirection = strawberry.field(
        default=SortDirection.DESC, description="Newest first unless said otherwise."
    )

    def to_order(self) -> Order:
        """As the store's value."""
        return Order(str(self.field.value), self.direction is SortDirection.DESC)


@strawberry.input(
    description="The order of messages. Equal times are in the order of insertion, in the same direction."
)
class MessageOrder:
    field: MessageOrderField = strawberry.field(
        default=MessageOrderField.createdAt, description="The time that sorts the list."
    )
    direction: SortDirection = strawberry.field(
        default=SortDirection.DESC, description="Newest first unless said otherwise."
    )

    def to_order(self) -> Order:
        """As the store's value."""
        return Order(str(self.field.value), self.direction is SortDirection.DESC)


@strawberry.input(description="Which threads to list; all conditions must hold.")
class ThreadFilter:
    resource_id: strawberry.ID | None = strawberry.field(
        default=strawberry.UNSET,
        description='Threads of this owner only. An empty or blank id is an error, never "everybody".',
    )
    metadata: MetadataFilter | None = strawberry.field(
        default=strawberry.UNSET, description="Threads whose metadata hold all of these entries."
    )

    def to_metadata(self) -> MetadataFilter:
        """As the store's value."""
        return self.metadata or MetadataFilter()


@strawberry.input(
    description="A range of `createdAt`. Both bounds are inclusive unless said otherwise; a flag without its bound "
    "changes nothing, and a start after the end gives an empty page."
)
class DateRange:
    start: Instant | None = strawberry.field(
        default=strawberry.UNSET, description="The earliest time, with offset.", graphql_type=datetime | None
    )
    end: Instant | None = strawberry.field(
        default=strawberry.UNSET, description="The latest time, with offset.", graphql_type=datetime | None
    )
    start_exclusive: bool | None = strawberry.field(default=False, description="Leave out the very time of `start`.")
    end_exclusive: bool | None = strawberry.field(default=False, description="Leave out the very time of `end`.")

    def to_range(self) -> StoreDateRange:
        """As the store's value."""
        return StoreDateRange(
            given(self.start, None), given(self.end, None), bool(self.start_exclusive), bool(self.end_exclusive)
        )


@strawberry.input(description="Which messages match; all conditions must hold. `total` counts these matches.")
class MessageFilter:
    date_range: DateRange | None = strawberry.field(
        default=strawberry.UNSET, description="When the message was created."
    )
    metadata: MetadataFilter | None = strawberry.field(
        default=strawberry.UNSET, description="Messages whose metadata (`content.metadata`) hold all of these entries."
    )

    def to_filter(self) -> StoreMessageFilter:
        """As the store's value."""
        dates = self.date_range.to_range() if self.date_range else StoreDateRange()
        return StoreMessageFilter(dates, self.metadata or MetadataFilter())


@strawberry.input(
    description="A message to add to the result wherever it stands, with its neighbours. Ids that do not exist, lie in "
    "another thread than named, or belong to another owner are skipped."
)
class IncludeMessage:
    id: strawberry.ID = strawberry.field(description="The id of the message.")
    thread_id: strawberry.ID | None = strawberry.field(
        default=strawberry.UNSET, description="The thread that the message lies in; left out: the thread of the recall."
    )
    with_previous_messages: int | None = strawberry.field(
        default=strawberry.UNSET,
        description="How many messages before it to add, of the same thread; at most 1000. "
        "Left out: 2 with `vectorSearchString`, else 0.",
    )
    with_next_messages: int | None = strawberry.field(
        default=strawberry.UNSET,
        description="How many messages after it to add, of the same thread; at most 1000. "
        "Left out: 2 with `vectorSearchString`, else 0.",
    )

    def to_item(self, thread_id: str, default_window: int) -> IncludeItem:
        """As the store's value; `default_window` stands for windows that are left out."""
        return IncludeItem(
            id=self.id,
            thread_id=given(self.thread_id, thread_id),
            before=given(self.with_previous_messages, default_window),
            after=given(self.with_next_messages, default_window),
        )


@strawberry.input(description="The configuration of a memory, as Mastra's `threadConfig`.")
class ThreadConfig:
    last_messages: PerPage | None = strawberry.field(
        default=strawberry.UNSET,
        description="Page size of a recall when `perPage` is left out. `false`: no history, included messages only.",
    )
    semantic_recall: SemanticRecall | None = strawberry.field(
        default=strawberry.UNSET,
        description="Whether and how `vectorSearchString` is searched for; left out: the server's setting.",
    )
    working_memory: JSONObject | None = strawberry.field(
        default=strawberry.UNSET,
        description="Accepted so that a stored configuration can be passed unchanged; changes nothing. "
        "See `workingMemory` of Thread and Resource.",
    )
    threads: JSONObject | None = strawberry.field(
        default=strawberry.UNSET,
        description="Accepted so that a stored configuration can be passed unchanged; changes nothing.",
    )


def given(value: Any, default: T) -> T:
    """What an argument gives; null counts as left out."""
    return default if value is None or value is strawberry.UNSET else value


def to_page(page: int | None, per_page: Any, default: int, after: EndCursor | None = None) -> PageRequest:
    """The page that these arguments ask for; null counts as left out."""
    rows: Rows = given(per_page, default)
    return PageRequest(page or 0, None if rows is False else rows, given(after, None))


def echo(page: PageRequest) -> Rows:
    """`perPage` as it was asked for: false stands for every row."""
    return False if page.per_page is None else page.per_page


def to_order(order: ThreadOrder | MessageOrder | None) -> Order:
    """The store's order; left out: newest first."""
    return order.to_order() if order else Order()


AfterArgument = Annotated[
    EndCursor | None,
    strawberry.argument(
        description="The `endCursor` of an earlier answer with the same `orderBy`: the page begins right after it, "
        "whatever was saved or deleted in between. Goes with page 0."
    ),
]
PageArgument = Annotated[int | None, strawberry.argument(description="The zero-based page; null counts as 0.")]
