"""A look at a database as an operator needs it: server, topology, collections, indexes, what is wrong."""

from dataclasses import dataclass, field

from store.collections import MESSAGES, RESOURCES, THREADS
from store.driver import Database, translated_errors
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


async def diagnose(database: Database) -> Diagnosis:
    """Look at a database; nothing is written. Raises Unavailable."""
    with translated_errors():
        hello = await database.client.admin.command("hello")
        build = await database.client.admin.command("buildInfo")
        counts = {name: await database[name].estimated_document_count() for name in (THREADS, MESSAGES, RESOURCES)}
    indexes = await check_indexes(database)
    problems = [
        f"{index.collection}: the index {index.label} is missing ({index.why}); run: recallql indexes"
        for index in indexes.missing
    ]
    if not counts[THREADS]:
        problems.append(f"{THREADS} holds nothing; check RECALLQL_DATABASE, or import a sample with: recallql import")
    return Diagnosis(build["version"], _topology(hello), counts, indexes.present, indexes.missing, problems)


def _topology(hello: dict[str, object]) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded cluster"
    return f"replica set {hello['setName']}" if hello.get("setName") else "standalone"
