"""Every pipeline that is sent is explained by the server: an index serves it, and no row outside the scope is read."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from store.cursors import Cursor
from store.indexes import create_indexes
from store.ordering import Order
from tests.graph.test_commands import Commands, listening
from tests.zoo import NOON, Client, as_document, fill, message, serving, thread

THREADS, EACH = 100, 50
"""Threads, ten for each owner, and messages in each."""
SEARCHED = ("IXSCAN", "COUNT_SCAN", "DISTINCT_SCAN", "IDHACK")


@dataclass(frozen=True)
class Plan:
    """How the server reads the collection that a pipeline starts from."""

    collection: str
    pipeline: list[dict[str, Any]]
    stages: list[str]
    examined: int

    @property
    def is_searched(self) -> bool:
        """Whether an index was used, and nowhere the whole collection."""
        return "COLLSCAN" not in self.stages and any(stage.endswith(SEARCHED) for stage in self.stages)


class Explained:
    """The application over one database of 5000 messages, and how the server answers what it sends."""

    def __init__(self, client: Client, database: Any, commands: Commands) -> None:
        self.client = client
        self.database = database
        self.commands = commands

    async def plans(self, query: str) -> list[Plan]:
        """The plans of everything that answering a query sends."""
        self.commands.reset()
        assert (await self.client.ask(query)).data
        sent = [event.command for event in self.commands.sent if event.command_name == "aggregate"]
        return [await self._plan(command) for command in sent]

    async def _plan(self, command: Any) -> Plan:
        options = {name: command[name] for name in ("aggregate", "pipeline", "collation") if name in command}
        explained = await self.database.command("explain", options | {"cursor": {}}, verbosity="executionStats")
        winner, counts = next(_find(explained, "winningPlan")), next(_find(explained, "executionStats"))
        stages = [stage for stage in _find(winner, "stage") if isinstance(stage, str)]
        return Plan(command["aggregate"], command["pipeline"], stages, counts["totalDocsExamined"])


def _find(value: Any, name: str) -> Iterator[Any]:
    """What stands under a name, outermost first; plans are nested differently from one server to the next."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from _find(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _find(inner, name)


@pytest.fixture(scope="module")
async def explained(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Explained]:
    """Threads t0 to t99 of owners res-0 to res-9, fifty messages in each: m7-0 is the first one of t7."""
    async with listening(mongodb_uri, "recallql_explained") as (database, commands):
        await create_indexes(database)
        threads = [thread(f"t{number}", f"res-{number % 10}", metadata={"open": True}) for number in range(THREADS)]
        rows = [
            message(f"m{number}-{minute}", f"t{number}", minute, resourceId=f"res-{number % 10}")
            for number in range(THREADS)
            for minute in range(EACH)
        ]
        await fill(database, threads=threads, messages=[as_document(row, open=True) for row in rows])
        await database.mastra_resources.insert_many([{"id": f"res-{number}"} for number in range(10)])
        async with serving(database) as client:
            yield Explained(client, database, commands)


def a_recall(arguments: str) -> str:
    return f'{{ recall(threadId: "t7"{arguments}) {{ messages {{ id text }} total hasMore }} }}'


def of_owner(fields: str, arguments: str = "") -> str:
    return f'{{ threads(filter: {{resourceId: "res-7"}}{arguments}) {{ threads {{ id {fields} }} total }} }}'


SINCE = 'filter: {dateRange: {start: "2024-03-10T12:10:00Z"}}'
OPEN = "filter: {metadata: {open: true}}"
OWNED = ', resourceId: "res-7"'
AFTER_MESSAGE = f', after: "{Cursor("messages", Order(), NOON + timedelta(minutes=20), "m7-20").to_text()}"'
AFTER_THREAD = f', after: "{Cursor("threads", Order(), NOON, "t47").to_text()}"'

