"""The exact engine's arithmetic: all rows of a scope against one query, best first, as far as anybody asks.

Pure and synchronous; a large scope takes milliseconds and belongs into a worker thread.
"""

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from store.errors import EmbeddingMismatch
from store.vectors.rows import VectorRows

# What float32 vectors tell apart, and so what scores are rounded to.
DECIMALS = 6
_SCALE = 10.0**DECIMALS
_STEP = 2 / _SCALE
_EPSILON = float(np.finfo(np.float32).eps)
_FIRST_DEPTH = 8
# Rows of which only the largest is looked at first.
_BLOCK = 64
# Rows compared in float64 at a time.
_CHUNK = 2048


class Match(NamedTuple):
    """A message that resembles the query. `score` is (1 + cosine) / 2 of its best vector, rounded."""

    message_id: str
    thread_id: str | None
    score: float


def rank(
    rows: VectorRows, query: ArrayLike, *, thread_id: str | None = None, threshold: float | None = None
) -> "Ranking":
    """Compares the query with every row of the scope: one thread's, or all without `thread_id`.

    Matches below `threshold`, on the scale of the scores, are left out. A query without direction (zero, NaN,
    infinite) matches nothing. Raises EmbeddingMismatch when its length is not that of the rows.
    """
    vector = np.asarray(query, dtype=np.float64)
    if vector.shape != (rows.dimensions,):
        raise EmbeddingMismatch(
            f"The stored vectors have {rows.dimensions} numbers, the query's vector has {vector.size}."
        )
    length = math.sqrt(vector.dot(vector))
    if not math.isfinite(length) or length == 0:
        return Ranking(rows, vector, slice(0, 0), threshold)
    return Ranking(rows, vector / length, rows.scope(thread_id), threshold)


def top(
    rows: VectorRows, query: ArrayLike, count: int, *, thread_id: str | None = None, threshold: float | None = None
) -> list[Match]:
    """The `count` best matches, or as many as there are. See `rank`."""
    return rank(rows, query, thread_id=thread_id, threshold=threshold).take(count)


class Ranking:
    """The matches of one query, best first, each message once; equal scores in stored order.

    Works out no more than is taken, so a caller who finds dead matches simply takes more.

    Every row is compared in float32 first, which leaves differences in the last digits that depend on where a row
    lies. Rows near the top are compared again in float64, number by number in one order: equal vectors get equal
    scores, whatever the scope.
    """

    def __init__(
        self, rows: VectorRows, unit_query: NDArray[np.float64], scope: slice, threshold: float | None
    ) -> None:
        """Made by `rank`."""
        self._rows = rows
        self._query = unit_query
        self._start = scope.start
        self._columns = rows.columns[:, scope]
        self._threshold = threshold
        self._similarities: NDArray[np.float32] = unit_query.astype(np.float32) @ self._columns
        self._left = self._similarities.size
        self._depth = _FIRST_DEPTH
        self._seen: set[int] = set()
        self._ready: deque[Match] = deque()
        # The most that a float32 sum of products of unit vectors can be off, and never less than two score steps.
        self._error = rows.dimensions * _EPSILON / 2 + _STEP

    def take(self, count: int) -> list[Match]:
        """The next `count` matches, fewer at the end, none after it."""
        while len(self._ready) < count and self._left:
            self._rank_more(max(count, self._depth))
            self._depth *= 2
        return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    def _rank_more(self, depth: int) -> None:
        """Ranks at least one more row, about `depth` of them."""
        if depth >= self._left:
            places = np.flatnonzero(self._similarities > -np.inf)
            scores = self._scores(places)
        else:
            places, scores = self._best(depth)
        # Lets the next round begin where this one ends.
        self._similarities[places] = -np.inf
        self._left -= len(places)
        self._add(places, scores)

    def _best(self, depth: int) -> tuple[NDArray[np.int64], list[float]]:
        """The places and scores of the best rows: everything, and nothing else, at or above some score."""
        cut = _reached_by(self._similarities, depth)
        # No row that is left out here can reach the lowest score: its float32 and float64 similarities differ by at
        # most one error each way, and rounding moves it by less than another.
        (places,) = (self._similarities >= cut - 5 * self._error).nonzero()
        scores = self._scores(places)
        lowest = (1 + cut - 2 * self._error) / 2
        sure = [number for number, score in enumerate(scores) if score >= lowest]
        return places[sure], [scores[number] for number in sure]

    def _scores(self, places: NDArray[np.int64]) -> list[float]:
        parts = [places[start : start + _CHUNK] for start in range(0, len(places), _CHUNK)]
        rows = (np.ascontiguousarray(self._columns[:, part].T, np.float64) for part in parts)
        return [_score(cosine) for row in rows for cosine in np.vecdot(row, self._query).tolist()]

    def _add(self, places: NDArray[np.int64], scores: list[float]) -> None:
        rows = places + self._start
        messages, threads = self._rows.message_of[rows].tolist(), self._rows.threads_of(rows)
        for score, message, thread_id in sorted(zip(scores, messages, threads, strict=True), key=_best_and_first):
            if self._threshold is not None and score < self._threshold:
                self._left = 0
                return
            if message not in self._seen:
                self._seen.add(message)
                self._ready.append(Match(self._rows.message_ids[message], thread_id, score))


def _best_and_first(row: tuple[float, int, str | None]) -> tuple[float, int]:
    score, message, _ = row
    return -score, message


def _reached_by(similarities: NDArray[np.float32], count: int) -> float:
    """A similarity above minus infinity that at least `count` rows reach, and few more: the best of some blocks.

    The largest of each block are found several times as fast as the order of all; in numpy there is no faster
    selection of the few largest. At least `count` rows are above minus infinity.
    """
    size = similarities.size // _BLOCK
    if size >= 4 * count:
        largest = similarities[: size * _BLOCK].reshape(_BLOCK, size).max(axis=0)
        cut = float(np.partition(largest, size - count)[size - count])
        if cut > -math.inf:
            return cut
    return float(np.partition(similarities, similarities.size - count)[similarities.size - count])


def _score(cosine: float) -> float:
    # A float32 unit vector is longer than 1 by less than is left after rounding, and so no score exceeds 1.
    return round(max(cosine + 1, 0) * (_SCALE / 2)) / _SCALE
