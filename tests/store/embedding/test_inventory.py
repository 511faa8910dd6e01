"""What a diagnosis says of the vectors."""

from typing import Any

import pytest
from bson import json_util

from store.embedders.toy import ToyEmbedder
from store.embedding.filling import fill
from store.embedding.inventory import CollectionInventory, Coverage, take_inventory
from tests import zoo
from tests.store.embedding.filled import VECTORS, RenamedEmbedder, long_text, say

ALL_CURRENT = CollectionInventory(VECTORS, 64, vectors=10, coverage=Coverage(0, 0, 0, 10))


async def filled(database: Any) -> None:
    """Ten messages with their vectors."""
    await zoo.fill(database, threads=[zoo.thread("t1")], messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())


async def look(database: Any, model: str | None = "toy-64") -> CollectionInventory:
    """The inventory of the only collection of vectors."""
    inventory = await take_inventory(database, dimensions=64, model=model)
    (collection,) = inventory.collections
    return collection


async def test_all_is_well_after_filling(database: Any) -> None:
    await filled(database)
    inventory = await take_inventory(database, dimensions=64, model="toy-64")
    assert (inventory.messages, [*inventory.collections]) == (10, [ALL_CURRENT])
    assert inventory.problems == []


async def test_messages_without_vectors(database: Any) -> None:
    await zoo.fill(database, messages=[*zoo.ten_messages(), zoo.message("blank", text=" ")])
    found = await look(database)
    assert found == CollectionInventory(VECTORS, 64, coverage=Coverage(10, 0, 0, 0))
    assert found.problems == ["memory_messages_64: 10 messages with text have no vectors; run: recallql embed"]
    assert await database.list_collection_names() == ["mastra_messages"]


async def test_vectors_of_an_older_text_and_incomplete_ones(database: Any) -> None:
    await zoo.fill(database, messages=[*zoo.ten_messages(), zoo.message("long", text=long_text(40))])
    await fill(database, ToyEmbedder())
    await say(database, "m1", "something else")
    await database[VECTORS].delete_one({"metadata.message_id": "long", "source.piece": 1})
    assert (await look(database)).coverage == Coverage(missing=0, stale=2, foreign=0, current=9)


async def test_vectors_of_another_model(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    await fill(plain_database, RenamedEmbedder())
    assert (await look(plain_database)).coverage == Coverage(0, stale=10, foreign=0, current=0)
    assert (await look(plain_database, model=None)).coverage == Coverage(0, stale=0, foreign=0, current=10)


async def test_vectors_whose_message_is_gone(database: Any) -> None:
    await filled(database)
    await database.mastra_messages.delete_many({"id": {"$in": ["m1", "m2"]}})
    found = await look(database)
    assert (found.vectors, found.orphaned, found.coverage) == (10, 2, Coverage(0, 0, 0, 8))


@pytest.mark.parametrize(
    ("embedding", "expected"),
    [
        ([0.0] * 64, {"vectors": 11, "directionless": 1}),
        ([float("nan")] + [1.0] * 63, {"vectors": 11, "directionless": 1}),
        ([1e-30] * 64, {"vectors": 11}),
        ([1.0] * 63, {"vectors": 11, "wrong_length": 1}),
        ("no vector", {"vectors": 10, "unreadable": 1}),
    ],
)
async def test_vectors_that_are_never_found(plain_database: Any, embedding: object, expected: dict[str, int]) -> None:
    await filled(plain_database)
    row = {"_id": "odd", "embedding": embedding, "metadata": {"message_id": "m1"}}
    await plain_database[VECTORS].insert_many([row, {"_id": "__index_metadata__", "dimension": 64}])
    wanted = CollectionInventory(VECTORS, 64, coverage=Coverage(0, 0, 0, 10), **expected)
    assert await look(plain_database) == wanted
    assert len(wanted.problems) == len(expected) - 1


async def test_a_row_that_names_no_message(plain_database: Any) -> None:
    await filled(plain_database)
    await plain_database[VECTORS].insert_one({"embedding": [1.0] * 64, "metadata": {"thread_id": "t1"}})
    assert (await look(plain_database)).unreadable == 1


async def test_every_collection_is_counted_and_the_embedders_compared(database: Any) -> None:
    await zoo.load_dump(database)
    lines = (zoo.DATA / "memory_messages_256.jsonl").read_text().splitlines()
    await database.memory_messages_256.insert_many([json_util.loads(line) for line in lines])
    await fill(database, ToyEmbedder())
    theirs, ours = (await take_inventory(database, dimensions=64)).collections
    assert (theirs.name, theirs.vectors, theirs.coverage) == ("memory_messages_256", len(lines), None)
    assert ours.coverage is not None
    assert (ours.coverage.missing, ours.coverage.current) == (0, ours.vectors)
    theirs, ours = (await take_inventory(database)).collections
    assert theirs.coverage is not None
    assert theirs.coverage.foreign == len(lines)


async def test_an_empty_database(database: Any) -> None:
    assert (await take_inventory(database)).collections == []
    assert (await look(database)) == CollectionInventory(VECTORS, 64, coverage=Coverage(0, 0, 0, 0))


async def test_a_collection_whose_name_promises_nonsense_is_left_out(plain_database: Any) -> None:
    await plain_database.memory_messages_0.insert_one({})
    await plain_database.memory_messages_99999999.insert_one({})
    assert (await take_inventory(plain_database)).collections == []


async def test_progress_ends_at_the_total(plain_database: Any) -> None:
    await filled(plain_database)
    told: list[tuple[int, int]] = []
    await take_inventory(plain_database, dimensions=64, progress=lambda done, total: told.append((done, total)))
    assert told == [(10, 20), (20, 20)]
