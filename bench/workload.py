"""What a load is made of: rows in a database, operations that read them, and clients that keep asking."""

import asyncio
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import httpx
from pymongo import AsyncMongoClient

from store.embedders.toy import ToyEmbedder
from store.indexes import create_indexes
from tests.zoo import message, thread

THREADS = 20
MESSAGES = 20
SEARCH = 'vectorSearchString: "text of m7", threadConfig: {semanticRecall: {topK: 4}}'
INCLUDE = 'include: [{id: "m3", withPreviousMessages: 2, withNextMessages: 2}]'
OPERATIONS = {
    "threads": '{ threads(filter: {resourceId: "res-a"}, perPage: 20) { threads { id title } total hasMore } }',
    "dashboard": "{ threads(perPage: 20) { threads { id messageCount lastMessage { text } } } }",
    "recall": '{ recall(threadId: "t0", resourceId: "res-a") { messages { id role text createdAt } total } }',
    "include": f'{{ recall(threadId: "t0", {INCLUDE}) {{ messages {{ id text }} total }} }}',
    "search": f'{{ recall(threadId: "t0", {SEARCH}) {{ matches {{ score message {{ id text }} }} }} }}',
    "filter": '{ recall(threadId: "t0", filter: {metadata: {status: "open"}}) { messages { id } total } }',
    "one": '{ thread(id: "t1") { id title } message(id: "m3") { text } }',
}


async def fill(uri: str, name: str = "mastra") -> None:
    """Twenty threads of twenty messages each, with vectors and indexes."""
    texts = [f"text of m{number}" for number in range(THREADS * MESSAGES)]
    rows = [
        message(f"m{number}", f"t{number // MESSAGES}", number, metadata={"status": "open"})
        for number in range(THREADS * MESSAGES)
    ]
    vectors = (await ToyEmbedder().embed(texts)).vectors.tolist()
    names = [{"message_id": row["id"], "thread_id": row["thread_id"], "resource_id": "res-a"} for row in rows]
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        database = client[name]
        await database.mastra_threads.insert_many([thread(f"t{number}") for number in range(THREADS)])
        await database.mastra_messages.insert_many(rows)
        await database.memory_messages_64.insert_many(
            [{"_id": f"v{place}", "embedding": vectors[place], "metadata": names[place]} for place in range(len(rows))]
        )
        await create_indexes(database)


@dataclass
class Tally:
    """What was answered: seconds by operation, and how often each code."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    codes: Counter[str] = field(default_factory=Counter)

    @property
    def slowest(self) -> float:
        """The longest that anybody waited, in seconds."""
        return max((max(taken) for taken in self.seconds.values()), default=0.0)

    def print(self, elapsed: float) -> None:
        """Requests by operation with their latencies, and the codes."""
        print(f"{'operation':<12}{'requests':>9}{'median ms':>11}{'95 % ms':>9}{'max ms':>9}")
        for name, taken in self.seconds.items():
            middle, high = statistics.median(taken), sorted(taken)[int(len(taken) * 0.95)]
            print(f"{name:<12}{len(taken):>9}{middle * 1e3:>11.1f}{high * 1e3:>9.1f}{max(taken) * 1e3:>9.1f}")
        total = sum(self.codes.values())
        print(f"{total} requests, {total / elapsed:.0f} a second; answers: {dict(self.codes)}")


async def send(client: httpx.AsyncClient, query: str) -> str:
    """Send a query; the code of its first error, OK without one, or what kept it from being answered."""
    try:
        response = await client.post("/graphql", json={"query": query})
        errors = response.json().get("errors")
        return errors[0]["extensions"]["code"] if errors else "OK"
    except (httpx.HTTPError, ValueError) as error:
        return type(error).__name__


async def keep_asking(base: str, clients: int, goes_on: Callable[[], bool], tally: Callable[[], Tally]) -> None:
    """So many clients, each of which sends all operations in turn while `goes_on` and notes the answers."""

    async def ask(start: int) -> None:
        async with httpx.AsyncClient(base_url=base, timeout=60) as client:
            for name in islice(cycle(OPERATIONS), start, None):
                if not goes_on():
                    return
                began = time.perf_counter()
                code = await send(client, OPERATIONS[name])
                noted = tally()
                noted.seconds[name].append(time.perf_counter() - began)
                noted.codes[code] += 1

    await asyncio.gather(*(ask(start) for start in range(clients)))
