"""For how long others must wait while one large answer is made: the longest block of the event loop.

Run: python -m bench.loop_lag [MESSAGES] [ANSWERS]

Sixteen clients keep asking small queries of the application in this process while one asks for all messages of a
thread. Every callback of the event loop is timed, by the CPU time of its thread, so that other processes do not count;
the longest ones are shown with the place at which their coroutine stopped next, and how much of it was garbage
collection. Beside it, how long the small queries waited, alone and while large answers were made: that holds the
database's time, too.
"""

import asyncio
import gc
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pymongo import AsyncMongoClient

from bench.__main__ import Place, new_place, running
from bench.callers import InProcess
from bench.measuring import percentile
from bench.queries import THREADS, Workload
from bench.rows import LONG_TEXT, Size, load, owner_id, thread_id
from graph.app import create_app
from graph.serving import calm_garbage_collector as calm_garbage_collector

CLIENTS = 16
WORTH_NAMING = 0.003
"""Seconds from which on it is noted what a callback was."""
RECALL = """query($threadId: ID!, $perPage: PerPage) { recall(threadId: $threadId, perPage: $perPage) {
    messages { id threadId resourceId role type createdAt text metadata } total } }"""
SMALL = [
    Workload("threads", THREADS, {"filter": {"resourceId": owner_id(0)}, "perPage": 20}),
    *(Workload("recall", RECALL, {"threadId": thread_id(0, number), "perPage": 10}) for number in range(3)),
]


@dataclass(frozen=True, slots=True)
class Block:
    """One callback: seconds of CPU of its thread, those of them that collected garbage, and what it was."""

    seconds: float
    collecting: float
    name: str


@dataclass(slots=True)
class Blocks:
    """Every callback of the event loop, in milliseconds, and the long ones with what they were."""

    seconds: list[float] = field(default_factory=list)
    long: list[Block] = field(default_factory=list)
    _collecting: float = 0.0
    _collection_began: float = 0.0

    def time(self, handle: Any, run: Callable[[Any], None]) -> None:
        """Run a callback and note it."""
        callback, began = handle._callback, time.thread_time()
        self._collecting = 0.0
        run(handle)
        seconds = time.thread_time() - began
        self.seconds.append(seconds)
        if seconds >= WORTH_NAMING:
            self.long.append(Block(seconds, self._collecting, name_of(callback)))

    def note_collection(self, phase: str, _: object) -> None:
        """Called by the garbage collector when it starts and stops."""
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._collection_began

    def print(self, count: int = 8) -> None:
        """How many were long, and the longest ones of each name."""
        beyond = ", ".join(
            f"{sum(each * 1e3 > limit for each in self.seconds)} beyond {limit}" for limit in (5, 10, 20)
        )
        print(f"{len(self.seconds)} callbacks, the longest {max(self.seconds) * 1e3:.1f} ms of CPU; {beyond} ms")
        named: defaultdict[str, list[Block]] = defaultdict(list)
        for block in self.long:
            named[block.name].append(block)
        print(
            f"{'longest':>9}{'its gc':>8}{'median':>8}{'times':>7}  (ms, of those from {WORTH_NAMING * 1e3:.0f} ms on)"
        )
        for name, blocks in sorted(named.items(), key=lambda item: -max(block.seconds for block in item[1]))[:count]:
            worst = max(blocks, key=lambda block: block.seconds)
            median = statistics.median(block.seconds for block in blocks)
            print(
                f"{worst.seconds * 1e3:>9.1f}{worst.collecting * 1e3:>8.1f}{median * 1e3:>8.1f}{len(blocks):>7}  {name}"
            )


def name_of(callback: object) -> str:
    """The coroutines of a task from the inside out, with the lines at which they wait; else the callback itself."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(callback)[:80]
    places: list[str] = []
    waiting: Any = task.get_coro()
    while isinstance(waiting, Coroutine):
        name, frame = getattr(waiting, "__qualname__", "?"), getattr(waiting, "cr_frame", None)
        if frame is None:
            return f"{name} to its end"
        places.append(f"{name}:{frame.f_lineno}")
        waiting = getattr(waiting, "cr_await", None)
    return " < ".join(reversed(places[-4:]))


@contextmanager
def timed_callbacks(blocks: Blocks) -> Iterator[None]:
    """Note every callback of asyncio's own event loop within the block."""
    run = asyncio.events.Handle._run

    def timed(handle: Any) -> None:
        blocks.time(handle, run)

    gc.callbacks.append(blocks.note_collection)
    try:
        with patch.object(asyncio.events.Handle, "_run", timed):
            yield
    finally:
        gc.callbacks.remove(blocks.note_collection)


async def keep_asking(caller: InProcess, number: int, waited: list[float]) -> None:
    """Small queries without end."""
    while True:
        workload = SMALL[(number + len(waited)) % len(SMALL)]
        began = time.perf_counter()
        await caller.ask(workload)
        waited.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)


async def under_load(caller: InProcess, work: Coroutine[Any, Any, None]) -> tuple[list[float], Blocks]:
    """Do some work while the clients ask; how long each of their queries waited, and how long callbacks ran."""
    waited: list[float] = []
    blocks = Blocks()
    clients = [asyncio.create_task(keep_asking(caller, number, waited)) for number in range(CLIENTS)]
    with timed_callbacks(blocks):
        await work
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return waited, blocks


async def ask_often(caller: InProcess, workload: Workload, times: int) -> None:
    """The large query, one after the other."""
    for _ in range(times):
        began = time.perf_counter()
        size = len(await caller.ask(workload))
        print(f"  {size / 1e6:.1f} MB after {time.perf_counter() - began:.1f} s", flush=True)


def show(name: str, waited: list[float], blocks: Blocks) -> None:
    """What was seen."""
    figures = [f"{percentile(waited, share) * 1e3:.0f}" for share in (0.5, 0.95, 1.0)]
    print(f"\n{name}: {len(waited)} small queries waited {' / '.join(figures)} ms (median / 95 % / longest)")
    blocks.print()


async def run(place: Place, messages: int, answers: int) -> None:
    """Load, ask, print."""
    async with AsyncMongoClient[Any](place.uri) as client:
        await load(client[place.name], Size(owners=1, threads=25, messages=40, long=messages))
    app = create_app(place.settings())
    async with running(app):
        caller = InProcess(app)
        large = Workload("all", RECALL, {"threadId": LONG_TEXT, "perPage": False})
        for workload in (large, *SMALL):
            await caller.ask(workload)
        calm_garbage_collector()
        show("Alone", *await under_load(caller, asyncio.sleep(5)))
        show(f"With {messages} messages", *await under_load(caller, ask_often(caller, large, answers)))


async def measure(messages: int, answers: int) -> None:
    """In a database of its own."""
    async with new_place() as place:
        await run(place, messages, answers)


def main() -> None:
    """Prints what was seen."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    answers = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    asyncio.run(measure(messages, answers))


if __name__ == "__main__":
    main()
