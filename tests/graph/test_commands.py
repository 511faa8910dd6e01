"""Database commands, counted: each operation keeps its budget, whatever the sizes, and fetches what it shows."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from store.indexes import create_indexes
from tests.zoo import Client, as_document, fill, message, serving, thread

HANDSHAKES = {"hello", "isMaster", "ping", "endSessions", "saslStart", "saslContinue"}


class Commands(CommandListener):
    """The commands that a client has sent since the last reset."""

    def __init__(self) -> None:
        self.sent: list[CommandStartedEvent] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in HANDSHAKES:
            self.sent.append(event)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Only what is sent counts."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Only what is sent counts."""

    def reset(self) -> None:
        """Forget what was sent so far."""
        self.sent.clear()

    @property
    def names(self) -> list[str]:
        """The commands' names, in the order of sending."""
        return [event.command_name for event in self.sent]

    @property
    def pipelines(self) -> list[list[dict[str, Any]]]:
        """The pipelines of the aggregations."""
        return [event.command["pipeline"] for event in self.sent if event.command_name == "aggregate"]


@asynccontextmanager
async def listening(uri: str, name: str) -> AsyncIterator[tuple[Any, Commands]]:
    """A database whose client's commands are listened to; dropped afterwards."""
    commands = Commands()
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[commands]) as client:
        await client.drop_database(name)
        try:
            yield client[name], commands
        finally:
            await client.drop_database(name)


def projected(pipeline: list[dict[str, Any]]) -> Iterator[set[str]]:
    """The fields of every $project of a pipeline that fetches stored fields, those inside look-ups too."""
    for stage in pipeline:
        if "$project" in stage:
            yield {name for name, wanted in stage["$project"].items() if wanted}
        for inner in stage.values():
            if isinstance(inner, dict) and "pipeline" in inner:
                yield from projected(inner["pipeline"])


class Counted:
    """The application over one database, and what each question costs there."""

    def __init__(self, client: Client, commands: Commands, rows: int) -> None:
        self.client = client
        self.commands = commands
        self.rows = rows

    async def ask(self, query: str, **variables: Any) -> list[str]:
        """The commands that answering a query takes; the answer must be without errors."""
        self.commands.reset()
        answer = await self.client.ask(query, **variables)
        assert answer.data
        return self.commands.names

    async def refuse(self, query: str, **variables: Any) -> tuple[str, list[str]]:
        """The code of a refusal, and the commands sent before it."""
        self.commands.reset()
        answer = await self.client.ask(query, **variables)
        return answer.code, self.commands.names

    async def fetched(self, query: str, **variables: Any) -> set[str]:
        """The stored fields that answering a query fetches."""
        await self.ask(query, **variables)
        return {name for pipeline in self.commands.pipelines for fields in projected(pipeline) for name in fields}


# Fewer threads, and messages in t0, than the first batch of a reply holds by default (101), and far more.
@pytest.fixture(scope="module", params=[3, 300])
async def counted(anyio_backend: str, mongodb_uri: str, request: pytest.FixtureRequest) -> AsyncIterator[Counted]:
    """Threads t0, t1, ... of res-a, m0, m1, ... in t0, one message in every other thread."""
    rows: int = request.param
    async with listening(mongodb_uri, f"recallql_commands_{rows}") as (database, commands):
        await create_indexes(database)
        await database.mastra_threads.insert_many(
            [thread(f"t{number}", metadata={"status": "open"}) for number in range(rows)]
        )
        await database.mastra_messages.insert_many(
            [message(f"m{number}", "t0", number, metadata={"status": "open"}) for number in range(rows)]
        )
        others = [message(f"o{number}", f"t{number}", metadata={"status": "open"}) for number in range(1, rows)]
        await database.mastra_messages.insert_many([as_document(row, status="open") for row in others])
        await database.mastra_resources.insert_one({"id": "res-a", "workingMemory": "# Ada"})
        # Commands are counted here, not timed.
        async with serving(database, database_timeout=60) as client:
            yield Counted(client, commands, rows)


few = pytest.mark.parametrize("counted", [3], indirect=True)
"""For what does not depend on sizes."""

THREADS = 'query($n: PerPage) { threads(filter: {resourceId: "res-a"}, perPage: $n) { %s } }'
RECALL = 'query($n: PerPage) { recall(threadId: "t0", perPage: $n) { %s } }'
OWNED = 'query($n: PerPage) { recall(threadId: "t0", resourceId: "res-a", perPage: $n) { %s } }'
EVERY_THREAD = THREADS % "threads { id %s } total"
EVERY_MESSAGE = RECALL % "messages { id %s } total"
MESSAGES = "messages(perPage: 20) { %s }"

