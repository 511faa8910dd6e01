"""Mastra's `semanticRecall` option, read strictly; and turning a text into candidates."""

import asyncio
import math
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.embedders.toy import ToyEmbedder
from store.errors import EmbeddingMismatch, InvalidArgument, LimitExceeded, StoreError
from store.filters import MetadataFilter
from store.semantic import MAX_TOP_K, SemanticRecall
from store.semantic_search import SearchOptions, SemanticSearch
from store.vectors.engine import EngineName
from tests.graph.semantic import KnownTexts
from tests.graph.test_commands import listening
from tests.store.vectors.test_engines import VECTORS, ids, row

DOCUMENTED = SemanticRecall(top_k=4, before=2, after=2, scope="resource", threshold=None, filter=MetadataFilter())


@pytest.mark.parametrize("value", [True, {}, {"topK": None, "messageRange": None, "scope": None}, {"filter": {}}])
def test_what_is_left_out_is_as_documented(value: object) -> None:
    assert SemanticRecall.from_json(value) == SemanticRecall() == DOCUMENTED


@pytest.mark.parametrize("value", [False, None])
def test_false_is_not_enabled(value: object) -> None:
    assert SemanticRecall.from_json(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"topK": 7}, SemanticRecall(top_k=7)),
        ({"topK": 7.0}, SemanticRecall(top_k=7)),
        ({"topK": 1000}, SemanticRecall(top_k=1000)),
        ({"messageRange": 0}, SemanticRecall(before=0, after=0)),
        ({"messageRange": 1000}, SemanticRecall(before=1000, after=1000)),
        ({"messageRange": {"before": 1, "after": 3.0}}, SemanticRecall(before=1, after=3)),
        ({"messageRange": {"before": 0}}, SemanticRecall(before=0, after=2)),
        ({"messageRange": {"after": 0, "before": None}}, SemanticRecall(before=2, after=0)),
        ({"messageRange": {}}, SemanticRecall()),
        ({"scope": "thread"}, SemanticRecall(scope="thread")),
        ({"threshold": 0}, SemanticRecall(threshold=0.0)),
        ({"threshold": 1}, SemanticRecall(threshold=1.0)),
        ({"threshold": 0.7}, SemanticRecall(threshold=0.7)),
        ({"filter": {"a": 1, "b": None}}, SemanticRecall(filter=MetadataFilter((("a", 1), ("b", None))))),
        (MappingProxyType({"topK": 2}), SemanticRecall(top_k=2)),
    ],
)
def test_each_option(value: object, expected: SemanticRecall) -> None:
    assert SemanticRecall.from_json(value) == expected


@pytest.mark.parametrize("value", [0, 1, "true", "", [], [True], 0.5, object()])
def test_nothing_else_is_an_option(value: object) -> None:
    with pytest.raises(InvalidArgument, match="semanticRecall must be true, false, or an object"):
        SemanticRecall.from_json(value)


MISTAKES: dict[str, list[object]] = {
    "topK": [0, -3, 2.5, "4", True, [4], math.nan, math.inf],
    "messageRange": [-1, 0.5, "2", False, [1, 1]],
    "scope": ["", "Resource", "threads", 1, ["thread"], True],
    "threshold": [-0.01, 1.01, "1", True, math.nan, math.inf],
    "filter": [[], "a", 1, {"a": {}}, {"a": []}, {"$or": 1}],
}


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *(({key: bad}, f"semanticRecall.{key}") for key, values in MISTAKES.items() for bad in values),
        ({"messageRange": {"before": -1}}, "semanticRecall.messageRange.before"),
        ({"messageRange": {"before": "1"}}, "semanticRecall.messageRange.before"),
        ({"messageRange": {"after": 1.5}}, "semanticRecall.messageRange.after"),
        ({"messageRange": {"before": 1, "behind": 1}}, "'behind'"),
        ({"topk": 4}, "'topk'"),
        ({"topK": 4, "indexConfig": None}, "'indexConfig'"),
    ],
)
def test_a_mistake_names_its_key(value: object, key: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SemanticRecall.from_json(value)
    assert key in str(raised.value)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"topK": 1001}, "topK is 1001"),
        ({"topK": 1e300}, "topK"),
        ({"messageRange": 1001}, "messageRange is 1001"),
        ({"messageRange": {"before": 1, "after": 1001}}, "messageRange.after is 1001"),
    ],
)
def test_a_limit_is_named(value: object, key: str) -> None:
    with pytest.raises(LimitExceeded) as raised:
        SemanticRecall.from_json(value)
    assert key in str(raised.value)
    assert "1000" in str(raised.value)


