"""What decoding hands to the exact engine."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class VectorBatch:
    """Some stored vectors of the expected length, one a row, in stored order; not normalised, perhaps not finite.

    `vectors` is float32 of shape (rows, dimensions); the lists are parallel to it. A thread or resource is None where
    the stored row names none. `other_lengths` counts the vectors of other lengths: length -> rows.
    """

    vectors: NDArray[np.float32]
    message_ids: list[str]
    thread_ids: list[str | None]
    resource_ids: list[str | None]
    other_lengths: Counter[int]