BUDGETS = {
    "threads": (2, THREADS % "threads { id title metadata } total hasMore"),
    "threads without total": (1, THREADS % "threads { id }"),
    "threads with hasMore alone": (1, THREADS % "threads { id } hasMore"),
    "threads counted": (1, THREADS % "total hasMore"),
    "recall": (2, RECALL % "messages { id text } total hasMore"),
    "recall without total": (1, RECALL % "messages { id }"),
    "recall with hasMore alone": (1, RECALL % "transcript { id } hasMore"),
    "recall counted": (1, RECALL % "total hasMore"),
    "recall of an owner": (3, OWNED % "messages { id text } transcript { id } total hasMore"),
    "activity": (2 + 1, EVERY_THREAD % "messageCount firstMessage { text } lastMessage { text role }"),
    "activity under two names": (2 + 1, EVERY_THREAD % "lastMessage { id } last: lastMessage { text } messageCount"),
    "counts": (2 + 1, EVERY_THREAD % "messageCount"),
    "nested messages": (2 + 2, EVERY_THREAD % (MESSAGES % "messages { id text } total hasMore")),
    "nested messages without total": (2 + 1, EVERY_THREAD % (MESSAGES % "messages { id } hasMore")),
    "threads' resource": (2 + 1, EVERY_THREAD % "resource { workingMemory }"),
    "messages' thread": (2 + 1, EVERY_MESSAGE % "thread { id title }"),
    "messages' thread and its resource": (2 + 2, EVERY_MESSAGE % "thread { id resource { id } }"),
}


@pytest.mark.parametrize("name", BUDGETS)
async def test_an_operation_keeps_its_budget_whatever_the_sizes(counted: Counted, name: str) -> None:
    budget, query = BUDGETS[name]
    # A page that is not filled, one that is filled exactly, one with a next page; every row; none.
    sizes = {size: await counted.ask(query, n=size) for size in (1000, counted.rows, 2, False, 0)}
    assert not {size: names for size, names in sizes.items() if len(names) > budget}
    assert len(sizes[1000]) == budget


async def test_a_later_page_costs_as_much_as_the_first(counted: Counted) -> None:
    assert len(await counted.ask("{ threads(perPage: 1, page: 1) { threads { id } total } }")) == 2
    assert len(await counted.ask('{ recall(threadId: "t0", perPage: 2, page: 1) { messages { id } total } }')) == 2


@pytest.mark.parametrize(("items", "more"), [(1, 1), (20, 1), (100, 2)])
@pytest.mark.parametrize("owner", [None, "res-a"])
async def test_few_includes_cost_one_more_and_any_number_two(
    counted: Counted, items: int, more: int, owner: str | None
) -> None:
    query = """query($include: [IncludeMessage!], $owner: ID) {
      recall(threadId: "t0", resourceId: $owner, perPage: 1, include: $include) { messages { id text } total hasMore }
    }"""
    # Two of the thread itself, the others of other threads, with windows of many sizes.
    threads = ["t0", "t0", *(f"t{number}" for number in range(2, 100))]
    include = [
        {"id": f"{'m' if number < 2 else 'o'}{number}", "threadId": threads[number]}
        | {"withPreviousMessages": number % 7 + 1, "withNextMessages": number % 5}
        for number in range(items)
    ]
    names = await counted.ask(query, include=include, owner=owner)
    assert len(names) == (2 if owner is None else 3) + more


@pytest.mark.parametrize(
    ("budget", "query"),
    [
        (1, '{ thread(id: "t0") { id title metadata } }'),
        (1, '{ thread(id: "t0", resourceId: "res-a") { id } }'),
        (1, '{ message(id: "m1") { id text } }'),
        (2, '{ message(id: "m1", resourceId: "res-a") { id text } }'),
        (1, '{ resource(id: "res-a") { workingMemory } }'),
        (1, '{ threads(filter: {resourceId: "nobody"}) { threads { id } hasMore } }'),
        (1, '{ thread(id: "nowhere") { id } }'),
        (
            3,
            '{ thread(id: "t0") { messageCount lastMessage { id } messages(perPage: 1) { hasMore messages { id } } } }',
        ),
    ],
)
async def test_one_row_costs_one_command(counted: Counted, budget: int, query: str) -> None:
    assert len(await counted.ask(query)) == budget


