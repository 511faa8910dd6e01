"""The named workloads: what is asked, with which arguments."""

import json
from dataclasses import dataclass, field
from typing import Any

from bench.rows import LONG_DOCUMENTS, LONG_TEXT, Size, message_id, message_time, owner_id, thread_id
from store.cursors import Cursor
from store.ordering import Order

MESSAGE = "id threadId resourceId role type createdAt text metadata"
THREAD = "id resourceId title metadata createdAt updatedAt workingMemory"

THREADS = f"""query($filter: ThreadFilter, $perPage: PerPage) {{
  threads(filter: $filter, perPage: $perPage) {{ threads {{ {THREAD} }} total hasMore }} }}"""
RECALL = f"""query($threadId: ID!, $perPage: PerPage, $page: Int, $include: [IncludeMessage!],
               $filter: MessageFilter, $after: Cursor) {{
  recall(threadId: $threadId, perPage: $perPage, page: $page, include: $include, filter: $filter, after: $after) {{
    messages {{ {MESSAGE} }} total hasMore }} }}"""
UI_MESSAGES = """query($threadId: ID!, $perPage: PerPage) {
  recall(threadId: $threadId, perPage: $perPage) { transcript { id uiMessage } total hasMore } }"""
SEARCH = f"""query($threadId: ID!, $text: String!) {{
  recall(threadId: $threadId, vectorSearchString: $text, threadConfig: {{semanticRecall: true}}) {{
    messages {{ {MESSAGE} origin }} matches {{ score rank message {{ id text }} }} total }} }}"""
DASHBOARD = """query($filter: ThreadFilter) {
  threads(filter: $filter, perPage: 25) { total threads { id title updatedAt messageCount
    firstMessage { id role text createdAt } lastMessage { id role text createdAt }
    resource { id workingMemory } } } }"""
NEWEST = """query($filter: ThreadFilter) {
  threads(filter: $filter, perPage: 25) { threads { id title updatedAt
    messages(perPage: 3) { total messages { id role text createdAt } } } } }"""
TYPENAMES = RECALL.replace(MESSAGE, f"__typename {MESSAGE}")


@dataclass(frozen=True, slots=True)
class Workload:
    """A request. `is_cold`: vectors are never kept between two requests. `topic`: what its filter looks for."""

    name: str
    query: str
    variables: dict[str, Any] = field(default_factory=dict)
    is_cold: bool = False
    topic: str | None = None

    @property
    def body(self) -> bytes:
        """The body of the POST request."""
        return json.dumps({"query": self.query, "variables": self.variables}).encode()


def workloads(size: Size) -> list[Workload]:
    """All of them, for a database of this size."""
    return [*_pages(size), *_filters(), *_additions(size)]


def _pages(size: Size) -> list[Workload]:
    long = {"threadId": LONG_TEXT}
    of_owner = {"filter": {"resourceId": owner_id(1)}}
    deep = size.long // 40 - 2
    return [
        Workload("threads, 20 of an owner", THREADS, of_owner | {"perPage": 20}),
        Workload("threads, 100 of all", THREADS, {"perPage": 100}),
        Workload("recall, newest 10", RECALL, long | {"perPage": 10}),
        Workload("recall, newest 40", RECALL, long | {"perPage": 40}),
        Workload("recall, newest 100", RECALL, long | {"perPage": 100}),
        Workload("recall, newest 100, __typename", TYPENAMES, long | {"perPage": 100}),
        Workload("recall, newest 100, uiMessage", UI_MESSAGES, long | {"perPage": 100}),
        Workload(f"recall, page {deep} of 40", RECALL, long | {"perPage": 40, "page": deep}),
        Workload(
            f"recall, 40 after row {deep * 40}", RECALL, long | {"perPage": 40, "after": _cursor(size.long - deep * 40)}
        ),
        Workload(f"recall, all {size.long}", RECALL, long | {"perPage": False}),
    ]


def _cursor(number: int) -> str:
    """The place of a message of the long thread, in the order of newest first."""
    return Cursor("messages", Order(), message_time(number), message_id(LONG_TEXT, number)).to_text()


def _filters() -> list[Workload]:
    topic = "topic-7"
    return [
        Workload(
            f"filter 1 % of {thread}",
            RECALL,
            {"threadId": thread, "perPage": 40, "filter": {"metadata": {"topic": topic}}},
            topic=topic,
        )
        for thread in (LONG_TEXT, LONG_DOCUMENTS)
    ]


def _additions(size: Size) -> list[Workload]:
    windows = {"withPreviousMessages": 3, "withNextMessages": 3}
    places = range(size.long // 10, size.long, size.long // 6)
    include = [{"id": message_id(LONG_TEXT, place), **windows} for place in places][:5]
    search = {"threadId": thread_id(1, 0), "text": "the parcel with the teapot came back"}
    return [
        Workload("five includes with windows", RECALL, {"threadId": LONG_TEXT, "perPage": 10, "include": include}),
        Workload("semantic recall, warm", SEARCH, search),
        Workload("semantic recall, cold", SEARCH, search, is_cold=True),
        Workload("dashboard, 25 threads", DASHBOARD, {"filter": {"resourceId": owner_id(2)}}),
        Workload("newest 3 of each of 25 threads", NEWEST, {"filter": {"resourceId": owner_id(2)}}),
    ]
