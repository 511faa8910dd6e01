"""One owner and another: whoever may see one resource learns nothing of the others, on any way through the schema.

The queries are made from the schema: every way in, arguments that name whatever the other owner has, and beneath each
way in every field, four levels deep. A word that stands in every row of the other owner must not come back, and the
answers must be those of a database in which the other owner has never been.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from graphql import GraphQLField, GraphQLObjectType, GraphQLSchema, get_named_type, is_object_type

from graph.api_keys import create_key
from graph.schema import create_schema
from store.cursors import Cursor, Listing
from store.embedders.toy import ToyEmbedder
from store.ordering import Order
from tests.zoo import Answer, Client, as_document, ask_recall, fill, message, serving, thread

WORD = "zebra"
"""Stands in every row of the other owner, in ids, titles, metadata, working memory, texts and vectors."""
MINE, OTHER = "res-a", WORD
SAMPLES = 20
"""How many combinations of arguments are tried for a field, beside each value of each argument alone."""
DEPTH = 4

SCHEMA: GraphQLSchema = create_schema()._schema
assert SCHEMA.query_type is not None
WAYS_IN: dict[str, GraphQLField] = SCHEMA.query_type.fields

MARKED: dict[str, Any] = {WORD: WORD, "status": "open"}
LOST_THREAD = f"{WORD}-lost"
"""A thread of which only messages are left."""


def without_owner(row: dict[str, Any]) -> dict[str, Any]:
    """The same row as an old version wrote it."""
    return {name: value for name, value in row.items() if name != "resourceId"}


OTHER_THREADS = [
    thread(f"{WORD}-t{number}", OTHER, title=WORD, metadata=MARKED | {"workingMemory": WORD}) for number in (1, 2)
]
OTHER_MESSAGES = [
    *(message(f"{WORD}-m{n}", f"{WORD}-t1", n, resourceId=OTHER, text=f"{WORD} stripes {n}") for n in range(1, 5)),
    as_document(message(f"{WORD}-document", f"{WORD}-t2", resourceId=OTHER), **MARKED),
    without_owner(message(f"{WORD}-without-owner", f"{WORD}-t1", 2.5, text=f"{WORD} stripes", metadata=MARKED)),
    message(f"{WORD}-named-mine", f"{WORD}-t1", 3.5, resourceId=MINE, text=f"{WORD} stripes", metadata=MARKED),
    message(f"{WORD}-among-mine", "mine-1", 2.5, resourceId=OTHER, text=f"{WORD} stripes", metadata=MARKED),
    message(f"{WORD}-old", f"{WORD}-t2", resourceId=OTHER, createdAt="2024-03-10T12:30:00.000Z", content=WORD),
    message(f"{WORD}-orphan", LOST_THREAD, resourceId=OTHER, text=f"{WORD} stripes"),
    message(f"{WORD}-orphan-without-owner", LOST_THREAD, 1, resourceId=None, text=f"{WORD} stripes"),
]
MY_THREADS = [thread(f"mine-{number}", MINE, metadata={"status": "open"}) for number in (1, 2)]
MY_MESSAGES = [
    *(message(f"my-{n}", "mine-1", n, text=f"stripes {n}", metadata={"status": "open"}) for n in range(1, 6)),
    without_owner(message("my-old", "mine-1", 6)),
    message("my-other", "mine-2", 7),
]


async def vector(message_id: str, thread_id: str, resource_id: str, text: str) -> dict[str, Any]:
    """A vector as Mastra stores it, with its copy of the thread's metadata."""
    embedded = await ToyEmbedder().embed([text])
    names = {"message_id": message_id, "thread_id": thread_id, "resource_id": resource_id}
    return {"_id": f"{message_id}-{uuid4()}", "embedding": embedded.vectors[0].tolist()} | {
        "metadata": names | (MARKED if WORD in message_id else {})
    }


async def fill_mine(database: Any) -> None:
    """What the caller has."""
    await fill(database, threads=MY_THREADS, messages=MY_MESSAGES)
    await database.mastra_resources.insert_one({"id": MINE, "workingMemory": "of mine", "metadata": {"plan": "free"}})
    vectors = [await vector(row["id"], row["thread_id"], MINE, row["content"]) for row in MY_MESSAGES]
    await database.memory_messages_64.insert_many(vectors)


async def fill_other(database: Any) -> None:
    """What the other owner has, and vectors that say that it were the caller's."""
    await fill(database, threads=OTHER_THREADS, messages=OTHER_MESSAGES)
    row = {"id": OTHER, "workingMemory": WORD, "metadata": MARKED}
    await database.mastra_resources.insert_one(row)
    owners = [(OTHER, None), (MINE, None), (MINE, "mine-1"), (OTHER, "mine-2")]
    vectors = [
        await vector(row["id"], thread_id or row["thread_id"], owner, f"{WORD} stripes")
        for row in OTHER_MESSAGES
        for owner, thread_id in owners
    ]
    await database.memory_messages_64.insert_many(vectors)


