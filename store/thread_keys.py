"""Targets and their neighbours from the keys of whole threads, for a server that joins ranges row by row.

MongoDB answers a look-up of neighbours by an index; the embedded server reads the whole thread for each target. There
the threads in question are read once, keys alone, and the windows are cut here.
"""

from collections.abc import Sequence
from typing import Any

from store.driver import Document, Pipeline
from store.messages import Message
from store.scope import Scope
from store.source import Source
from store.targets import Target, TargetQuery, thread_stage

_KEYS = ("_id", "id", "createdAt", "resourceId")


async def find_in_threads(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> list[Target]:
    """The targets of a query, of which every thread is known, with the keys of their neighbours; one command."""
    ids = sorted(set(query.thread_ids.values()))

    async def read() -> list[Document]:
        rows = await messages.rows(to_pipeline(messages, threads, ids, scope), batch_size=len(ids) + 1)
        messages.note(row for thread in rows for row in thread["rows"])
        return rows

    found = await messages.with_repair(read)
    return [target for thread in found for target in _targets(thread, query, scope)]


def to_pipeline(messages: Source, threads: Source, thread_ids: list[str], scope: Scope) -> Pipeline:
    """One row for each thread: the keys of its messages in order, and its owner."""
    keys: dict[str, Any] = {name: f"${name}" for name in _KEYS}
    return [
        {"$match": {"thread_id": {"$in": thread_ids}}},
        *scope.to_message_stages(),
        *messages.repair_stage(),
        {"$sort": {"createdAt": 1, "_id": 1}},
        {"$group": {"_id": "$thread_id", "rows": {"$push": keys}}},
        thread_stage(threads.name, "_id"),
    ]


def _targets(thread: Document, query: TargetQuery, scope: Scope) -> list[Target]:
    rows: Sequence[Document] = thread["rows"]
    targets = []
    for place, row in enumerate(rows):
        size = query.sizes.get(row.get("id", ""))
        if size is None or query.thread_ids[row["id"]] != thread["_id"]:
            continue
        before, after = rows[max(place - size[0], 0) : place], rows[place + 1 : place + 1 + size[1]]
        targets.append(
            Target.from_row(
                Message.from_document(row | {"thread_id": thread["_id"]}, scope),
                thread["thread"],
                [neighbour["_id"] for neighbour in reversed(before)],
                [neighbour["_id"] for neighbour in after],
            )
        )
    return targets
