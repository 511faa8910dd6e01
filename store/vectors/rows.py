"""The vectors of one owner in memory, laid out for comparison."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import getsizeof
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from store.vectors.batch import VectorBatch

# Rows turned into columns at a time: few enough to stay in the processor's cache.
_CHUNK = 256

Id = TypeVar("Id", str, str | None)


@dataclass(frozen=True, slots=True, eq=False)
class VectorRows:
    """Unit vectors, grouped by thread, so that a thread is a slice and the owner is the whole. Never changed.

    `columns` is float32 of shape (dimensions, rows), C-contiguous: number after number, each for all rows. One pass
    over long columns runs at the speed of memory; short rows one after the other take up to twice as long.
    `message_of` is the place of each row's message in `message_ids`, which is in stored order. Thread `thread_ids[i]`
    has the rows from `thread_starts[i]` up to `thread_starts[i + 1]`, in stored order.
    """

    columns: NDArray[np.float32]
    message_of: NDArray[np.int64]
    message_ids: Sequence[str]
    thread_ids: Sequence[str | None]
    thread_starts: NDArray[np.int64]
    _thread_places: dict[str | None, int]

    @classmethod
    def from_batches(cls, batches: Iterable[VectorBatch], dimensions: int) -> "VectorRows":
        """The rows of the batches, in their order, without vectors that have no direction: zero, NaN, infinite.

        For a moment the vectors are held twice. Raises ValueError for vectors of another length.
        """
        directed = [_Directed.of(batch) for batch in batches]
        messages, message_of = _numbered(chain.from_iterable(part.message_ids() for part in directed))
        threads, thread_of = _numbered(chain.from_iterable(part.thread_ids() for part in directed))
        order = np.argsort(thread_of, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(thread_of, minlength=len(threads)))))
        columns = _columns(directed, order, dimensions)
        return cls(columns, message_of[order], list(messages), list(threads), starts, threads)

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return int(self.columns.shape[0])

    @property
    def nbytes(self) -> int:
        """The memory held: arrays, ids and the thread table."""
        arrays = (self.columns, self.message_of, self.thread_starts)
        containers = (self.message_ids, self.thread_ids, self._thread_places)
        ids = chain(self.message_ids, self.thread_ids)
        return sum(array.nbytes for array in arrays) + sum(map(getsizeof, chain(containers, ids)))

    def scope(self, thread_id: str | None = None) -> slice:
        """The rows of one thread, none for an unknown one; without a thread all rows."""
        if thread_id is None:
            return slice(0, len(self))
        place = self._thread_places.get(thread_id)
        if place is None:
            return slice(0, 0)
        return slice(int(self.thread_starts[place]), int(self.thread_starts[place + 1]))

    def threads_of(self, rows: NDArray[np.int64]) -> list[str | None]:
        """The thread of each of these rows."""
        places = np.searchsorted(self.thread_starts, rows, side="right") - 1
        return [self.thread_ids[place] for place in places.tolist()]


@dataclass(frozen=True, slots=True)
class _Directed:
    """Those rows of a batch whose vectors have a direction, and the lengths of these vectors."""

    batch: VectorBatch
    rows: NDArray[np.int64]
    lengths: NDArray[np.float64]

    @classmethod
    def of(cls, batch: VectorBatch) -> "_Directed":
        # In float64: the squares of small and of large numbers leave the range of float32.
        lengths = np.sqrt(np.einsum("ij,ij->i", batch.vectors, batch.vectors, dtype=np.float64))
        rows = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        return cls(batch, rows, lengths[rows])

    def unit_vectors(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of the chosen of `rows`, of length 1."""
        vectors = self.batch.vectors[self.rows[chosen]] / self.lengths[chosen, None]
        return vectors.astype(np.float32)

    def message_ids(self) -> Iterator[str]:
        return map(self.batch.message_ids.__getitem__, self.rows.tolist())

    def thread_ids(self) -> Iterator[str | None]:
        return map(self.batch.thread_ids.__getitem__, self.rows.tolist())


def _numbered(ids: Iterable[Id]) -> tuple[dict[Id, int], NDArray[np.int64]]:
    """The distinct ids, numbered as they first come, and the number of each."""
    numbers: dict[Id, int] = {}
    return numbers, np.fromiter((numbers.setdefault(value, len(numbers)) for value in ids), dtype=np.int64)


def _columns(parts: list[_Directed], order: NDArray[np.int64], dimensions: int) -> NDArray[np.float32]:
    """The unit vectors of all the parts as columns: column i is row `order[i]`."""
    columns = np.empty((dimensions, len(order)), dtype=np.float32)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    first = 0
    for part in parts:
        own = places[first : first + len(part.rows)]
        first += len(part.rows)
        by_place = np.argsort(own)
        for start in range(0, len(own), _CHUNK):
            chosen = by_place[start : start + _CHUNK]
            _set_columns(columns, own[chosen], part.unit_vectors(chosen))
    columns.flags.writeable = False
    return columns


def _set_columns(columns: NDArray[np.float32], places: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Writes the vectors, one a row, to these columns; the places ascend."""
    first, last = int(places[0]), int(places[-1])
    if last - first == len(places) - 1:
        columns[:, first : last + 1] = vectors.T
    else:
        columns[:, places] = vectors.T
