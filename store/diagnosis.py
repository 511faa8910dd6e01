"""A look at a database as an operator needs it: server, topology, collections, indexes, what is wrong."""

from dataclasses import dataclass, field

import pymongo
from pymongo.errors import OperationFailure

from store.collections import MESSAGES, RESOURCES, THREADS
from store.driver import Database, Pipeline, open_cursor, translated_errors
from store.indexes import Index, check_indexes


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found; `problems` are sentences that each say what to do."""

    version: str
    topology: str
    counts: dict[str, int]
    present: list[Index]
    missing: list[Index]
    problems: list[str] = field(default_factory=list)


_NEEDED: Pipeline = [
    {"$limit": 1},
    {"$lookup": {"from": THREADS, "localField": "thread_id", "foreignField": "id", "pipeline": [], "as": "thread"}},
    {"$group": {"_id": None, "least": {"$min": "$_id"}, "rows": {"$push": {"$cond": [True, 1, 0]}}}},
]
"""What includes, counts and filters are made of, and what some servers that speak MongoDB's protocol lack."""


async def diagnose(database: Database, *, timeout: float = 30.0) -> Diagnosis:
    """Look at a database; nothing is written. `timeout` is in seconds. Raises Unavailable."""
    with translated_errors(), pymongo.timeout(timeout):
        hello = await database.client.admin.command("hello")
        build = await database.client.admin.command("buildInfo")
        counts = {name: await database[name].estimated_document_count() for name in (THREADS, MESSAGES, RESOURCES)}
        lack = await _find_lack(database)
    indexes = await check_indexes(database, timeout=timeout)
    problems = [
        f"{index.collection}: the index {index.label} is missing ({index.why}); run: recallql indexes"
        for index in indexes.missing
    ]
    if not counts[THREADS]:
        problems.append(f"{THREADS} holds nothing; check RECALLQL_DATABASE, or import a sample with: recallql import")
    if lack:
        problems.append(f"the server lacks what includes, counts and filters need: {lack}")
    return Diagnosis(build["version"], _topology(hello), counts, indexes.present, indexes.missing, problems)


async def _find_lack(database: Database) -> str | None:
    """What the server says to a pipeline of everything that is needed; None when it can do it."""
    try:
        cursor = await open_cursor(database[MESSAGES], _NEEDED)
        await cursor.to_list(None)
    except OperationFailure as error:
        if error.timeout:
            raise
        return str((error.details or {}).get("errmsg", error))
    return None


def _topology(hello: dict[str, object]) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded cluster"
    return f"replica set {hello['setName']}" if hello.get("setName") else "standalone"
