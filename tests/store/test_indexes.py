"""Indexes: declared as data, created by one call that may be repeated, never at the cost of somebody else's."""

import re
from typing import Any

import pytest

from store.indexes import INDEXES, Index, Keys, check_indexes, create_indexes
from tests.graph.test_commands import listening
from tests.zoo import fill, message, serving, thread

DECLARED = {
    "mastra_threads": {
        ("id",),
        ("resourceId", "createdAt", "_id"),
        ("resourceId", "updatedAt", "_id"),
        ("createdAt", "_id"),
        ("updatedAt", "_id"),
    },
    "mastra_messages": {
        ("id",),
        ("thread_id", "createdAt", "_id"),
        ("resourceId", "createdAt", "_id"),
        ("content.metadata.$**",),
    },
    "mastra_resources": {("id",)},
}
ID = (("id", 1),)
OF_A_THREAD = (("thread_id", 1), ("createdAt", 1), ("_id", 1))
# Indexes in the place of a declared one that cannot serve its reads: what is declared, keys and options found.
OTHERS: dict[str, tuple[Keys, Keys, dict[str, Any]]] = {
    "not unique": (ID, ID, {}),
    "of some rows": (OF_A_THREAD, OF_A_THREAD, {"partialFilterExpression": {"type": "v2"}}),
    "under a collation": (OF_A_THREAD, OF_A_THREAD, {"collation": {"locale": "en", "strength": 2}}),
    "hidden": (OF_A_THREAD, OF_A_THREAD, {"hidden": True}),
    "of other keys under its name": (OF_A_THREAD, (("role", 1),), {"name": "thread_id_1_createdAt_1__id_1"}),
}


async def keys_of(database: Any, collection: str) -> set[tuple[str, ...]]:
    """The keys of a collection's indexes, without MongoDB's own."""
    found = await database[collection].index_information()
    return {tuple(field for field, _ in index["key"]) for index in found.values()} - {("_id",)}


def of_messages(keys: Keys) -> Index:
    """The declared index of messages with these keys."""
    return next(index for index in INDEXES if index.collection == "mastra_messages" and index.keys == keys)


# Declared as data


def test_every_listing_has_its_index() -> None:
    found: dict[str, set[tuple[str, ...]]] = {}
    for index in INDEXES:
        found.setdefault(index.collection, set()).add(tuple(field for field, _ in index.keys))
    assert {name: found.get(name) for name in DECLARED} == DECLARED


def test_an_index_says_what_it_is_for() -> None:
    assert all(index.why for index in INDEXES)
    assert len({(index.collection, index.name) for index in INDEXES}) == len(INDEXES)


def test_public_ids_are_unique() -> None:
    assert {index.collection for index in INDEXES if index.unique and index.keys == (("id", 1),)} == set(DECLARED)


# Created by one call


async def test_a_new_database_gets_every_index(database: Any) -> None:
    report = await create_indexes(database)
    assert (report.created, report.missing, report.refused) == (list(INDEXES), [], {})
    assert {name: await keys_of(database, name) for name in DECLARED} == DECLARED


async def test_a_second_call_changes_nothing(database: Any) -> None:
    await create_indexes(database)
    before = {name: await database[name].index_information() for name in DECLARED}
    report = await create_indexes(database)
    assert (report.present, report.created, report.missing) == (list(INDEXES), [], [])
    assert {name: await database[name].index_information() for name in DECLARED} == before


async def test_what_is_there_is_left_and_the_rest_is_added(plain_database: Any) -> None:
    await plain_database.mastra_messages.create_index([("thread_id", 1), ("createdAt", 1)], name="mastra's own")
    await plain_database.mastra_messages.create_index("id", unique=True, name="another name")
    await create_indexes(plain_database)
    names = set(await plain_database.mastra_messages.index_information())
    assert {"mastra's own", "another name", "thread_id_1_createdAt_1__id_1"} <= names
    assert "id_1" not in names


@pytest.mark.parametrize("keys", ["metadata.resource_id", "metadata.message_id"])
async def test_vectors_are_found_by_an_index(plain_database: Any, keys: str) -> None:
    metadata = {"message_id": "m1", "thread_id": "t1", "resource_id": "res-a"}
    await plain_database.memory_messages_256.insert_one({"_id": "v1", "embedding": [0.5] * 256, "metadata": metadata})
    await create_indexes(plain_database)
    assert keys in {found[0] for found in await keys_of(plain_database, "memory_messages_256")}


