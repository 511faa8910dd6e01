"""The exact engine's arithmetic: scopes, scores, ties, and taking more."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from store.errors import EmbeddingMismatch
from store.vectors.batch import VectorBatch
from store.vectors.blas import use_one_blas_thread
from store.vectors.rows import VectorRows
from store.vectors.similarity import Match, rank, top

Stored = tuple[list[float], str, str | None]


def batch_of(stored: list[Stored], dimensions: int) -> VectorBatch:
    vectors = np.array([vector for vector, _, _ in stored], dtype=np.float32).reshape(-1, dimensions)
    message_ids, thread_ids = [message for _, message, _ in stored], [thread for _, _, thread in stored]
    return VectorBatch(vectors, message_ids, thread_ids, [None] * len(stored), Counter())


def rows_of(*stored: Stored, dimensions: int = 2) -> VectorRows:
    return VectorRows.from_batches([batch_of(list(stored), dimensions)], dimensions)


def many(vectors: ArrayLike, threads: int = 1) -> VectorRows:
    """Rows m0, m1, ... dealt out to the threads in turn."""
    stored = [(row, f"m{place}", f"t{place % threads}") for place, row in enumerate(np.asarray(vectors).tolist())]
    return rows_of(*stored, dimensions=np.asarray(vectors).shape[1])


def ids(matches: list[Match]) -> list[str]:
    return [match.message_id for match in matches]


def at(cosine: float) -> list[float]:
    """A vector at this cosine to (1, 0)."""
    return [cosine, (1 - cosine**2) ** 0.5]


QUERY = [1.0, 0.0]


def test_the_best_come_first_with_scores_from_zero_to_one() -> None:
    rows = rows_of(([0, 3], "right angle", "t1"), ([-2, 0], "opposite", "t1"), ([5, 0], "same", "t2"))
    assert top(rows, QUERY, 3) == [
        Match("same", "t2", 1.0),
        Match("right angle", "t1", 0.5),
        Match("opposite", "t1", 0.0),
    ]


def test_a_thread_is_a_scope_of_its_own() -> None:
    rows = rows_of((at(0.9), "a", "t1"), (at(0.8), "b", "t2"), (at(0.7), "c", "t1"), (at(0.6), "d", None))
    assert ids(top(rows, QUERY, 9, thread_id="t1")) == ["a", "c"]
    assert ids(top(rows, QUERY, 9, thread_id="t2")) == ["b"]
    assert top(rows, QUERY, 9, thread_id="t3") == []
    assert ids(top(rows, QUERY, 9)) == ["a", "b", "c", "d"]


def test_the_threshold_is_on_the_scale_of_the_scores_and_belongs_to_it() -> None:
    rows = rows_of((at(0.9), "near", "t1"), (at(0.5), "far", "t1"))
    assert ids(top(rows, QUERY, 2, threshold=0.8)) == ["near"]
    assert ids(top(rows, QUERY, 2, threshold=0.95)) == ["near"]
    assert top(rows, QUERY, 2, threshold=0.99) == []


def test_the_very_same_vector_reaches_a_threshold_of_one() -> None:
    vectors = np.random.default_rng(1).standard_normal((200, 300)).astype(np.float32)
    rows = many(vectors)
    assert all(top(rows, vector, 5, threshold=1) == [Match(f"m{n}", "t0", 1.0)] for n, vector in enumerate(vectors))


def test_several_vectors_of_a_message_are_one_match() -> None:
    rows = rows_of((at(0.2), "long", "t1"), (at(0.5), "other", "t1"), (at(0.9), "long", "t1"))
    assert top(rows, QUERY, 9) == [Match("long", "t1", 0.95), Match("other", "t1", 0.75)]


@pytest.mark.parametrize("odd", [[0, 0], [np.nan, 1], [np.inf, 0], [np.inf, -np.inf]])
def test_a_vector_without_direction_never_matches(odd: list[float]) -> None:
    rows = rows_of((odd, "odd", "t1"), ([1, 0], "v1", "t1"), ([0.6, 0.8], "v4", "t1"), (odd, "odd", "t2"))
    assert ids(top(rows, QUERY, 9)) == ["v1", "v4"]
    assert len(rows) == 2


@pytest.mark.parametrize("query", [[0, 0], [np.nan, 1], [np.inf, 1]])
def test_a_query_without_direction_matches_nothing(query: list[float]) -> None:
    assert top(rows_of(([1, 0], "m", "t")), query, 3) == []


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30, 3e38])
def test_the_length_of_a_vector_does_not_matter(scale: float) -> None:
    rows = rows_of(([scale, 0], "same", "t"), ([0, scale], "other", "t"))
    assert [match.score for match in top(rows, [scale, 0], 2)] == [1.0, 0.5]


@pytest.mark.parametrize(("count", "found"), [(0, 0), (2, 2), (3, 3), (10, 3)])
def test_few_vectors_and_a_large_count(count: int, found: int) -> None:
    assert len(top(many(np.eye(3)), [1, 1, 1], count)) == found


def test_no_vectors_at_all() -> None:
    rows = VectorRows.from_batches([], 2)
    assert (len(rows), rows.dimensions, top(rows, QUERY, 3)) == (0, 2, [])


@pytest.mark.parametrize("query", [[1.0], [1.0, 0.0, 0.0]])
def test_a_query_of_another_length_is_refused_with_both_lengths(query: list[float]) -> None:
    with pytest.raises(EmbeddingMismatch, match=rf"have 2 numbers, the query's vector has {len(query)}"):
        rank(rows_of(([1, 0], "m", "t")), query)


@pytest.mark.parametrize("threads", [1, 7])
def test_equal_vectors_tie_wherever_they_lie_and_come_in_stored_order(threads: int) -> None:
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((1003, 37))
    copies = [0, 1, 2, 3, 500, 501, 998, 999, 1000, 1001, 1002]
    vectors[copies] = generator.standard_normal(37)
    query = vectors[0] + generator.standard_normal(37) / 10
    matches = top(many(vectors, threads), query, len(copies))
    assert ids(matches) == [f"m{place}" for place in copies]
    assert len({match.score for match in matches}) == 1


def test_nothing_but_equal_vectors() -> None:
    ranking = rank(many(np.ones((3000, 5)), threads=3), np.ones(5))
    assert ids(ranking.take(2) + ranking.take(2) + ranking.take(5000)) == [f"m{place}" for place in range(3000)]


def test_taking_more_goes_on_where_the_last_one_ended() -> None:
    generator = np.random.default_rng(5)
    rows, query = many(generator.standard_normal((700, 16)), threads=9), generator.standard_normal(16)
    ranking = rank(rows, query)
    pieces = [ranking.take(count) for count in (1, 2, 50, 0, 300, 1000, 10)]
    assert [len(piece) for piece in pieces] == [1, 2, 50, 0, 300, 347, 0]
    assert [match for piece in pieces for match in piece] == top(rows, query, 700)


def test_batches_are_one_list() -> None:
    parts: list[list[Stored]] = [[(at(0.1), "a", "t1"), (at(0.2), "b", "t2")], [], [(at(0.3), "c", "t1")]]
    rows = VectorRows.from_batches([batch_of(part, 2) for part in parts], 2)
    assert ids(top(rows, QUERY, 9)) == ["c", "b", "a"]
    assert ids(top(rows, QUERY, 9, thread_id="t1")) == ["c", "a"]


def test_vectors_of_another_length_do_not_fit() -> None:
    with pytest.raises(ValueError, match="shape"):
        VectorRows.from_batches([batch_of([([1, 2, 3], "m", "t")], 3)], 2)


def test_rows_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        rows_of(([1, 0], "m", "t")).columns[0, 0] = 2


def test_the_memory_held_is_known() -> None:
    few, more = many(np.ones((10, 64))), many(np.ones((1000, 64)))
    assert few.nbytes > few.columns.nbytes == 10 * 64 * 4
    assert more.nbytes - few.nbytes > 990 * (64 * 4 + len("m0"))


def test_one_blas_thread() -> None:
    with threadpool_limits():
        use_one_blas_thread()
        found: list[dict[str, Any]] = threadpool_info()
    assert [library["num_threads"] for library in found if library["user_api"] == "blas"] == [1]


small = st.integers(-2, 2).map(float)
stored_rows = st.lists(
    st.tuples(
        st.lists(small, min_size=4, max_size=4), st.sampled_from("abcdefgh"), st.sampled_from(["t1", "t2", None])
    ),
    max_size=40,
)


def plain_scores(stored: list[Stored], query: list[float]) -> dict[str, float]:
    """The best score of each message, worked out one by one; in stored order."""
    best: dict[str, float] = {}
    for vector, message, _ in stored:
        lengths = np.linalg.norm(vector) * np.linalg.norm(query)
        if lengths > 0:
            best[message] = max(best.get(message, 0.0), float((1 + np.dot(vector, query) / lengths) / 2))
    return best


@given(stored_rows, st.lists(small, min_size=4, max_size=4), st.sampled_from(["t1", "t2", None]))
def test_any_ranking_is_the_plain_one(stored: list[Stored], query: list[float], thread_id: str | None) -> None:
    matches = top(rows_of(*stored, dimensions=4), query, 99, thread_id=thread_id)
    plain = plain_scores([row for row in stored if thread_id in (None, row[2])], query)
    assert {match.message_id: match.score for match in matches} == pytest.approx(plain, abs=1e-6)
    everywhere = list(plain_scores(stored, query))
    assert matches == sorted(matches, key=lambda match: (-match.score, everywhere.index(match.message_id)))
