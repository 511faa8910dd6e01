"""The emulated server answers as Atlas does, where callers can tell the difference."""

from typing import Any

import pytest
from pymongo.errors import OperationFailure

from tests.atlas.fixtures import create_index, set_index_state

ROWS = [
    {"_id": "a", "embedding": [1.0, 0.0], "metadata": {"resource_id": "res-a"}},
    {"_id": "b", "embedding": [0.0, 1.0], "metadata": {"resource_id": "res-b"}},
    {"_id": "c", "embedding": [-3.0, 0.0], "metadata": {"resource_id": "res-a"}},
    {"_id": "zero", "embedding": [0.0, 0.0], "metadata": {"resource_id": "res-a"}},
    {"_id": "none"},
]
SCORE = {"$project": {"score": {"$meta": "vectorSearchScore"}}}


async def fill(database: Any, **options: Any) -> Any:
    """The sample rows with an index over them; gives the collection."""
    await database.vectors.insert_many(ROWS)
    await create_index(database, "vectors", 2, name="index", **options)
    return database.vectors


def search(**changes: Any) -> dict[str, Any]:
    """A search that is in order, with some arguments changed; None leaves one out."""
    arguments = {"index": "index", "path": "embedding", "queryVector": [1.0, 0.0], "numCandidates": 50, "limit": 5}
    return {"$vectorSearch": {key: value for key, value in (arguments | changes).items() if value is not None}}


async def rows(collection: Any, *stages: dict[str, Any]) -> list[dict[str, Any]]:
    """What a pipeline gives."""
    found: list[dict[str, Any]] = await (await collection.aggregate(list(stages))).to_list()
    return found


@pytest.mark.parametrize(
    ("similarity", "scores"),
    [
        ("cosine", {"a": 1.0, "b": 0.5, "c": 0.0}),
        ("dotProduct", {"a": 1.0, "b": 0.5, "zero": 0.5, "c": 0.0}),
        ("euclidean", {"a": 1.0, "zero": 0.5, "b": 1 / 3, "c": 1 / 17}),
    ],
)
async def test_scores_follow_the_similarity(
    plain_atlas_database: Any, similarity: str, scores: dict[str, float]
) -> None:
    vectors = await fill(plain_atlas_database, similarity=similarity)
    found = {row["_id"]: row["score"] for row in await rows(vectors, search(), SCORE)}
    assert found == pytest.approx(scores)
    assert list(found) == list(scores)


