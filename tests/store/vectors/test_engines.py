"""One suite for every engine: scope, score, order and end of the candidates are the same on all."""

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bson.binary import Binary, BinaryVectorDtype

from store.errors import EmbeddingMismatch
from store.vectors.atlas import AtlasEngine
from store.vectors.cache import RowsCache
from store.vectors.engine import EngineName, VectorEngine, VectorQuery
from store.vectors.exact import ExactEngine
from store.vectors.search_indexes import create_vector_index
from store.vectors.similarity import Match

DATA = Path(__file__).parent.parent.parent / "data"
VECTORS = "memory_messages_4"
EAST = (1.0, 0.0, 0.0, 0.0)

Rows = Sequence[dict[str, Any]]
Make = Callable[[Any, Rows], Awaitable[VectorEngine]]


def towards(cosine: float) -> list[float]:
    """A vector with this cosine to EAST."""
    return [cosine, float(np.sqrt(1 - cosine**2)), 0.0, 0.0]


def row(message: str, embedding: Any, *, owner: str = "res-a", thread: str = "t1", **fields: Any) -> dict[str, Any]:
    """A row as Mastra stores it; a number as the embedding is its cosine to EAST."""
    vector = towards(embedding) if isinstance(embedding, float) else embedding
    metadata = {"message_id": message, "thread_id": thread, "resource_id": owner}
    return {"embedding": vector, "metadata": metadata, **fields}


def query(vector: Sequence[float] = EAST, **scope: Any) -> VectorQuery:
    """A query for the vectors of res-a."""
    return VectorQuery(np.array(vector, dtype=np.float32), **({"owner": "res-a"} | scope))


async def find(engine: VectorEngine, count: int, **scope: Any) -> list[Match]:
    """The first candidates of a query for EAST."""
    return await (await engine.search(query(**scope))).take(count)


def ids(matches: Sequence[Match]) -> str:
    """The messages, in their order, as one short text."""
    return " ".join(match.message_id for match in matches)


@pytest.fixture(params=["atlas", "exact"])
def make(request: pytest.FixtureRequest) -> Make:
    """Stores rows in a database of its own and gives an engine over them."""

    async def make_engine(database: Any, rows: Rows) -> VectorEngine:
        if rows:
            await database[VECTORS].insert_many(list(rows))
        if request.param == "exact":
            return ExactEngine(database, 4, RowsCache(1_000_000, 60))
        if rows:
            assert await create_vector_index(database, 4) is None
        return AtlasEngine(database, 4)

    return make_engine


async def test_the_best_come_first_with_their_scores(atlas_database: Any, make: Make) -> None:
    engine = await make(atlas_database, [row("m1", 0.5), row("m2", 1.0, thread="t2"), row("m3", -1.0), row("m4", 0.8)])
    assert await find(engine, 3) == [Match("m2", "t2", 1.0), Match("m4", "t1", 0.9), Match("m1", "t1", 0.75)]


async def test_the_scope_comes_before_the_cut(atlas_database: Any, make: Make) -> None:
    others = [row(f"b{number}", 0.99, owner="res-b") for number in range(6)]
    engine = await make(atlas_database, [*others, row("a1", 0.5), row("a2", 0.4, thread="t2")])
    assert ids(await find(engine, 2)) == "a1 a2"
    assert ids(await find(engine, 2, thread_id="t2")) == "a2"
    assert ids(await find(engine, 2, owner="res-b", thread_id="t3")) == ""
    assert ids(await find(engine, 2, owner="RES-A")) == ""


async def test_the_threshold_is_on_the_scale_of_the_scores(plain_atlas_database: Any, make: Make) -> None:
    engine = await make(plain_atlas_database, [row("m1", 0.9), row("m2", 0.5)])
    assert ids(await find(engine, 2, threshold=0.8)) == "m1"
    assert ids(await find(engine, 2, threshold=0.75)) == "m1 m2"
    assert ids(await find(engine, 2, threshold=0.99)) == ""


async def test_vectors_of_one_message_are_one_match(plain_atlas_database: Any, make: Make) -> None:
    parts = [row("long", cosine) for cosine in (0.2, 0.9, 0.7)]
    engine = await make(plain_atlas_database, [*parts, row("short", 0.8)])
    assert await find(engine, 5) == [Match("long", "t1", 0.95), Match("short", "t1", 0.9)]


async def test_a_message_of_very_many_vectors_is_one_match(plain_atlas_database: Any, make: Make) -> None:
    parts = [row("long", 0.9 - number / 1000) for number in range(60)]
    engine = await make(plain_atlas_database, [*parts, row("short", 0.5)])
    assert ids(await find(engine, 5)) == "long short"


async def test_taking_goes_on_to_the_end(plain_atlas_database: Any, make: Make) -> None:
    rows = [row(f"m{number:02}", 0.99 - number / 100) for number in range(50)]
    candidates = await (await make(plain_atlas_database, rows)).search(query())
    counts = (3, 1, 20, 40, 5)
    taken = [await candidates.take(count) for count in counts]
    assert [len(matches) for matches in taken] == [3, 1, 20, 26, 0]
    assert ids(list(chain.from_iterable(taken))) == " ".join(f"m{number:02}" for number in range(50))


