"""Finding the vector search index that serves vectors of a length, and making one."""

from typing import Any

import pytest

from store.vectors.collections import REGISTRY
from store.vectors.search_indexes import (
    NOT_SUPPORTED,
    VectorIndex,
    choose,
    create_vector_index,
    find_vector_index,
    index_definition,
    probe_vector_index,
)
from tests.atlas.fixtures import create_index, set_index_state

VECTORS = "memory_messages_4"
READY = VectorIndex("index", VECTORS, True, 4, "cosine", frozenset())


def listed(**changes: Any) -> dict[str, Any]:
    """An entry as `$listSearchIndexes` gives it."""
    vector = {"type": "vector", "path": "embedding", "numDimensions": 4, "similarity": "cosine"}
    fields = [vector, {"type": "filter", "path": "_id"}, {"type": "filter", "path": "metadata.resource_id"}]
    entry = {
        "id": "65f0",
        "name": "index",
        "status": "READY",
        "queryable": True,
        "latestDefinition": {"fields": fields},
    }
    return entry | changes


# What an entry says


def test_an_entry_becomes_an_index() -> None:
    paths = frozenset({"_id", "metadata.resource_id"})
    assert VectorIndex.from_document(VECTORS, listed()) == VectorIndex("index", VECTORS, True, 4, "cosine", paths)


@pytest.mark.parametrize(
    "changes",
    [
        {"latestDefinition": {"mappings": {"dynamic": True}}},
        {"latestDefinition": {"fields": [{"type": "vector", "path": "other", "numDimensions": 4}]}},
        {"latestDefinition": {"fields": [{"type": "autoEmbed", "path": "embedding", "model": "voyage-4"}]}},
        {"latestDefinition": None},
        {"name": None},
    ],
)
def test_other_indexes_are_passed_over(changes: dict[str, Any]) -> None:
    assert VectorIndex.from_document(VECTORS, listed(**changes)) is None


def test_a_filter_path_counts_once_every_host_has_it() -> None:
    serving = {"fields": [{"type": "vector", "path": "embedding"}, {"type": "filter", "path": "_id"}]}
    hosts = [{"hostname": "a", "mainIndex": {"definition": serving}}, {"hostname": "b"}]
    index = VectorIndex.from_document(VECTORS, listed(status="BUILDING", statusDetail=hosts))
    assert index is not None
    assert index.filter_paths == {"_id"}


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (VectorIndex("i", "c", True, 3, "cosine", frozenset()), "for 3 numbers, but the embedder gives 4"),
        (VectorIndex("i", "c", True, 4, "euclidean", frozenset()), "compares by euclidean"),
        (VectorIndex("i", "c", False, 4, "cosine", frozenset(), "BUILDING"), "its status is BUILDING"),
    ],
)
def test_what_stands_in_the_way_is_said(index: VectorIndex, reason: str) -> None:
    assert reason in (index.obstacle(4) or "")
    assert READY.obstacle(4) is None


# Which one is chosen


def test_preference_decides_among_those_that_can_be_used() -> None:
    third, second, first = (VectorIndex(name, VECTORS, True, 4, "cosine", frozenset()) for name in "abc")
    assert choose([third, second, first], 4, ["c", "b"]) == first
    assert choose([third, second], 4, ["c", "b"]) == second
    assert choose([third], 4, ["c", "b"]) == third
    assert choose([], 4, ["c", "b"]) is None


def test_use_comes_before_preference() -> None:
    preferred = VectorIndex("preferred", VECTORS, False, 4, "cosine", frozenset())
    assert choose([preferred, READY], 4, ["preferred"]) == READY
    assert choose([preferred], 4, ["preferred"]) == preferred


def test_a_name_leaves_no_choice() -> None:
    assert choose([READY], 4, [], "other") is None


# On a server


async def test_the_index_is_found_by_its_usual_name(atlas_database: Any) -> None:
    await atlas_database.create_collection(VECTORS)
    await create_index(atlas_database, VECTORS, 4, name="another")
    await create_index(atlas_database, VECTORS, 4, filters=("_id",))
    probe = await probe_vector_index(atlas_database, 4)
    assert probe.index == VectorIndex(f"{VECTORS}_vector_index", VECTORS, True, 4, "cosine", frozenset({"_id"}))
    assert probe.obstacle is None