async def test_a_score_can_be_set_matched_and_projected(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    stages: list[dict[str, Any]] = [
        {"$set": {"near": {"$meta": "vectorSearchScore"}}},
        {"$match": {"near": {"$gt": 0.9}}},
    ]
    assert await rows(vectors, search(), *stages, {"$project": {"near": 1}}) == [{"_id": "a", "near": 1.0}]


async def test_the_filter_comes_before_the_limit(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    condition = {"$and": [{"metadata.resource_id": {"$in": ["res-b", "res-c"]}}]}
    assert [row["_id"] for row in await rows(vectors, search(filter=condition, limit=1))] == ["b"]


async def test_a_search_may_be_exact(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    assert [row["_id"] for row in await rows(vectors, search(exact=True, numCandidates=None))] == ["a", "b", "c"]


@pytest.mark.parametrize("index", ["unknown", "Index"])
async def test_an_index_that_does_not_exist_has_no_neighbours(plain_atlas_database: Any, index: str) -> None:
    vectors = await fill(plain_atlas_database)
    assert await rows(vectors, search(index=index)) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numCandidates": None}, "numCandidates is required"),
        ({"numCandidates": 4}, "limit should be less than or equal to numCandidates"),
        ({"numCandidates": 10_001}, "within bounds"),
        ({"limit": 0}, '"limit" must be positive'),
        ({"limit": None}, '"limit" is required'),
        ({"exact": True}, "must be omitted"),
        ({"path": "other"}, "other is not indexed as vector"),
        ({"queryVector": [1.0, 0.0, 0.0]}, "indexed with 2 dimensions but queried with 3"),
        ({"queryVector": [0.0, 0.0]}, "zero vector"),
        ({"filter": {"metadata.role": "user"}}, "Path 'metadata.role' needs to be indexed as filter"),
        ({"filter": {"$or": [{"_id": "a"}]}}, "Path '_id' needs to be indexed as filter"),
        ({"filter": {"metadata.thread_id": {"$in": []}}}, "cannot be empty"),
        ({"filter": {"metadata.thread_id": {"$regex": "."}}}, "unrecognized operator"),
    ],
)
async def test_a_search_out_of_order_is_refused(
    plain_atlas_database: Any, changes: dict[str, Any], message: str
) -> None:
    vectors = await fill(plain_atlas_database)
    with pytest.raises(OperationFailure, match=message) as refusal:
        await rows(vectors, search(**changes))
    assert refusal.value.code == 8


@pytest.mark.parametrize("stage", [search(), {"$listSearchIndexes": {}}])
async def test_the_stages_stand_in_front_alone(plain_atlas_database: Any, stage: dict[str, Any]) -> None:
    vectors = await fill(plain_atlas_database)
    with pytest.raises(OperationFailure, match="only valid as the first stage") as refusal:
        await rows(vectors, {"$match": {}}, stage)
    assert refusal.value.code == 40602


async def test_a_score_is_there_after_a_search_alone(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    with pytest.raises(OperationFailure, match="not available"):
        await rows(vectors, {"$match": {}}, SCORE)


async def test_indexes_are_listed_by_name(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database, filters=())
    await create_index(plain_atlas_database, "vectors", 3, name="other")
    assert [row["name"] for row in await rows(vectors, {"$listSearchIndexes": {}})] == ["index", "other"]
    (listed,) = await rows(vectors, {"$listSearchIndexes": {"name": "index"}})
    assert (listed["type"], listed["status"], listed["queryable"]) == ("vectorSearch", "READY", True)
    field = {"type": "vector", "path": "embedding", "numDimensions": 2, "similarity": "cosine"}
    assert listed["latestDefinition"] == {"fields": [field]}


@pytest.mark.parametrize(("status", "state"), [("BUILDING", "INITIAL_SYNC"), ("FAILED", "FAILED")])
async def test_an_index_that_is_not_ready_refuses(plain_atlas_database: Any, status: str, state: str) -> None:
    vectors = await fill(plain_atlas_database)
    await set_index_state(plain_atlas_database, "vectors", "index", status)
    with pytest.raises(OperationFailure, match=f"while in state {state}"):
        await rows(vectors, search())


async def test_an_index_that_is_not_begun_gives_nothing(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    await set_index_state(plain_atlas_database, "vectors", "index", "PENDING")
    assert await rows(vectors, search()) == []


async def test_a_changed_definition_answers_when_it_is_ready(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database, filters=())
    field = {"type": "vector", "path": "embedding", "numDimensions": 2, "similarity": "cosine"}
    definition = {"fields": [field, {"type": "filter", "path": "_id"}]}
    await plain_atlas_database.command({"updateSearchIndex": "vectors", "name": "index", "definition": definition})
    with pytest.raises(OperationFailure, match="needs to be indexed as filter"):
        await rows(vectors, search(filter={"_id": "b"}))
    await set_index_state(plain_atlas_database, "vectors", "index", "READY", queryable=True)
    assert [row["_id"] for row in await rows(vectors, search(filter={"_id": "b"}))] == ["b"]


async def test_indexes_go_when_they_or_their_collection_are_dropped(plain_atlas_database: Any) -> None:
    vectors = await fill(plain_atlas_database)
    await plain_atlas_database.command({"dropSearchIndex": "vectors", "name": "index"})
    assert await rows(vectors, {"$listSearchIndexes": {}}) == []
    await create_index(plain_atlas_database, "vectors", 2, name="index")
    await vectors.drop()
    assert await rows(vectors, {"$listSearchIndexes": {}}) == []


async def test_management_is_refused_with_codes(plain_atlas_database: Any) -> None:
    await fill(plain_atlas_database)
    with pytest.raises(OperationFailure) as missing:
        await create_index(plain_atlas_database, "nothing", 2)
    with pytest.raises(OperationFailure) as present:
        await create_index(plain_atlas_database, "vectors", 3, name="index")
    with pytest.raises(OperationFailure) as unknown:
        await plain_atlas_database.command({"dropSearchIndex": "vectors", "name": "other"})
    assert [refusal.value.code for refusal in (missing, present, unknown)] == [26, 68, 27]
