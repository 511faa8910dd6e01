"""What every embedder offers, and the one check that every vector passes before it leaves one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from store.errors import EmbedderFailed

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """The vectors of some texts, in the order of the texts.

    `vectors` has the shape (texts, dimensions); all numbers are finite, their length is not normalised, and the
    vector of a blank text is zero. `tokens` is what the call cost, None where the embedder does not count.
    """

    vectors: Vectors
    tokens: int | None = None


class Embedder(Protocol):
    """Turns texts into vectors. Safe to call many times at once."""

    @property
    def model(self) -> str:
        """The model's name: vectors of different models cannot be compared."""

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; None until that is known, at the latest after the first text."""

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of the texts, in their order. Text beyond the embedder's limit is shortened.

        Raises EmbedderFailed when the embedder refuses, times out or answers nonsense.
        """

    async def aclose(self) -> None:
        """Frees connections and models. Nothing may be embedded afterwards."""


def no_embeddings(dimensions: int | None) -> Embeddings:
    """The answer to no texts at all: no rows, no tokens."""
    return Embeddings(np.empty((0, dimensions or 0), dtype=np.float32), tokens=0)


def checked_vectors(vectors: ArrayLike, count: int, dimensions: int | None) -> Vectors:
    """The vectors as a float32 matrix of `count` rows.

    `dimensions` is the length they must have, None for any. Raises EmbedderFailed for another number of rows, rows
    of different or wrong lengths, and for numbers that are not finite in float32.
    """
    matrix = _matrix(vectors)
    rows, length = matrix.shape
    if rows != count:
        raise EmbedderFailed(f"The embedder was given {count} texts and answered with {rows} vectors.")
    if length == 0:
        raise EmbedderFailed("The embedder answered with vectors without numbers.")
    if dimensions is not None and length != dimensions:
        raise EmbedderFailed(f"The embedder answered with vectors of {length} numbers instead of {dimensions}.")
    if not np.isfinite(matrix).all():
        raise EmbedderFailed("The embedder answered with vectors that hold NaN or infinite numbers.")
    return matrix


def _matrix(vectors: ArrayLike) -> Vectors:
    try:
        # What float32 cannot hold becomes infinite, and is refused as such.
        with np.errstate(over="ignore"):
            matrix: NDArray[Any] = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderFailed("The embedder answered with vectors of different lengths, or with no numbers.") from error
    if matrix.shape == (0,):
        return matrix.reshape(0, 0)
    if matrix.ndim != 2:
        raise EmbedderFailed("The embedder answered with something that is no list of vectors.")
    return matrix
