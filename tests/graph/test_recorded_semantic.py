"""Recall by meaning as Mastra documents and does it: its own example, and recorded calls of the real library.

Each recorded call holds the vector that the library searched with; the stored vectors are those that it wrote.
"""

import json
from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import pytest

from tests.graph.semantic import KnownTexts, Place, Row, found, search, serving_embedder
from tests.store.vectors.test_engines import row
from tests.zoo import DATA, Client, ids, load_dump, message, thread

CALLS: list[Row] = [call for call in json.loads((DATA / "recorded.json").read_text()) if "queryVector" in call]
WRITTEN: list[Row] = [json.loads(line) for line in (DATA / "memory_messages_256.jsonl").read_text().splitlines()]


@pytest.fixture
async def client(plain_place: Place) -> AsyncIterator[Client]:
    """The application over what the library wrote, with an embedder that gives the library's vectors."""
    await load_dump(plain_place.database)
    await plain_place.fill(vectors=[dict(row) for row in WRITTEN], collection="memory_messages_256", dimensions=256)
    known = KnownTexts({call["args"]["vectorSearchString"]: call["queryVector"] for call in CALLS})
    async with serving_embedder(plain_place.database, known, plain_place.engine) as client:
        yield client


async def test_the_library_and_the_api_find_the_same(client: Client) -> None:
    """The library neither counts an empty page nor orders what it adds; all else is equal."""
    for call in CALLS:
        result = await search(client, **({"perPage": None, "threadConfig": None} | call["args"]))
        assert sorted(ids(result["messages"]).split()) == sorted(call["ids"]), call["args"]
        assert (result["page"], result["perPage"]) == (call["page"], call["perPage"])
        if call["perPage"]:
            assert (result["total"], result["hasMore"]) == (call["total"], call["hasMore"]), call["args"]
    assert len(CALLS) >= 6


async def test_what_the_library_found_are_the_matches_and_their_neighbours(client: Client) -> None:
    for call in CALLS:
        result = await search(client, **({"perPage": None, "threadConfig": None} | call["args"]) | {"perPage": 0})
        semantic = call["args"]["threadConfig"]["semanticRecall"]
        assert 0 < len(result["matches"]) <= semantic["topK"]
        told = chain.from_iterable([m["message"], *m["before"], *m["after"]] for m in result["matches"])
        assert {row["id"] for row in told} == set(ids(result["messages"]).split())


# The extended example of the reference page of `Memory.recall()`
EXAMPLE: dict[str, Any] = {
    "threadId": "thread-123",
    "perPage": 50,
    "vectorSearchString": "What messages are there?",
    "include": [
        {"id": "msg-123"},
        {"id": "msg-456", "withPreviousMessages": 3, "withNextMessages": 1},
    ],
    "threadConfig": {"semanticRecall": True},
}


async def test_the_example_of_the_documentation_works_as_it_stands(plain_place: Place) -> None:
    """The newest 50, both included messages with their windows, and four matches with two neighbours on each side."""
    matched = ("msg-115", "msg-123", "msg-445", "other-5")
    await plain_place.fill(
        threads=[thread("thread-123"), thread("thread-9")],
        messages=[message(f"msg-{n}", "thread-123", n) for n in (*range(110, 131), *range(440, 521))]
        + [message(f"other-{n}", "thread-9", n) for n in range(1, 10)],
        vectors=[
            *(row(id, 0.9, thread="thread-9" if id == "other-5" else "thread-123") for id in matched),
            *(row(f"msg-{n}", 0.1, thread="thread-123") for n in range(500, 520)),
        ],
    )
    embedder = KnownTexts({EXAMPLE["vectorSearchString"]: (1.0, 0.0, 0.0, 0.0)})
    async with serving_embedder(plain_place.database, embedder, plain_place.engine) as client:
        result = await search(client, **EXAMPLE)
    windows = chain(range(113, 118), range(121, 126), range(443, 448), range(453, 458), range(471, 521))
    expected = {*(f"msg-{n}" for n in windows), *(f"other-{n}" for n in range(3, 8))}
    assert sorted(ids(result["messages"]).split()) == sorted(expected)
    assert sorted(found(result).split()) == sorted(matched)
    assert (result["total"], result["perPage"], result["hasMore"]) == (102, 50, True)
