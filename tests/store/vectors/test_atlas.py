"""The Atlas engine: what it asks, and what it does where the index gives too little or nothing at all."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandListener, CommandStartedEvent

from store.errors import EmbeddingMismatch, Unavailable
from store.vectors.atlas import AtlasEngine
from store.vectors.atlas_pipeline import ScopeFilter, id_stages, search_stages, to_matches
from store.vectors.cache import RowsCache
from store.vectors.exact import ExactEngine
from store.vectors.search_indexes import create_vector_index
from store.vectors.similarity import Match
from tests.atlas.fixtures import create_index, set_index_state
from tests.databases import new_database
from tests.store.vectors.test_engines import VECTORS, find, ids, query, row

MASTRA = ("_id", "document")
"""What Mastra declares for filters unless told otherwise."""
INDEX = f"{VECTORS}_vector_index"


class Commands(CommandListener):
    """The names of the commands that were sent, in order; of an aggregation, its first stage."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        """Note a command."""
        pipeline = event.command.get("pipeline")
        self.names.append(next(iter(pipeline[0])) if pipeline else event.command_name)

    def succeeded(self, event: object) -> None:
        """Of no interest."""

    def failed(self, event: object) -> None:
        """Of no interest."""


@pytest.fixture
def commands() -> Commands:
    """The commands that `counted_database` sent."""
    return Commands()


@pytest.fixture
async def counted_database(anyio_backend: str, atlas_uri: str, commands: Commands) -> AsyncIterator[Any]:
    """A database of the emulated Atlas whose commands are counted."""
    async with new_database(atlas_uri, event_listeners=[commands]) as database:
        yield database


async def store(database: Any, rows: Sequence[dict[str, Any]], **index: Any) -> None:
    """Store rows and an index over them."""
    await database[VECTORS].insert_many(list(rows))
    await create_index(database, VECTORS, 4, **index)


def busy_neighbours(count: int = 300) -> list[dict[str, Any]]:
    """Many rows of another owner, nearer to the query than the two of res-a."""
    others = [row(f"b{number}", 0.99, owner="res-b") for number in range(count)]
    return [*others, row("a1", 0.5), row("a2", 0.4, thread="t2")]


def exact(database: Any) -> ExactEngine:
    """The other engine over the same rows."""
    return ExactEngine(database, 4, RowsCache(1_000_000, 60))


# What it asks


def test_declared_paths_go_into_the_search() -> None:
    scope = ScopeFilter.of(query(thread_id="t1"), frozenset({"metadata.resource_id", "metadata.thread_id"}))
    assert search_stages("index", [1.0, 0.0], scope, 20) == [
        {
            "$vectorSearch": {
                "index": "index",
                "path": "embedding",
                "queryVector": [1.0, 0.0],
                "numCandidates": 400,
                "limit": 20,
                "filter": {"$and": [{"metadata.resource_id": {"$eq": "res-a"}}, {"metadata.thread_id": {"$eq": "t1"}}]},
            }
        },
        {
            "$project": {
                "_id": 0,
                "message_id": "$metadata.message_id",
                "thread_id": "$metadata.thread_id",
                "score": {"$meta": "vectorSearchScore"},
            }
        },
    ]


def test_other_paths_are_matched_after_the_search() -> None:
    scope = ScopeFilter.of(query(thread_id="t1"), frozenset({"metadata.resource_id"}))
    search, match, _ = search_stages("index", [1.0], scope, 5000)
    assert search["$vectorSearch"]["filter"] == {"metadata.resource_id": {"$eq": "res-a"}}
    assert search["$vectorSearch"]["numCandidates"] == 10_000
    assert match == {"$match": {"metadata.thread_id": {"$eq": "t1"}}}


def test_ids_stand_for_a_scope() -> None:
    assert id_stages(query(thread_id="t1"), 3) == [
        {"$match": {"metadata.resource_id": "res-a", "metadata.thread_id": "t1"}},
        {"$limit": 3},
        {"$project": {"_id": 1}},
    ]
    (search, _) = search_stages("index", [1.0], ScopeFilter.of_ids(["v1", "v2"]), 20)
    assert search["$vectorSearch"]["filter"] == {"_id": {"$in": ["v1", "v2"]}}
    assert ScopeFilter.of_ids([]).is_empty


def test_rows_become_matches() -> None:
    rows: list[dict[str, Any]] = [
        {"message_id": "m2", "thread_id": "t1", "score": 0.75},
        {"message_id": "m1", "score": 0.7500001},
        {"message_id": "m3", "thread_id": 5, "score": 0.9},
        {"message_id": None, "score": 1.0},
        {"score": 1.0},
    ]
    assert to_matches(rows) == [Match("m3", None, 0.9), Match("m1", None, 0.75), Match("m2", "t1", 0.75)]


# How often it asks


async def test_a_take_is_one_command(counted_database: Any, commands: Commands) -> None:
    await store(counted_database, [row(f"m{number}", 0.5 + number / 100) for number in range(40)])
    engine = AtlasEngine(counted_database, 4)
    await engine.refresh()
    commands.names.clear()
    candidates = await engine.search(query())
    assert len(await candidates.take(8)) == 8
    assert commands.names == ["$vectorSearch"]
    assert len(await candidates.take(16)) == 16
    assert commands.names == ["$vectorSearch"] * 2


async def test_what_was_read_is_not_asked_for_again(counted_database: Any, commands: Commands) -> None:
    await store(counted_database, [row(f"m{number}", 0.5 + number / 100) for number in range(40)])
    engine = AtlasEngine(counted_database, 4)
    await engine.refresh()
    candidates = await engine.search(query())
    await candidates.take(4)
    commands.names.clear()
    assert len(await candidates.take(8)) == 8
    assert commands.names == []


async def test_ids_are_one_command_more(counted_database: Any, commands: Commands) -> None:
    await store(counted_database, busy_neighbours(), filters=MASTRA)
    engine = AtlasEngine(counted_database, 4)
    await engine.refresh()
    commands.names.clear()
    assert ids(await find(engine, 2)) == "a1 a2"
    assert commands.names == ["$match", "$vectorSearch"]


# Scopes that the index does not know


@pytest.mark.parametrize("filters", [MASTRA, (), ("metadata.resource_id",), ("metadata.thread_id",)])
async def test_the_scope_comes_before_the_cut_whatever_is_declared(
    atlas_database: Any, filters: tuple[str, ...]
) -> None:
    await store(atlas_database, busy_neighbours(), filters=filters)
    engine = AtlasEngine(atlas_database, 4)
    assert ids(await find(engine, 2)) == "a1 a2"
    assert ids(await find(engine, 2, thread_id="t2")) == "a2"
    assert ids(await find(engine, 2, owner="res-c")) == ""


async def test_the_other_engine_goes_on_where_the_index_ends(plain_atlas_database: Any) -> None:
    mine = [row(f"a{number}", 1.0 - number / 100) for number in range(30)]
    await store(plain_atlas_database, [*mine, *busy_neighbours(100)], filters=())
    engine = AtlasEngine(plain_atlas_database, 4, fallback=exact(plain_atlas_database), max_rows=50)
    candidates = await engine.search(query())
    first, rest = await candidates.take(1), await candidates.take(100)
    assert ids(first) == "a0"
    assert ids(rest).split() == [f"a{number}" for number in range(1, 30)]
    assert await candidates.take(5) == []


async def test_without_another_engine_the_end_of_the_index_is_an_error(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, busy_neighbours(100), filters=())
    engine = AtlasEngine(plain_atlas_database, 4, max_rows=50)
    with pytest.raises(Unavailable, match=f"not available. The index {INDEX} gives 50 rows at most"):
        await find(engine, 2)


async def test_too_many_ids_are_not_listed(plain_atlas_database: Any) -> None:
    rows = [row(f"a{number:02}", 0.9 - number / 100) for number in reversed(range(60))]
    await store(plain_atlas_database, rows, filters=MASTRA)
    engine = AtlasEngine(plain_atlas_database, 4, fallback=exact(plain_atlas_database), max_rows=50)
    assert ids(await find(engine, 60)).split() == [f"a{number:02}" for number in range(60)]


async def test_ids_of_two_types_are_not_listed(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, [row("m1", 0.9, _id="text"), row("m2", 0.8)], filters=MASTRA)
    assert ids(await find(AtlasEngine(plain_atlas_database, 4), 5)) == "m1 m2"


async def test_a_threshold_ends_the_reading(counted_database: Any, commands: Commands) -> None:
    await store(counted_database, [row(f"m{number:02}", 0.9 - number / 100) for number in range(60)])
    engine = AtlasEngine(counted_database, 4, max_rows=20)
    assert len(await find(engine, 10, threshold=0.93)) == 5
    assert commands.names.count("$vectorSearch") == 1


# An index that cannot be used


@pytest.mark.parametrize("status", ["PENDING", "BUILDING", "FAILED"])
async def test_an_index_that_is_not_ready_is_no_empty_answer(atlas_database: Any, status: str) -> None:
    await store(atlas_database, [row("m1", 0.5)])
    await set_index_state(atlas_database, VECTORS, INDEX, status)
    with pytest.raises(Unavailable, match=f"Semantic recall is not available.*its status is {status}"):
        await find(AtlasEngine(atlas_database, 4), 4)


@pytest.mark.parametrize("status", ["PENDING", "BUILDING", "FAILED"])
async def test_an_index_that_stops_serving_is_noticed(plain_atlas_database: Any, status: str) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    engine = AtlasEngine(plain_atlas_database, 4)
    assert ids(await find(engine, 4)) == "m1"
    await set_index_state(plain_atlas_database, VECTORS, INDEX, status)
    for _ in range(2):
        with pytest.raises(Unavailable, match="Semantic recall is not available"):
            await find(engine, 4)


async def test_an_index_that_is_dropped_is_noticed(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    engine = AtlasEngine(plain_atlas_database, 4)
    await find(engine, 4)
    await plain_atlas_database.command({"dropSearchIndex": VECTORS, "name": INDEX})
    with pytest.raises(Unavailable, match=f"{VECTORS} has no vector search index"):
        await find(engine, 4)


async def test_an_index_that_becomes_ready_is_used(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    await set_index_state(plain_atlas_database, VECTORS, INDEX, "BUILDING")
    engine = AtlasEngine(plain_atlas_database, 4)
    assert (await engine.refresh()).obstacle
    await set_index_state(plain_atlas_database, VECTORS, INDEX, "READY", queryable=True)
    assert (await engine.refresh()).obstacle is None
    assert ids(await find(engine, 4)) == "m1"


async def test_an_obstacle_is_not_looked_for_with_every_search(counted_database: Any, commands: Commands) -> None:
    await counted_database[VECTORS].insert_one(row("m1", 0.5))
    engine = AtlasEngine(counted_database, 4, fallback=exact(counted_database))
    for _ in range(3):
        assert ids(await find(engine, 4)) == "m1"
    assert commands.names.count("$listSearchIndexes") == 1


@pytest.mark.parametrize("status", ["PENDING", "BUILDING"])
async def test_the_other_engine_answers_for_an_index_that_is_not_ready(plain_atlas_database: Any, status: str) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    engine = AtlasEngine(plain_atlas_database, 4, fallback=exact(plain_atlas_database))
    await engine.refresh()
    await set_index_state(plain_atlas_database, VECTORS, INDEX, status)
    for _ in range(2):
        assert await find(engine, 4) == [Match("m1", "t1", 0.75)]


async def test_an_index_that_gave_nothing_is_looked_for_again(counted_database: Any, commands: Commands) -> None:
    await store(counted_database, [row("m1", 0.5)])
    engine = AtlasEngine(counted_database, 4, fallback=exact(counted_database))
    await engine.refresh()
    await counted_database.command({"dropSearchIndex": VECTORS, "name": INDEX})
    assert ids(await find(engine, 4)) == "m1"
    assert await create_vector_index(counted_database, 4) is None
    commands.names.clear()
    assert ids(await find(engine, 4)) == "m1"
    assert commands.names == ["find", "$listSearchIndexes", "$vectorSearch"]


async def test_an_index_that_lost_a_filter_is_noticed(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    engine = AtlasEngine(plain_atlas_database, 4)
    await engine.refresh()
    await plain_atlas_database.command({"dropSearchIndex": VECTORS, "name": INDEX})
    await create_index(plain_atlas_database, VECTORS, 4, filters=())
    with pytest.raises(Unavailable, match=f"The index {INDEX} refuses the query"):
        await find(engine, 4)
    assert ids(await find(engine, 4)) == "m1"


async def test_scores_of_another_similarity_are_not_used(plain_atlas_database: Any) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)], similarity="euclidean")
    with pytest.raises(Unavailable, match="compares by euclidean; scores are defined for cosine alone"):
        await find(AtlasEngine(plain_atlas_database, 4), 4)


async def test_an_index_for_another_length_is_an_error(plain_atlas_database: Any) -> None:
    await plain_atlas_database[VECTORS].insert_one(row("m1", 0.5))
    await create_index(plain_atlas_database, VECTORS, 5)
    with pytest.raises(EmbeddingMismatch, match="5 numbers, but the embedder gives 4"):
        await find(AtlasEngine(plain_atlas_database, 4), 4)


async def test_a_server_without_search_is_not_available(database: Any) -> None:
    await database[VECTORS].insert_one(row("m1", 0.5))
    engine = AtlasEngine(database, 4)
    with pytest.raises(Unavailable, match=r"Semantic recall is not available\. The database has no Atlas Search\."):
        await find(engine, 4)


async def test_a_database_that_is_away_is_not_available(plain_atlas_database: Any, atlas_uri: str) -> None:
    await store(plain_atlas_database, [row("m1", 0.5)])
    async with AsyncMongoClient[Any](atlas_uri) as client:
        engine = AtlasEngine(client[plain_atlas_database.name], 4)
        assert ids(await find(engine, 4)) == "m1"
    with pytest.raises(Unavailable, match="connection to the database is closed"):
        await find(engine, 4)


# Order and shape


async def test_equal_scores_beyond_the_first_rows_come_in_one_order(plain_atlas_database: Any) -> None:
    rows = [row(f"m{number:02}", 0.5) for number in reversed(range(60))]
    await store(plain_atlas_database, rows)
    engine = AtlasEngine(plain_atlas_database, 4)
    assert ids(await find(engine, 3)) == "m00 m01 m02"
    vector = np.array((0.0, 0.0, 1.0, 0.0), dtype=np.float32)
    assert len(await (await engine.search(query(vector.tolist()))).take(60)) == 60