def test_the_argument_is_named_as_the_caller_knows_it() -> None:
    with pytest.raises(InvalidArgument, match=r"RECALLQL_SEMANTIC_RECALL\.topK"):
        SemanticRecall.from_json({"topK": "x"}, "RECALLQL_SEMANTIC_RECALL")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(
    _JSON
    | st.dictionaries(st.sampled_from(["topK", "messageRange", "scope", "threshold", "filter"]), _JSON, max_size=5)
)
def test_whatever_comes_is_read_or_refused(value: object) -> None:
    """Never another exception, and what is read keeps its bounds."""
    try:
        read = SemanticRecall.from_json(value)
    except StoreError:
        return
    assert read is None or (1 <= read.top_k <= MAX_TOP_K and min(read.before, read.after) >= 0)


# Searching


@pytest.fixture
async def vectors(plain_database: Any) -> Any:
    """Three messages of res-a, one of them in t2, and one of res-b."""
    rows = [row("m1", 0.9), row("m2", 0.5), row("x1", 0.7, thread="t2"), row("b1", 0.99, owner="res-b")]
    await plain_database[VECTORS].insert_many(rows)
    return plain_database


async def test_a_text_becomes_candidates(vectors: Any) -> None:
    async with aclosing(SemanticSearch(vectors, ToyEmbedder(4))) as search:
        found = await search.find("east", "res-a", None, None)
        of_thread = await search.find("east", "res-a", "t1", 0.9)
        assert ids(await found.candidates.take(9)) == "m1 x1 m2"
        assert ids(await of_thread.candidates.take(9)) == "m1"
    assert (found.engine, found.tokens, of_thread.tokens) == (EngineName.EXACT, 1, 0)


async def test_the_length_may_be_known_only_after_the_first_text(vectors: Any) -> None:
    known = KnownTexts({"east": (1.0, 0.0, 0.0, 0.0)}, is_open=False)
    async with aclosing(SemanticSearch(vectors, known)) as search:
        await search.refresh()
        found = await search.find("east", "res-a", None, None)
        await search.refresh()
        assert ids(await found.candidates.take(1)) == "m1"


async def test_a_search_needs_vectors_of_its_length(vectors: Any) -> None:
    async with aclosing(SemanticSearch(vectors, ToyEmbedder(8))) as search:
        with pytest.raises(EmbeddingMismatch, match=r"4 numbers.* gives 8"):
            await search.find("east", "res-a", None, None)


async def test_without_memory_a_search_still_answers(vectors: Any) -> None:
    options = SearchOptions(cache_bytes=0, cached_queries=0)
    async with aclosing(SemanticSearch(vectors, ToyEmbedder(4), options)) as search:
        for _ in range(2):
            found = await search.find("east", "res-a", None, None)
            assert ids(await found.candidates.take(1)) == "m1"
        assert (search.cache.nbytes, found.tokens) == (0, 1)


async def test_closing_ends_what_runs_in_the_background(vectors: Any) -> None:
    async with aclosing(SemanticSearch(vectors, ToyEmbedder(4))) as search:
        await search.find("east", "res-a", None, None)
        following = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == "watch"]
        assert [task.done() for task in following] == [False]
    assert following[0].done()


async def test_many_recalls_at_once_keep_to_the_bound(plain_database: Any) -> None:
    """50 searches over ten owners, in whose memory only a few fit."""
    owners = [f"res-{number}" for number in range(10)]
    rows = [row(f"{owner}-{number}", 0.9, owner=owner) for owner in owners for number in range(20)]
    await plain_database[VECTORS].insert_many(rows)
    options, seen = SearchOptions(cache_bytes=20_000, cache_seconds=3600), []
    async with aclosing(SemanticSearch(plain_database, ToyEmbedder(4), options)) as search:

        async def find(owner: str) -> None:
            found = await search.find(f"east {owner}", owner, None, None)
            seen.append(search.cache.nbytes)
            assert len(await found.candidates.take(50)) == 20

        await asyncio.gather(*(find(owner) for owner in owners * 5))
    assert 0 < max(seen) <= 20_000


async def test_many_recalls_at_once_read_an_owner_s_vectors_once(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_search_once") as (database, commands):
        await database[VECTORS].insert_many([row(f"m{number}", 0.9) for number in range(20)])
        async with aclosing(SemanticSearch(database, ToyEmbedder(4))) as search:
            await asyncio.gather(*(search.find(f"east {number}", "res-a", None, None) for number in range(20)))
    assert [event.command.get("find") for event in commands.sent].count(VECTORS) == 1
