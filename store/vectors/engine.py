"""What a vector engine is: sibling implementations of one shape, chosen when the service starts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from store.vectors.similarity import Match


class EngineName(StrEnum):
    """Which engine answered a semantic recall."""

    ATLAS = "ATLAS"
    EXACT = "EXACT"


@dataclass(frozen=True, slots=True, eq=False)
class VectorQuery:
    """A query vector and the rows it is compared with: those of one owner, or of one of its threads.

    `threshold` is on the scale of the scores, (1 + cosine) / 2; matches below it are left out.
    """

    vector: NDArray[np.float32]
    owner: str
    thread_id: str | None = None
    threshold: float | None = None


class Candidates(Protocol):
    """Messages that resemble a query, best first, each once. Whether they still exist is for the caller to see."""

    @property
    def engine(self) -> EngineName:
        """Which engine found them: an engine may leave a query to another one."""

    async def take(self, count: int) -> list[Match]:
        """The next `count` candidates, fewer at the end, none after it. Raises Unavailable."""


class VectorEngine(Protocol):
    """Finds the stored vectors nearest to a query."""

    @property
    def name(self) -> EngineName:
        """Which engine this is."""

    async def search(self, query: VectorQuery) -> Candidates:
        """The candidates of a query, from which the caller takes as many as it needs.

        Raises EmbeddingMismatch when the stored vectors have another length than the query's, and Unavailable.
        """
