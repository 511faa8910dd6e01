"""What semantic recall adds to the same recall without a search.

Run: python -m bench.searching [VECTORS ...]

One owner has so many messages (1000 and 10 000 unless said otherwise) in threads of 40, each with a vector of 256
numbers. One thread is read with and without `vectorSearchString` over all of the owner's threads, in turns; medians of
the CPU of our process alone. The vectors are in memory (warm); the text is embedded by the toy embedder.
"""

import asyncio
import gc
import sys
from typing import Any

import uvloop
from pymongo import AsyncMongoClient

from bench.__main__ import Place, new_place, running
from bench.callers import Caller, InProcess
from bench.measuring import Sampling, measure
from bench.queries import SEARCH, Workload
from bench.rows import Size, load, owner_id, thread_id
from graph.app import create_app

SIZES = (1_000, 10_000)
MESSAGES = 40
QUERY = SEARCH.replace("String!", "String, $resourceId: ID").replace(
    "threadId: $", "resourceId: $resourceId, threadId: $"
)
THREAD = {"threadId": thread_id(0, 0), "resourceId": owner_id(0)}
WITH = Workload("with", QUERY, THREAD | {"text": "the parcel with the teapot came back"})
WITHOUT = Workload("without", QUERY, THREAD | {"text": None})


class Asking:
    """Sends one workload, whichever it is given, so that two workloads can take turns."""

    def __init__(self, caller: Caller, workload: Workload) -> None:
        self._caller = caller
        self._workload = workload

    async def ask(self, _: Workload) -> bytes:
        """The body of the answer. Raises RuntimeError for an answer with errors."""
        return await self._caller.ask(self._workload)

    def cpu(self) -> float:
        """Seconds of CPU of this process."""
        return self._caller.cpu()


async def compare(place: Place, vectors: int, rounds: int = 200) -> str:
    """One line of the table, for an owner with so many vectors."""
    async with AsyncMongoClient[Any](place.uri) as client:
        await load(client[place.name], Size(owners=1, threads=vectors // MESSAGES, messages=MESSAGES, long=0))
    async with running(create_app(place.settings())) as app:
        callers = {each.name: Asking(InProcess(app), each) for each in (WITH, WITHOUT)}
        gc.collect()
        samples = await measure(WITH, callers, Sampling(rounds, seconds=60))
    searched, plain = (samples[each.name].figures()["cpu_ms"] for each in (WITH, WITHOUT))
    return f"{vectors:>9}{plain:>12.1f}{searched:>9.1f}{searched - plain:>9.1f}{searched / plain:>9.1f}"


async def run(sizes: list[int]) -> None:
    """A database for each size, one after the other."""
    print(f"{'vectors':>9}{'without ms':>12}{'with ms':>9}{'adds ms':>9}{'ratio':>9}")
    for vectors in sizes:
        async with new_place() as place:
            print(await compare(place, vectors), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run([int(word) for word in sys.argv[1:]] or list(SIZES)))
