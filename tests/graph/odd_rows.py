"""A database of the sample conversations and of rows that nobody should have written, and what to ask of it."""

import json
from datetime import timedelta
from typing import Any

from bson import Binary, Decimal128, Int64, MaxKey, ObjectId, Regex

from store.embedders.toy import ToyEmbedder
from store.slices import SLICE
from tests.graph.documents import Arguments
from tests.zoo import NOON, fill, load_sample, message, thread

CONTENTS: dict[str, Any] = {
    "words": "plain words",
    "nothing": None,
    "empty": "",
    "broken JSON": '{"format": 2, "parts": [',
    "a list": '[{"type": "text", "text": "in a list"}]',
    "numbers": json.dumps(
        {"format": 2, "parts": [], "metadata": {"nan": float("nan"), "large": 10**400, "big": 2**63}}
    ),
    "a surrogate": '{"format": 2, "parts": [{"type": "text", "text": "\\ud800"}]}',
    "a document": {"format": 2, "parts": [{"type": "text", "text": "a document"}], "metadata": {"nan": float("nan")}},
    "every type": {
        "metadata": {"id": ObjectId(), "price": Decimal128("1.10"), "raw": Binary(b"\x00\xff"), "to": MaxKey()}
    },
    "dates": {"metadata": {"far": NOON, "near": NOON, "pattern": Regex("a+"), "long": Int64(2**62)}},
    "a document in a list": [{"type": "text", "text": "listed"}, 7, None],
    "deep text": "[" * 300 + "]" * 300,
    "deep document": {"parts": [{"a": {"b": {"c": {"d": [[[[1]]]]}}}}], "metadata": "no object"},
    "parts of no kind": {
        "format": 2,
        "parts": [None, 1, "text", {"type": 5}, {"text": ["no", "text"]}],
        "metadata": [],
    },
    "a number": 3.5,
    "infinity": float("inf"),
}
TIMES: list[Any] = [None, "2024-03-10T12:00:00+02:00", "yesterday", "0001-01-01T00:00:00Z", 5, NOON]


def odd_messages() -> list[dict[str, Any]]:
    """Messages of the threads `odd` (contents, missing fields, doubled ids) and `times`."""
    by_content = [
        message(f"odd {name}", "odd", number, content=stored) for number, (name, stored) in enumerate(CONTENTS.items())
    ]
    bare = {"thread_id": "odd", "createdAt": NOON}
    doubled = [message("doubled", "odd", number, text=f"double {number}") for number in (30, 31)]
    typed = message("typed", "odd", 40, role=7, type=["v2"], resourceId=ObjectId())
    by_time = [message(f"time {number}", "times", createdAt=time) for number, time in enumerate(TIMES)]
    return [*by_content, bare, bare | {"id": 5, "role": None}, *doubled, typed, *by_time]


def odd_threads() -> list[dict[str, Any]]:
    """Threads whose fields are missing, of other types, or told twice."""
    return [
        thread("odd", metadata='{"status": "closed"}', title=5),
        thread("odd", "res-b", title=None),
        thread("times", metadata=None, createdAt=None, updatedAt=True),
        {"id": "bare"},
        thread("long", metadata={"workingMemory": "of the thread", "nan": float("nan"), "status": "closed"}),
    ]


def long_thread() -> list[dict[str, Any]]:
    """A thread that is completed in slices; one of its messages is odd."""
    rows = [message(f"long {number}", "long", number) for number in range(SLICE + 20)]
    rows[SLICE + 3] |= {"role": None, "createdAt": None}
    return rows


async def vectors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Vectors of messages, as Mastra stores them."""
    embedded = await ToyEmbedder().embed([str(row["content"]) for row in rows])
    return [
        {
            "_id": f"vector of {row['id']}",
            "embedding": vector.tolist(),
            "metadata": {"message_id": row["id"], "thread_id": row["thread_id"], "resource_id": row["resourceId"]},
        }
        for row, vector in zip(rows, embedded.vectors, strict=True)
    ]


async def fill_with_odd_rows(database: Any) -> None:
    """The sample and the odd rows, with vectors for the messages of one owner."""
    await load_sample(database)
    for name in ("mastra_threads", "mastra_messages", "mastra_resources"):
        # Ids may be told twice only where no index forbids it.
        await database[name].drop_indexes()
    later = [row | {"createdAt": row["createdAt"] + timedelta(days=1)} for row in long_thread() if row["createdAt"]]
    await fill(database, threads=odd_threads(), messages=[*odd_messages(), *later])
    await database.mastra_resources.insert_many([{"id": "res-a", "metadata": 5}, {"id": "res-b", "createdAt": "never"}])
    of_owner = await database.mastra_messages.find({"resourceId": "customer-ana"}).to_list(None)
    await database.memory_messages_64.insert_many(await vectors(of_owner))


SEARCH = 'vectorSearchString: "a broken teapot", threadConfig: {semanticRecall: {topK: 3, messageRange: 1}}'

ARGUMENTS: Arguments = {
    ("Query", "threads"): (
        "",
        "perPage: $few",
        'filter: {resourceId: "customer-ana"}, orderBy: {field: updatedAt, direction: ASC}',
        "filter: {metadata: {status: $status}}",
        "page: 1, perPage: 3",
        'filter: {resourceId: "res-a"}',
        "perPage: 0",
        'filter: {resourceId: " "}',
    ),
    ("Query", "thread"): ('id: "thread-parcel"', 'id: "odd"', 'id: "long"', 'id: "times"', "id: $nothing", 'id: ""'),
    ("Query", "message"): ('id: "parcel-12"', 'id: "odd every type"', 'id: "doubled"', 'id: "time 2"', "id: $nothing"),
    ("Query", "resource"): ('id: "customer-ana"', 'id: "res-b"', "id: $nothing"),
    ("Query", "recall"): (
        'threadId: "thread-parcel"',
        'threadId: "odd", perPage: false',
        'threadId: "long", perPage: false, orderBy: {direction: ASC}',
        'threadId: "times", perPage: $few, page: 1',
        f'threadId: "thread-parcel", perPage: 2, {SEARCH}',
        f'threadId: "thread-gifts", perPage: 0, resourceId: "customer-ana", {SEARCH}',
        'threadId: "odd", perPage: 2, include: [{id: "doubled", withPreviousMessages: 2, withNextMessages: $few_rows}]',
        'threadId: "thread-parcel", filter: {metadata: {channel: "mobile"}}',
        'threadId: "thread-parcel", resourceId: "res-a"',
        "threadId: $nothing",
    ),
    ("Thread", "messages"): ("", "perPage: $few", "perPage: 3, page: 1, orderBy: {direction: ASC}", "perPage: 5000"),
}
"""What is asked of each field; each has arguments that are refused, too."""
VARIABLES: dict[str, tuple[str, Any]] = {
    "few": ("PerPage", 4),
    "few_rows": ("Int", 2),
    "status": ("String!", "closed"),
    "nothing": ("ID!", "nothing"),
}
"""The variables that stand in `ARGUMENTS`: their types and values."""