# The queries


IDS = [row["id"] for row in [*OTHER_THREADS, *OTHER_MESSAGES]]
INCLUDE = [
    {"id": row["id"], "threadId": thread_id, "withPreviousMessages": 9, "withNextMessages": 9}
    for row in [*OTHER_MESSAGES, *MY_MESSAGES[:3]]
    for thread_id in (row["thread_id"], "mine-1")
]


def cursors(listing: Listing, rows: list[dict[str, Any]]) -> list[str]:
    """The places of rows in the usual order."""
    return [Cursor(listing, Order(), row["createdAt"], row["id"]).to_text() for row in rows]


VALUES: dict[str, list[Any]] = {
    "id": [*IDS, OTHER, LOST_THREAD, "mine-1", "my-2", MINE, "nothing"],
    "threadId": ["mine-1", f"{WORD}-t1", LOST_THREAD, "nothing"],
    "resourceId": [None, MINE, OTHER, "nobody"],
    "vectorSearchString": [f"{WORD} stripes", None],
    "perPage": [False, None, 1, 0],
    "page": [0, 1],
    "include": [INCLUDE, None],
    "filter: ThreadFilter": [None, {"resourceId": OTHER}, {"metadata": {WORD: WORD}}, {"metadata": {"status": "open"}}],
    "filter: MessageFilter": [None, {"metadata": {WORD: WORD}}, {"dateRange": {"start": "2024-03-10T12:02:30Z"}}],
    "orderBy: ThreadOrder": [None, {"field": "updatedAt", "direction": "ASC"}],
    "orderBy: MessageOrder": [None, {"direction": "ASC"}],
    "after": [
        None,
        *cursors("threads", [*OTHER_THREADS, *MY_THREADS]),
        *cursors("messages", [*OTHER_MESSAGES, *MY_MESSAGES[:2]]),
    ],
    "threadConfig": [
        None,
        {"semanticRecall": {"topK": 50, "messageRange": 9, "scope": "resource"}},
        {"semanticRecall": {"topK": 50, "messageRange": 9, "scope": "thread"}, "lastMessages": False},
        {"semanticRecall": {"topK": 1, "filter": {WORD: WORD}}},
    ],
}
"""What is tried for each argument; the first value is the most revealing one."""


def values(field: GraphQLField, name: str) -> list[Any]:
    """What is tried for an argument of a field: a new argument needs values here."""
    kind = get_named_type(field.args[name].type).name
    return VALUES[name] if name in VALUES else VALUES[f"{name}: {kind}"]


def combinations(field: GraphQLField) -> Iterator[dict[str, Any]]:
    """Arguments of a field: each value of each argument among the most revealing others, then random ones."""
    tried = {name: values(field, name) for name in field.args}
    for name, candidates in tried.items():
        yield from ({other: every[0] for other, every in tried.items()} | {name: value} for value in candidates)
    chance = Random(7)
    for _ in range(SAMPLES if len(tried) > 2 else 0):
        yield {name: chance.choice(candidates) for name, candidates in tried.items()}


def everything(type_: GraphQLObjectType, depth: int) -> str:
    """Every field of a type, and so on beneath them."""
    fields = []
    for name, field in type_.fields.items():
        inner = get_named_type(field.type)
        if not is_object_type(inner):
            fields.append(name)
        elif depth > 0:
            fields.append(f"{name} {{ {everything(inner, depth - 1)} }}")
    return " ".join(fields)


def to_query(name: str, field: GraphQLField) -> str:
    """A query of one way in, with a variable for each argument."""
    type_ = get_named_type(field.type)
    assert isinstance(type_, GraphQLObjectType)
    variables = ", ".join(f"${argument}: {given.type}" for argument, given in field.args.items())
    arguments = ", ".join(f"{argument}: ${argument}" for argument in field.args)
    return f"query({variables}) {{ {name}({arguments}) {{ {everything(type_, DEPTH - 1)} }} }}"


def texts(answer: Answer) -> str:
    """The whole answer as text."""
    return json.dumps(answer.body, ensure_ascii=False).lower()


async def shows_the_word(client: Client, name: str) -> bool:
    """Whether a way in shows anything of the other owner, whatever its arguments."""
    field = WAYS_IN[name]
    for arguments in combinations(field):
        if WORD in texts(await client.ask(to_query(name, field), **arguments)):
            return True
    return False


# The callers