@pytest.mark.parametrize("size", [1000, 2])
@pytest.mark.parametrize("fields", ["total hasMore", "hasMore", "id"])
async def test_a_metadata_filter_costs_at_most_two(counted: Counted, size: int, fields: str) -> None:
    rows = "id" if fields == "id" else "id metadata"
    numbers = "" if fields == "id" else fields
    where = 'filter: {metadata: {status: "open"}}'
    threads = f"query($n: PerPage) {{ threads({where}, perPage: $n) {{ threads {{ {rows} }} {numbers} }} }}"
    recall = (
        f'query($n: PerPage) {{ recall(threadId: "t0", {where}, perPage: $n) {{ messages {{ {rows} }} {numbers} }} }}'
    )
    assert 1 <= len(await counted.ask(threads, n=size)) <= 2
    assert 1 <= len(await counted.ask(recall, n=size)) <= 2


async def test_a_metadata_filter_beneath_threads_costs_at_most_two_more(counted: Counted) -> None:
    nested = EVERY_THREAD % 'messages(perPage: 2, filter: {metadata: {status: "open"}}) { messages { id } total }'
    assert len(await counted.ask(nested, n=1000)) <= 2 + 2


@pytest.mark.parametrize("kept", ["as text", "as documents"])
async def test_a_metadata_filter_costs_the_same_however_metadata_are_kept(mongodb_uri: str, kept: str) -> None:
    metadata = '{"status": "open"}' if kept == "as text" else {"status": "open"}
    async with listening(mongodb_uri, "recallql_commands_kept") as (database, commands):
        await database.mastra_threads.insert_many([thread(f"t{number}", metadata=metadata) for number in range(150)])
        async with serving(database) as client:
            counted = Counted(client, commands, 150)
            names = await counted.ask(
                '{ threads(filter: {metadata: {status: "open"}}) { threads { id title } total } }'
            )
    assert 1 <= len(names) <= 2


