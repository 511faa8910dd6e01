"""How much faster vectors are decoded than in the plain way.

Run: python bench/decoding.py [ROUNDS]

The plain way decodes each document to Python objects and makes a float32 matrix of the lists. Measured in turns on one
batch of about 16 MB, as a server sends it; medians.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import bson
import numpy as np
from bson.binary import Binary, BinaryVectorDtype

from store.vectors.decoding import decode_batch

BATCH_BYTES = 16_000_000
DIMENSIONS = (256, 384, 768, 1536)


def embedding(form: str, dimensions: int, generator: np.random.Generator) -> Any:
    """A random vector in the form named."""
    numbers = generator.standard_normal(dimensions, dtype=np.float32).tolist()
    if form == "binary":
        return Binary.from_vector(numbers, BinaryVectorDtype.FLOAT32)
    return [0 if form == "mixed" and place % 3 == 0 else number for place, number in enumerate(numbers)]


def batch(form: str, dimensions: int) -> tuple[bytes, int]:
    """Documents as the store projects them, and how many."""
    generator = np.random.default_rng(7)
    rows = BATCH_BYTES // (dimensions * (4 if form == "binary" else 13))
    documents = (
        {
            "_id": f"5f0c2a8e-0000-4000-8000-{row:012}",
            "embedding": embedding(form, dimensions, generator),
            "metadata": {"message_id": f"message-{row:024}", "thread_id": f"thread-{row % 97}", "resource_id": "user"},
        }
        for row in range(rows)
    )
    return b"".join(map(bson.encode, documents)), rows


def plain(data: bytes, dimensions: int) -> Any:
    """The same rows without any art."""
    documents = bson.decode_all(data)
    vectors = np.empty((len(documents), dimensions), dtype=np.float32)
    for row, document in enumerate(documents):
        stored = document["embedding"]
        vectors[row] = stored.as_vector().data if isinstance(stored, Binary) else stored
    return vectors, [document["metadata"]["message_id"] for document in documents]


def measured(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The median time of each call in seconds, all taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for taken, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Prints the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("form    numbers     rows    rows/s plain    rows/s here    ratio")
    for form in ("doubles", "binary", "mixed"):
        for dimensions in DIMENSIONS:
            data, rows = batch(form, dimensions)
            slow, fast = measured([partial(plain, data, dimensions), partial(decode_batch, data, dimensions)], rounds)
            print(f"{form:<8}{dimensions:>7}{rows:>9}{rows / slow:>16.0f}{rows / fast:>15.0f}{slow / fast:>9.1f}")


if __name__ == "__main__":
    main()
