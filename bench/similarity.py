"""How close the exact engine comes to the speed of memory.

Run: python bench/similarity.py [QUERIES]

The limit is one dot product of the two halves of the same numbers, the fastest way found to read them all once on one
thread. Measured in turns, medians, one BLAS thread. `scan` is the comparison of all rows alone, `chosen` that and the
choice of four places by numpy, `top 4` the whole query, with exact scores and names; `one thread` is a query within a
conversation of 50 messages; faiss is compared where it is installed.
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from store.vectors.batch import VectorBatch
from store.vectors.blas import use_one_blas_thread
from store.vectors.rows import VectorRows
from store.vectors.similarity import top

SIZES = ((1_000, 256), (10_000, 256), (100_000, 256), (1_000, 1536), (10_000, 1536))
ROWS_A_THREAD = 50


def made_up(rows: int, dimensions: int) -> VectorBatch:
    """Random vectors of threads that were written to in turn."""
    generator = np.random.default_rng(7)
    threads = [f"thread-{row % max(1, rows // ROWS_A_THREAD)}" for row in range(rows)]
    vectors = generator.standard_normal((rows, dimensions), dtype=np.float32)
    return VectorBatch(vectors, [f"message-{row}" for row in range(rows)], list(threads), [None] * rows, Counter())


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each call in microseconds, all taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) * 1e6 for name, taken in times.items()}


def faiss_search(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> Callable[[], Any] | None:
    """The same query on faiss's flat index, None without faiss."""
    if find_spec("faiss") is None:
        return None
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return lambda: index.search(query[None, :], 4)


def compare(rows: int, dimensions: int, rounds: int) -> str:
    """One line of the table."""
    batch = made_up(rows, dimensions)
    start = time.perf_counter()
    loaded = VectorRows.from_batches([batch], dimensions)
    load = time.perf_counter() - start
    query = batch.vectors[rows // 2]
    flat = loaded.columns.reshape(-1)
    half = flat.size // 2
    calls: dict[str, Callable[[], Any]] = {
        "limit": lambda: np.dot(flat[:half], flat[half : 2 * half]),
        "scan": lambda: query @ loaded.columns,
        "chosen": lambda: np.argpartition(query @ loaded.columns, rows - 4)[rows - 4 :],
        "top": lambda: top(loaded, query, 4),
        "thread": lambda: top(loaded, query, 4, thread_id="thread-0"),
    }
    if search := faiss_search(batch.vectors, query):
        calls["faiss"] = search
    found = measured(calls, rounds)
    shown = [f"{rows:>7} x {dimensions:<4}", f"{found['limit']:>9.0f}"]
    shown += [
        f"{found[name]:>9.0f} = {found[name] / found['limit']:4.2f}"
        for name in ("scan", "chosen", "top", "faiss")
        if name in found
    ]
    return "  ".join([*shown, f"{found['thread']:>9.0f}", f"{load * 1e6 / rows:>9.1f}"])


def main() -> None:
    """Prints the table, times in microseconds."""
    use_one_blas_thread()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    faiss = "    faiss = ratio" if find_spec("faiss") else ""
    ratios = "".join(f"{name:>9} = ratio" for name in ("scan", "chosen", "top 4"))
    print(f"rows x numbers      limit{ratios}{faiss}  one thread  load a row   (µs)")
    for rows, dimensions in SIZES:
        print(compare(rows, dimensions, rounds))


if __name__ == "__main__":
    main()