async def test_the_registry_of_mastra_comes_first(plain_atlas_database: Any) -> None:
    entry = {"_id": VECTORS, "indexName": VECTORS, "collectionName": "own", "searchIndexName": "registered"}
    await plain_atlas_database[REGISTRY].insert_one(entry)
    await plain_atlas_database.create_collection("own")
    for name in (f"{VECTORS}_vector_index", "registered"):
        await create_index(plain_atlas_database, "own", 4, name=name)
    index = await find_vector_index(plain_atlas_database, 4)
    assert index is not None
    assert (index.name, index.collection) == ("registered", "own")


async def test_a_half_written_registry_does_no_harm(plain_atlas_database: Any) -> None:
    await plain_atlas_database[REGISTRY].insert_one({"_id": VECTORS, "collectionName": None, "isByo": False})
    await plain_atlas_database.create_collection(VECTORS)
    name = await create_index(plain_atlas_database, VECTORS, 4)
    assert (await find_vector_index(plain_atlas_database, 4) or READY).name == name


async def test_a_configured_name_is_the_only_one(plain_atlas_database: Any) -> None:
    await plain_atlas_database.create_collection(VECTORS)
    await create_index(plain_atlas_database, VECTORS, 4)
    await create_index(plain_atlas_database, VECTORS, 4, name="mine")
    assert (await find_vector_index(plain_atlas_database, 4, "mine") or READY).name == "mine"
    missing = await probe_vector_index(plain_atlas_database, 4, "yours")
    assert (missing.index, missing.is_supported) == (None, True)
    assert "called yours" in (missing.obstacle or "")


async def test_the_state_of_an_index_is_told(plain_atlas_database: Any) -> None:
    await plain_atlas_database.create_collection(VECTORS)
    name = await create_index(plain_atlas_database, VECTORS, 4)
    await set_index_state(plain_atlas_database, VECTORS, name, "PENDING")
    probe = await probe_vector_index(plain_atlas_database, 4)
    assert probe.index is not None
    assert not probe.index.queryable
    assert (probe.obstacle or "").endswith("its status is PENDING.")


async def test_without_a_collection_there_is_no_index(plain_atlas_database: Any) -> None:
    probe = await probe_vector_index(plain_atlas_database, 1536)
    assert probe.index is None
    assert probe.obstacle == "memory_messages has no vector search index on embedding."


async def test_a_server_without_search_is_no_error(database: Any) -> None:
    probe = await probe_vector_index(database, 4)
    assert (probe.index, probe.obstacle, probe.is_supported) == (None, NOT_SUPPORTED, False)
    assert await find_vector_index(database, 4) is None
    assert await create_vector_index(database, 4) == NOT_SUPPORTED


# Making one


async def test_an_index_is_made_once_with_its_collection(atlas_database: Any) -> None:
    assert await create_vector_index(atlas_database, 4) is None
    assert await create_vector_index(atlas_database, 4) is None
    index = await find_vector_index(atlas_database, 4)
    paths = frozenset({"metadata.resource_id", "metadata.thread_id"})
    assert index == VectorIndex(f"{VECTORS}_vector_index", VECTORS, True, 4, "cosine", paths)


async def test_an_index_of_somebody_else_is_left_alone(plain_atlas_database: Any) -> None:
    await plain_atlas_database.create_collection(VECTORS)
    name = await create_index(plain_atlas_database, VECTORS, 4, filters=("_id", "document"))
    assert "with another definition" in (await create_vector_index(plain_atlas_database, 4) or "")
    index = await find_vector_index(plain_atlas_database, 4)
    assert index == VectorIndex(name, VECTORS, True, 4, "cosine", frozenset({"_id", "document"}))


def test_the_definition_serves_both_scopes() -> None:
    assert index_definition(256) == {
        "fields": [
            {"type": "vector", "path": "embedding", "numDimensions": 256, "similarity": "cosine"},
            {"type": "filter", "path": "metadata.resource_id"},
            {"type": "filter", "path": "metadata.thread_id"},
        ]
    }