async def test_equal_scores_come_in_one_order(plain_atlas_database: Any, make: Make) -> None:
    rows = [row(f"m{number:02}", 0.5) for number in range(40)]
    engine = await make(plain_atlas_database, [*rows, row("best", 0.9)])
    whole = ids(await find(engine, 41))
    candidates = await engine.search(query())
    assert " ".join([ids(await candidates.take(7)) for _ in range(6)]) == whole
    assert whole.split() == ["best", *(f"m{number:02}" for number in range(40))]


async def test_a_vector_without_direction_is_never_a_match(plain_atlas_database: Any, make: Make) -> None:
    broken = [row("zero", [0.0] * 4), row("nan", [float("nan"), 1.0, 0.0, 0.0]), row("inf", [float("inf")] * 4)]
    engine = await make(plain_atlas_database, [row("v1", 1.0), *broken, row("v4", 0.6)])
    assert ids(await find(engine, 5)) == "v1 v4"


@pytest.mark.parametrize("vector", [(0.0, 0.0, 0.0, 0.0), (float("nan"), 1.0, 0.0, 0.0), (float("inf"), 0.0, 0.0, 0.0)])
async def test_a_query_without_direction_matches_nothing(
    plain_atlas_database: Any, make: Make, vector: Sequence[float]
) -> None:
    engine = await make(plain_atlas_database, [row("m1", 1.0)])
    assert await (await engine.search(query(vector))).take(5) == []


@pytest.mark.parametrize(("count", "expected"), [(2, 2), (3, 3), (10, 3)])
async def test_few_vectors_and_a_row_that_is_none(
    plain_atlas_database: Any, make: Make, count: int, expected: int
) -> None:
    described = {"_id": "__index_metadata__", "dimension": 4, "metric": "cosine"}
    engine = await make(plain_atlas_database, [described, row("m1", 0.1), row("m2", 0.2), row("m3", 0.3)])
    assert len(await find(engine, count)) == expected


async def test_rows_without_a_message_or_a_vector_are_passed_over(plain_atlas_database: Any, make: Make) -> None:
    nameless = {"embedding": towards(1.0), "metadata": {"resource_id": "res-a", "message_id": 7}}
    odd = [row("short", [1.0]), row("text", "no vector"), row("null", None)]
    engine = await make(plain_atlas_database, [nameless, *odd, row("m1", 0.5)])
    assert ids(await find(engine, 5)) == "m1"


async def test_binary_vectors_are_read_as_well(plain_atlas_database: Any, make: Make) -> None:
    binary = Binary.from_vector(towards(0.6), BinaryVectorDtype.FLOAT32)
    engine = await make(plain_atlas_database, [row("m1", binary), row("m2", 0.5)])
    assert await find(engine, 5) == [Match("m1", "t1", 0.8), Match("m2", "t1", 0.75)]


async def test_the_length_of_a_vector_does_not_matter(plain_atlas_database: Any, make: Make) -> None:
    engine = await make(plain_atlas_database, [row("m1", [3.0, 4.0, 0.0, 0.0])])
    assert await (await engine.search(query((0.5, 0.0, 0.0, 0.0)))).take(1) == [Match("m1", "t1", 0.8)]


async def test_without_vectors_there_are_no_candidates(atlas_database: Any, make: Make) -> None:
    assert await find(await make(atlas_database, []), 4) == []
    await atlas_database.create_collection(VECTORS)
    assert await find(await make(atlas_database, []), 4) == []


async def test_an_owner_without_vectors_has_no_candidates(plain_atlas_database: Any, make: Make) -> None:
    engine = await make(plain_atlas_database, [row("m1", 1.0)])
    assert await find(engine, 4, owner="res-c") == []
    assert await find(engine, 4, thread_id="t9") == []


async def test_vectors_of_another_length_alone_are_an_error(plain_atlas_database: Any, make: Make) -> None:
    await plain_atlas_database.memory_messages_256.insert_one(row("m1", [1.0] * 256))
    engine = await make(plain_atlas_database, [])
    with pytest.raises(EmbeddingMismatch, match=r"256 numbers.*gives 4"):
        await find(engine, 4)


async def test_a_query_of_another_length_is_an_error(plain_atlas_database: Any, make: Make) -> None:
    engine = await make(plain_atlas_database, [row("m1", 1.0)])
    with pytest.raises(EmbeddingMismatch, match=r"4 numbers.* 3"):
        await find(engine, 4, vector=(1.0, 0.0, 0.0))


async def test_an_engine_says_which_it_is(plain_atlas_database: Any, make: Make) -> None:
    engine = await make(plain_atlas_database, [])
    assert engine.name is (EngineName.ATLAS if isinstance(engine, AtlasEngine) else EngineName.EXACT)


async def test_engines_agree_on_what_mastra_wrote(plain_atlas_database: Any) -> None:
    written = [json.loads(line) for line in (DATA / "memory_messages_256.jsonl").read_text().splitlines()]
    await plain_atlas_database.memory_messages_256.insert_many(written)
    assert await create_vector_index(plain_atlas_database, 256) is None
    engines = AtlasEngine(plain_atlas_database, 256), ExactEngine(plain_atlas_database, 256, RowsCache(1_000_000, 60))
    wanted = query(written[0]["embedding"], owner=written[0]["metadata"]["resource_id"])
    atlas, exact = [await (await engine.search(wanted)).take(100) for engine in engines]
    assert atlas[0] == exact[0] == Match(written[0]["metadata"]["message_id"], written[0]["metadata"]["thread_id"], 1.0)
    scores = {match.message_id: match.score for match in exact}
    assert {match.message_id: match.score for match in atlas} == pytest.approx(scores, abs=2e-6)