UNLIMITED = {"max_depth": 99, "max_tokens": 99_999, "max_cost": 10**9, "semantic_recall": "true", "embedder": "toy"}


@asynccontextmanager
async def serving_mine(database: Any, **settings: Any) -> AsyncIterator[Client]:
    """The application, called by one who may see the caller's resource only."""
    key, entry = create_key(MINE)
    checked = {"auth": "api-key", "api_keys": entry.to_text()}
    async with serving(database, **UNLIMITED | checked | settings) as client:
        client.http.headers["X-API-Key"] = key
        yield client


@pytest.fixture
async def shared(plain_database: Any) -> Any:
    """A database of both owners."""
    await fill_other(plain_database)
    await fill_mine(plain_database)
    return plain_database


@pytest.fixture
async def alone(plain_database: Any) -> AsyncIterator[Any]:
    """A database of the caller alone, on the same server."""
    database = plain_database.client[f"{plain_database.name}_alone"]
    await fill_mine(database)
    yield database
    await database.client.drop_database(database.name)


@pytest.mark.parametrize("name", WAYS_IN)
async def test_nothing_of_another_owner_is_seen_or_felt(shared: Any, alone: Any, name: str) -> None:
    field, differing = WAYS_IN[name], []
    query = to_query(name, field)
    async with serving_mine(shared) as client, serving_mine(alone) as undisturbed:
        for arguments in combinations(field):
            answer = await client.ask(query, **arguments)
            assert WORD not in texts(answer), arguments
            if answer != await undisturbed.ask(query, **arguments):
                differing.append(arguments)
    assert differing == []


@pytest.mark.parametrize("name", [name for name, field in WAYS_IN.items() if "resourceId" in field.args])
async def test_naming_an_owner_hides_the_others_from_one_who_may_see_all(shared: Any, name: str) -> None:
    field = WAYS_IN[name]
    query = to_query(name, field)
    async with serving(shared, **UNLIMITED) as client:
        for arguments in combinations(field):
            assert WORD not in texts(await client.ask(query, **arguments | {"resourceId": MINE})), arguments


async def test_the_word_is_found_by_one_who_may_see_all(shared: Any) -> None:
    async with serving(shared, **UNLIMITED) as client:
        assert [name for name in WAYS_IN if not await shows_the_word(client, name)] == []


async def test_the_caller_sees_everything_of_its_own(shared: Any) -> None:
    async with serving_mine(shared) as client:
        answer = await client.ask("{ threads { threads { id messageCount messages { total } } total hasMore } }")
    counted = {row["id"]: (row["messageCount"], row["messages"]["total"]) for row in answer.data["threads"]["threads"]}
    assert counted == {"mine-1": (6, 6), "mine-2": (1, 1)}
    assert (answer.data["threads"]["total"], answer.data["threads"]["hasMore"]) == (2, False)


async def test_a_match_is_found_however_many_foreign_vectors_are_nearer(shared: Any) -> None:
    nearer = [await vector(f"{WORD}-{n}", "mine-1", MINE, "stripes 3") for n in range(50)]
    await shared.memory_messages_64.insert_many(nearer)
    query = """{ recall(threadId: "mine-1", vectorSearchString: "stripes 3", perPage: 0, threadConfig:
        {semanticRecall: {topK: 2, messageRange: 0}}) { matches { message { id } rank } } }"""
    async with serving_mine(shared) as client:
        matches = (await client.ask(query)).data["recall"]["matches"]
    assert len(matches) == 2
    assert matches[0] == {"message": {"id": "my-3"}, "rank": 1}


async def test_how_large_a_foreign_thread_is_cannot_be_felt_by_a_limit(shared: Any) -> None:
    rows = [message(f"{WORD}-many-{n}", f"{WORD}-t2", resourceId=None) for n in range(30)]
    await fill(shared, messages=rows)
    async with serving_mine(shared, max_rows=10) as client:
        # Many at once, because which of two commands is answered first is a matter of chance.
        asked = [ask_recall(client, threadId=f"{WORD}-t2", perPage=False) for _ in range(50)]
        answers = {texts(answer) for answer in await asyncio.gather(*asked)}
        assert answers == {texts(await ask_recall(client, threadId="nothing", perPage=False))}
    async with serving(shared, max_rows=10) as client:
        assert (await ask_recall(client, threadId=f"{WORD}-t2", perPage=False, resourceId=MINE)).code == "FORBIDDEN"


async def test_a_refusal_does_not_name_the_owner(shared: Any) -> None:
    async with serving(shared) as client:
        answer = await ask_recall(client, threadId=f"{WORD}-t1", resourceId=MINE)
    assert answer.code == "FORBIDDEN"
    assert WORD not in texts(answer)