# A query, and the rows of its scope: the ten threads of an owner, the fifty messages of a thread, or both.
LISTINGS = {
    "threads of an owner": (of_owner("title"), 10),
    "oldest first": (of_owner("title", ", orderBy: {direction: ASC}"), 10),
    "by last change": (of_owner("title", ", orderBy: {field: updatedAt}"), 10),
    "a later page of threads": (of_owner("title", ", perPage: 3, page: 2"), 10),
    "threads with metadata": (
        '{ threads(filter: {resourceId: "res-7", metadata: {open: true}}) { threads { id } total } }',
        10,
    ),
    "threads after a cursor": (of_owner("title", AFTER_THREAD), 10),
    "a thread": (a_recall(""), 50),
    "a thread oldest first": (a_recall(", orderBy: {direction: ASC}, perPage: 5, page: 1"), 50),
    "a thread since a time": (a_recall(f", {SINCE}"), 50),
    "a thread's messages with metadata": (a_recall(f", {OPEN}"), 50),
    "a thread of an owner": (a_recall(OWNED), 50),
    "a thread of an owner since a time": (a_recall(f"{OWNED}, {SINCE}"), 50),
    "a thread of an owner with metadata": (a_recall(f"{OWNED}, {OPEN}"), 50),
    "a thread after a cursor": (a_recall(AFTER_MESSAGE), 50),
    "a thread of an owner after a cursor": (a_recall(f"{OWNED}{AFTER_MESSAGE}"), 50),
    "a thread's messages with metadata after a cursor": (a_recall(f", {OPEN}{AFTER_MESSAGE}"), 50),
    "includes": (a_recall(', include: [{id: "m7-3", withPreviousMessages: 2, withNextMessages: 1}]'), 50),
    "includes of an owner": (
        a_recall(f'{OWNED}, include: [{{id: "m17-3", threadId: "t17", withNextMessages: 1}}]'),
        50,
    ),
    "counts": (of_owner("messageCount"), 10 * EACH),
    "the ends of threads": (of_owner("firstMessage { id } lastMessage { text }"), 10 * EACH),
    "nested messages": (of_owner("messages(perPage: 2) { messages { id } total }"), 10 * EACH),
    "nested messages since a time": (of_owner(f"messages({SINCE}) {{ messages {{ id }} total }}"), 10 * EACH),
    "nested messages with metadata": (of_owner(f"messages({OPEN}) {{ messages {{ id }} total }}"), 10 * EACH),
    "threads' resource": (of_owner("resource { id }"), 10),
    "messages' thread": ('{ recall(threadId: "t7") { messages { thread { id } } } }', 50),
    "messages' thread of an owner": (f'{{ recall(threadId: "t7"{OWNED}) {{ messages {{ thread {{ id }} }} }} }}', 50),
    "one thread": ('{ thread(id: "t7") { id } }', 1),
    "one thread of an owner": (f'{{ thread(id: "t7"{OWNED}) {{ id }} }}', 1),
    "one message": ('{ message(id: "m7-3") { id } }', 1),
    "one message of an owner": (f'{{ message(id: "m7-3"{OWNED}) {{ id }} }}', 1),
    "one resource": ('{ resource(id: "res-7") { id } }', 1),
}


@pytest.mark.parametrize("name", LISTINGS)
async def test_an_index_serves_every_read(explained: Explained, name: str) -> None:
    query, _ = LISTINGS[name]
    plans = await explained.plans(query)
    assert plans
    assert not [(plan.collection, plan.pipeline[:2]) for plan in plans if not plan.is_searched]


@pytest.mark.parametrize("name", LISTINGS)
async def test_no_row_outside_the_scope_is_read(explained: Explained, name: str) -> None:
    query, rows = LISTINGS[name]
    plans = await explained.plans(query)
    assert plans
    assert not [(plan.collection, plan.examined, plan.pipeline[:2]) for plan in plans if plan.examined > rows]


@pytest.mark.parametrize("name", ["includes", "includes of an owner", "the ends of threads", "nested messages"])
async def test_a_look_up_joins_on_what_an_index_starts_with(explained: Explained, name: str) -> None:
    query, _ = LISTINGS[name]
    look_ups = [look_up for plan in await explained.plans(query) for look_up in _look_ups(plan.pipeline)]
    assert look_ups
    for look_up in look_ups:
        indexes = await explained.database[look_up["from"]].index_information()
        assert look_up["foreignField"] in {index["key"][0][0] for index in indexes.values()}


def _look_ups(pipeline: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for look_up in (stage["$lookup"] for stage in pipeline if "$lookup" in stage):
        yield look_up
        yield from _look_ups(look_up.get("pipeline", []))


@pytest.mark.parametrize("field", ["createdAt", "updatedAt"])
async def test_threads_of_everybody_are_read_in_the_order_of_an_index(explained: Explained, field: str) -> None:
    query = f"{{ threads(perPage: 5, orderBy: {{field: {field}}}) {{ threads {{ id }} hasMore }} }}"
    (plan,) = await explained.plans(query)
    assert {"$sort": {field: -1, "_id": -1}} in plan.pipeline
    assert plan.examined <= THREADS
    if not plan.is_searched and await _is_embedded(explained.database):
        pytest.skip("the embedded server puts an aggregation in order in memory")
    assert (plan.is_searched, plan.examined) == (True, 6)


async def _is_embedded(database: Any) -> bool:
    explained = await database.command("explain", {"find": "mastra_threads"}, verbosity="queryPlanner")
    return bool(explained.get("serverInfo", {}).get("host") == "secantus")


async def test_times_kept_as_text_are_still_read_by_the_index_of_the_thread(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_explained_text") as (database, commands):
        await create_indexes(database)
        rows = [message(f"m{number}", f"t{number % 20}", number) for number in range(200)]
        await fill(database, messages=[row | {"createdAt": row["createdAt"].isoformat()} for row in rows])
        async with serving(database) as client:
            plans = await Explained(client, database, commands).plans(a_recall(f", {SINCE}"))
    assert [plan.is_searched for plan in plans] == [True] * len(plans)
    assert {plan.examined for plan in plans} == {10}


async def test_a_collation_of_the_collection_keeps_no_index_from_serving(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_explained_collated") as (database, commands):
        await database.create_collection("mastra_messages", collation={"locale": "en", "strength": 2})
        await create_indexes(database)
        await fill(database, messages=[message(f"m{number}", f"t{number % 20}", number) for number in range(200)])
        async with serving(database) as client:
            plans = await Explained(client, database, commands).plans(a_recall(""))
    assert [(plan.is_searched, plan.examined) for plan in plans] == [(True, 10)] * 2