async def test_times_kept_as_text_cost_the_same(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_commands_times") as (database, commands):
        await fill(
            database, messages=[message(f"m{n}") | {"createdAt": f"2024-03-10T12:{n}:00Z"} for n in range(10, 40)]
        )
        async with serving(database) as client:
            counted = Counted(client, commands, 30)
            names = await counted.ask('{ recall(threadId: "t1", perPage: 5) { messages { id } total } }')
    assert len(names) == 2


async def test_has_more_alone_is_answered_by_one_row_more(counted: Counted) -> None:
    for query in (THREADS % "threads { id } hasMore", RECALL % "messages { id } hasMore"):
        await counted.ask(query, n=2)
        (pipeline,) = counted.commands.pipelines
        assert {"$limit": 3} in pipeline
        assert not any("$group" in stage or "$count" in stage for stage in pipeline)


@few
async def test_serving_only_reads(counted: Counted) -> None:
    names = [name for _, query in BUDGETS.values() for name in await counted.ask(query, n=2)]
    assert set(names) <= {"aggregate", "find", "getMore", "count", "distinct"}


# The projection follows the selection


LEAN = {
    "recall": RECALL % "messages { id threadId resourceId role type createdAt origin } transcript { id } total hasMore",
    "recall with a filter": 'query($n: PerPage) { recall(threadId: "t1", perPage: $n, '
    'filter: {dateRange: {start: "2024-01-01T00:00:00Z"}}) { messages { id } } }',
    "recall with includes": 'query($n: PerPage) { recall(threadId: "t1", perPage: $n, '
    'include: [{id: "m1", threadId: "t0", withPreviousMessages: 1}]) { messages { id role } hasMore } }',
    "the ends of threads": EVERY_THREAD % "firstMessage { id } lastMessage { role createdAt }",
    "nested messages": EVERY_THREAD % (MESSAGES % "messages { id thread { id } } total"),
    "one message": '{ message(id: "m1") { id role createdAt } }',
    "one message of an owner": '{ message(id: "m1", resourceId: "res-a") { id thread { id } } }',
}


@few
@pytest.mark.parametrize("name", LEAN)
async def test_content_is_not_fetched_when_no_selected_field_needs_it(counted: Counted, name: str) -> None:
    fetched = await counted.fetched(LEAN[name], n=2)
    assert "id" in fetched
    assert "content" not in fetched


@few
@pytest.mark.parametrize("field", ["content", "metadata", "text", "uiMessage"])
async def test_content_is_fetched_for_the_fields_that_are_made_of_it(counted: Counted, field: str) -> None:
    assert "content" in await counted.fetched(RECALL % "messages { %s }" % field, n=2)
    assert "content" in await counted.fetched(EVERY_THREAD % "lastMessage { %s }" % field, n=2)
    assert "content" in await counted.fetched(EVERY_THREAD % (MESSAGES % "messages { %s }" % field), n=2)


@few
async def test_fields_in_fragments_and_under_other_names_are_fetched(counted: Counted) -> None:
    query = (
        RECALL % "messages { id ...Short ... on Message { kind: role } }" + " fragment Short on Message { said: text }"
    )
    assert {"id", "content", "role"} <= await counted.fetched(query, n=2)


@few
@pytest.mark.parametrize("selected", ["id title", "id messageCount", "messageCount"])
async def test_metadata_of_threads_are_fetched_when_selected_alone(counted: Counted, selected: str) -> None:
    assert "metadata" not in await counted.fetched(THREADS % "threads { %s } total" % selected, n=2)
    assert "metadata" in await counted.fetched(THREADS % "threads { %s workingMemory } total" % selected, n=2)


# Nothing is asked for what is refused


REFUSED = {
    "a page below zero": "{ threads(page: -1) { total } }",
    "a page below zero in a recall": '{ recall(threadId: "t0", page: -1) { messages { id } } }',
    "a page below zero of an owner": '{ recall(threadId: "t0", resourceId: "res-a", page: -1) { messages { id } } }',
    "a page size below zero": "{ threads(perPage: -5) { threads { id } } }",
    "a second page of everything": "{ threads(perPage: false, page: 1) { threads { id } } }",
    "a second page of everything in a recall": '{ recall(threadId: "t0", perPage: false, page: 1) { total } }',
    "a blank owner": '{ threads(filter: {resourceId: " "}) { threads { id } } }',
    "a blank owner in a recall": '{ recall(threadId: "t0", resourceId: "", perPage: 3) { messages { id } total } }',
    "a blank owner of a thread": '{ thread(id: "t0", resourceId: "") { id } }',
    "a blank owner of a message": '{ message(id: "m1", resourceId: " ") { id } }',
    "a blank thread": '{ recall(threadId: " ") { messages { id } } }',
    "a blank thread of an owner": '{ recall(threadId: "", resourceId: "res-a") { messages { id } } }',
    "a blank id of a thread": '{ thread(id: "") { id } }',
    "a blank id of a message": '{ message(id: "") { id } }',
    "a blank id of a resource": '{ resource(id: " ") { id } }',
    "an operator as a value": '{ threads(filter: {metadata: {status: {ne: ""}}}) { total } }',
    "an array as a value": '{ recall(threadId: "t0", filter: {metadata: {status: ["open"]}}) { total } }',
    "a reserved key": '{ recall(threadId: "t0", filter: {metadata: {__proto__: 1}}) { total } }',
    "a time without offset": '{ recall(threadId: "t0", filter: {dateRange: {end: "2024-03-10"}}) { total } }',
    "a window below zero": '{ recall(threadId: "t0", include: [{id: "m1", withNextMessages: -1}]) { total } }',
    "a blank included id": '{ recall(threadId: "t0", resourceId: "res-a", include: [{id: ""}]) { messages { id } } }',
    "an unknown field": "{ thraeds { total } }",
}
PAST_LIMITS = {
    "a page too large": "{ threads(perPage: 1001) { threads { id } } }",
    "a page too large in a recall": '{ recall(threadId: "t0", perPage: 1001) { messages { id } } }',
    "a page too large of an owner": '{ recall(threadId: "t0", resourceId: "res-a", perPage: 1001) { total } }',
    "a window too wide": '{ recall(threadId: "t0", include: [{id: "m1", withNextMessages: 1001}]) { hasMore } }',
}


@few
@pytest.mark.parametrize("name", REFUSED)
async def test_nothing_is_asked_for_a_mistake(counted: Counted, name: str) -> None:
    assert await counted.refuse(REFUSED[name]) == ("BAD_USER_INPUT", [])


@few
@pytest.mark.parametrize("name", PAST_LIMITS)
async def test_nothing_is_asked_past_a_limit(counted: Counted, name: str) -> None:
    assert await counted.refuse(PAST_LIMITS[name]) == ("LIMIT_EXCEEDED", [])


@few
@pytest.mark.parametrize("metadata", [{"status": {"$ne": ""}}, {"$where": "1"}, {"$or": [{}]}, []])
async def test_nothing_is_asked_for_operators_in_variables(counted: Counted, metadata: object) -> None:
    threads = "query($m: MetadataFilter) { threads(filter: {metadata: $m}) { total } }"
    recall = 'query($m: MetadataFilter) { recall(threadId: "t0", filter: {metadata: $m}) { total } }'
    assert await counted.refuse(threads, m=metadata) == ("BAD_USER_INPUT", [])
    assert await counted.refuse(recall, m=metadata) == ("BAD_USER_INPUT", [])


@few
async def test_nothing_is_asked_for_too_many_includes(counted: Counted) -> None:
    query = (
        'query($i: [IncludeMessage!]) { recall(threadId: "t0", resourceId: "res-a", include: $i) { messages { id } } }'
    )
    include = [{"id": f"m{number}"} for number in range(101)]
    assert await counted.refuse(query, i=include) == ("LIMIT_EXCEEDED", [])
