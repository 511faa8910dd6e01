"""The database that is measured: owners with threads, two long threads, and a vector for every message of an owner."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np

from store.driver import Database
from store.indexes import create_indexes

DIMENSIONS = 256
LONG_TEXT, LONG_DOCUMENTS = "long-text", "long-documents"
"""The long threads: their content as text that holds JSON, and as documents."""
LONG_OWNER = "owner-long"
TOPICS = 100
"""Every message is about one of so many topics, by turns: a filter by topic matches one in a hundred."""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH = 1000
_SAID = """
the order was sent on Monday but the parcel came back because nobody opened the door so we ask the courier to
try again in the afternoon and keep the refund open until the teapot stands whole on your kitchen table
"""
_WORDS = _SAID.split()


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is: owners, threads of each, messages of each of these, and messages of a long thread."""

    owners: int
    threads: int
    messages: int
    long: int


FULL = Size(owners=20, threads=25, messages=40, long=10_000)
QUICK = Size(owners=4, threads=25, messages=40, long=2_000)


def owner_id(owner: int) -> str:
    """The id of an owner by its number."""
    return f"owner-{owner:03}"


def thread_id(owner: int, thread: int) -> str:
    """The id of a thread by its owner's number and its own."""
    return f"thread-{owner:03}-{thread:03}"


def message_id(thread: str, number: int) -> str:
    """The id of a message by its thread and its number there."""
    return f"{thread}-message-{number:05}"


def message_time(number: int) -> datetime:
    """When a message was created: a minute after the one before."""
    return _START + timedelta(minutes=number)


def sentence(number: int) -> str:
    """Forty to a hundred words, others for each number."""
    count = 40 + number * 7 % 60
    return " ".join(_WORDS[(number + step * (1 + number % 5)) % len(_WORDS)] for step in range(count))


def content(number: int) -> dict[str, Any]:
    """Content of format 2; every fifth message holds a tool call beside its text."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": sentence(number)}]
    if number % 5 == 0:
        call = {"state": "result", "toolCallId": f"call-{number}", "toolName": "track", "args": {"order": number}}
        parts.insert(0, {"type": "tool-invocation", "toolInvocation": call | {"result": {"status": "returned"}}})
    metadata = {"topic": f"topic-{number % TOPICS}", "channel": "web", "confidence": 0.5, "reviewed": number % 2 == 0}
    return {"format": 2, "parts": parts, "metadata": metadata}


def messages(thread: str, owner: str, count: int, *, as_text: bool = True) -> Iterator[dict[str, Any]]:
    """The messages of a thread, a minute apart, as Mastra writes them or with their content as documents."""
    for number in range(count):
        held = content(number)
        yield {
            "id": message_id(thread, number),
            "thread_id": thread,
            "resourceId": owner,
            "role": "assistant" if number % 2 else "user",
            "type": "v2",
            "createdAt": message_time(number),
            "content": json.dumps(held, separators=(",", ":")) if as_text else held,
        }


def thread(id: str, owner: str, day: int) -> dict[str, Any]:
    """A thread, the day in which it was created and last changed being that of its number."""
    time = _START + timedelta(days=day)
    metadata = {"status": "open" if day % 3 else "closed", "priority": day % 5, "tags": ["parcel", "teapot"]}
    fields = {"title": f"Conversation {id}", "metadata": metadata, "createdAt": time, "updatedAt": time}
    return {"id": id, "resourceId": owner} | fields


def vectors(rows: Iterable[dict[str, Any]], generator: np.random.Generator) -> Iterator[dict[str, Any]]:
    """A random vector for each message, as arrays of doubles."""
    for row in rows:
        names = {"message_id": row["id"], "thread_id": row["thread_id"], "resource_id": row["resourceId"]}
        numbers = generator.standard_normal(DIMENSIONS, dtype=np.float32).tolist()
        yield {"_id": f"vector-{row['id']}", "embedding": numbers, "metadata": names}


async def load(database: Database, size: Size) -> None:
    """Fill an empty database and create its indexes."""
    owners = range(size.owners)
    small = [(owner_id(owner), thread_id(owner, number)) for owner in owners for number in range(size.threads)]
    threads = [thread(id, owner, day) for day, (owner, id) in enumerate(small)]
    long = [thread(id, LONG_OWNER, day) for day, id in enumerate((LONG_TEXT, LONG_DOCUMENTS))]
    resources = [{"id": owner_id(owner), "workingMemory": "prefers tea", "metadata": {}} for owner in owners]
    await _insert(database.mastra_threads, [*threads, *long])
    await _insert(database.mastra_resources, resources)
    generator = np.random.default_rng(7)
    for owner, id in small:
        rows = list(messages(id, owner, size.messages))
        await _insert(database.mastra_messages, rows)
        await _insert(database[f"memory_messages_{DIMENSIONS}"], vectors(rows, generator))
    for id in (LONG_TEXT, LONG_DOCUMENTS):
        rows_of_long = messages(id, LONG_OWNER, size.long, as_text=id == LONG_TEXT)
        await _insert(database.mastra_messages, rows_of_long)
    await create_indexes(database)


async def _insert(collection: Any, rows: Iterable[dict[str, Any]]) -> None:
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH)):
        await collection.insert_many(batch, ordered=False)