async def test_indexes_compare_text_exactly_whatever_the_collection_does(mongodb_uri: str) -> None:
    """An index takes over the collection's collation, and would then serve no exact comparison."""
    async with listening(mongodb_uri, "recallql_indexes_collated") as (database, commands):
        # More than one reply of the server tells of.
        for number in range(110):
            await database.create_collection(f"another_{number}")
        await database.create_collection("mastra_messages", collation={"locale": "en", "strength": 2})
        await create_indexes(database)
        sent = [event.command for event in commands.sent if event.command_name == "createIndexes"]
    specs = [spec for command in sent if command["createIndexes"] == "mastra_messages" for spec in command["indexes"]]
    assert len(specs) == 4
    assert {spec.get("collation", {}).get("locale") for spec in specs} == {"simple"}


# Looking writes nothing


async def test_a_look_at_an_empty_database_makes_nothing(plain_database: Any) -> None:
    report = await check_indexes(plain_database)
    assert (report.present, report.created, report.missing) == ([], [], list(INDEXES))
    assert await plain_database.list_collection_names() == []


async def test_a_look_only_lists(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_indexes_checked") as (database, commands):
        await fill(database, threads=[thread("t1")], messages=[message("m1")])
        commands.reset()
        report = await check_indexes(database)
    assert set(commands.names) - {"dropDatabase"} == {"listCollections", "listIndexes"}
    assert report.missing == list(INDEXES)


async def test_a_start_creates_nothing_unless_told_to(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_indexes_started") as (database, commands):
        await fill(database, threads=[thread("t1")])
        commands.reset()
        async with serving(database):
            names = commands.names
        assert not set(names) & {"create", "createIndexes", "dropIndexes", "insert", "update", "delete"}
        async with serving(database, create_indexes=True):
            assert {name: await keys_of(database, name) for name in DECLARED} == DECLARED


# Somebody else's


@pytest.mark.parametrize("name", OTHERS)
async def test_an_index_that_does_not_serve_is_reported_and_stays(plain_database: Any, name: str) -> None:
    wanted, keys, options = OTHERS[name]
    await plain_database.mastra_messages.create_index(list(keys), **options)
    before = await plain_database.mastra_messages.index_information()
    assert of_messages(wanted) in (await check_indexes(plain_database)).missing
    report = await create_indexes(plain_database)
    assert of_messages(wanted) in [*report.refused, *report.created]
    after = await plain_database.mastra_messages.index_information()
    assert {name: after.get(name) for name in before} == before


async def test_doubled_ids_are_reported_with_the_remedy(plain_database: Any) -> None:
    await fill(plain_database, messages=[message("m1"), message("m1", minute=1)])
    report = await create_indexes(plain_database)
    (refused,) = report.refused
    assert (refused.collection, refused.name) == ("mastra_messages", "id_1")
    assert "same id" in report.refused[refused]
    assert await plain_database.mastra_messages.count_documents({}) == 2


@pytest.mark.parametrize("create", [True, False])
async def test_doubles_and_a_foreign_index_keep_nothing_from_being_read(
    plain_database: Any, create: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """S4: the service starts and reads, and a line of the log names collection, index and remedy."""
    await plain_database.mastra_messages.create_index("id")
    before = await plain_database.mastra_messages.index_information()
    await fill(plain_database, threads=[thread("t1")], messages=[message("m1"), message("m1"), message("m2")])
    async with serving(plain_database, create_indexes=create) as client:
        answer = await client.ask('{ recall(threadId: "t1", resourceId: "res-a") { messages { id } } }')
        assert sorted(row["id"] for row in answer.data["recall"]["messages"]) == ["m1", "m2"]
        assert (await client.ask('{ message(id: "m1") { id } }')).data == {"message": {"id": "m1"}}
    after = await plain_database.mastra_messages.index_information()
    assert {name: after.get(name) for name in before} == before
    assert re.search(r"mastra_messages.*\bid_1\b.*(create|drop|remove|rename)", caplog.text)
