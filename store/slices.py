"""Long work on many rows in slices, so that the event loop serves others in between."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

R = TypeVar("R")
T = TypeVar("T")

SLICE = 200
"""Rows worked on without a pause: some milliseconds."""


async def in_slices(rows: Sequence[R], work: Callable[[Sequence[R]], Iterable[T]]) -> list[T]:
    """What `work` makes of the rows, slice by slice; few rows are done at once."""
    if len(rows) <= SLICE:
        return list(work(rows))
    done: list[T] = []
    for start in range(0, len(rows), SLICE):
        done += work(rows[start : start + SLICE])
        await asyncio.sleep(0)
    return done
