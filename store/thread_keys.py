"""Targets and their neighbours from whole threads, for a server that joins ranges row by row.

MongoDB answers a look-up of neighbours by an index; the embedded server reads the whole thread for each target. There
the threads in question are put in order once, keys alone, and the windows are cut out of them.
"""

from collections.abc import Sequence
from typing import Any

from store.driver import Document, Pipeline
from store.scope import Scope
from store.source import Source
from store.targets import Target, TargetQuery, thread_stage

_KEYS = frozenset({"_id", "id", "thread_id", "createdAt", "resourceId"})


async def find_in_threads(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> list[Target]:
    """The targets of a query, of which every thread is known, with the keys of their neighbours; one command."""

    async def read() -> list[Document]:
        pipeline = to_pipeline(messages, threads, query, scope)
        found = await messages.rows(pipeline, batch_size=len(query.thread_ids) + 1)
        messages.note({"createdAt": time} for thread in found for time in thread["text_times"])
        return found

    return [
        _to_target(window["id"], window["rows"], thread["thread"], query, scope)
        for thread in await messages.with_repair(read)
        for window in thread["windows"]
    ]


def to_pipeline(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> Pipeline:
    """One row for each thread: its owner, and for each target the keys from its first neighbour to its last."""
    is_text = {"$eq": [{"$type": "$createdAt"}, "string"]}
    gathered = {
        "ids": {"$push": {"$ifNull": ["$id", None]}},
        "rows": {"$push": {name: f"${name}" for name in sorted(_KEYS | query.shown)}},
        "text_times": {"$addToSet": {"$cond": [is_text, "text", None]}},
    }
    return [
        {"$match": {"thread_id": {"$in": sorted(set(query.thread_ids.values()))}}},
        *scope.to_message_stages(),
        *messages.repair_stage(),
        {"$sort": {"createdAt": 1, "_id": 1}},
        {"$group": {"_id": "$thread_id", **gathered}},
        {"$project": {"text_times": 1, "windows": _windows(query)}},
        thread_stage(threads.name, "_id"),
    ]


def _windows(query: TargetQuery) -> dict[str, Any]:
    """For each target of a thread so many rows as its window holds, from its first neighbour on."""
    items = [
        {"id": id, "thread_id": query.thread_ids[id], "before": before, "rows": before + 1 + after}
        for id, (before, after) in query.sizes.items()
        if id in query.thread_ids
    ]
    lies_here = {"$and": [{"$eq": ["$$item.thread_id", "$_id"]}, {"$in": ["$$item.id", "$ids"]}]}
    start = {"$max": [0, {"$subtract": [{"$indexOfArray": ["$ids", "$$item.id"]}, "$$item.before"]}]}
    window = {"id": "$$item.id", "rows": {"$slice": ["$rows", start, "$$item.rows"]}}
    here = {"$filter": {"input": {"$literal": items}, "as": "item", "cond": lies_here}}
    return {"$map": {"input": here, "as": "item", "in": window}}


def _to_target(id: str, rows: Sequence[Document], thread: list[Document], query: TargetQuery, scope: Scope) -> Target:
    """A target and its neighbours. Near the beginning of a thread there are more rows after it than wanted."""
    place = next(place for place, row in enumerate(rows) if row.get("id") == id)
    before, after = query.sizes[id]
    preceding, following = rows[max(place - before, 0) : place], rows[place + 1 : place + 1 + after]
    nearest_first = [rows[place], *reversed(preceding), *following]
    return Target.from_rows(nearest_first, len(preceding), thread, scope, are_shown=bool(query.shown))
