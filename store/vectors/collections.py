"""Where vectors are kept: one collection for each length, named as Mastra's memory names it."""

import re
from dataclasses import dataclass

import pymongo

from store.driver import Database, Document, translated_errors
from store.errors import EmbeddingMismatch

DEFAULT_DIMENSIONS = 1536
REGISTRY = "__mastra_vector_indexes__"
_TIMEOUT = 30.0
_NAME = re.compile(r"memory_messages(?:_(\d+))?")


def collection_name(dimensions: int) -> str:
    """The collection of vectors of this length: `memory_messages` for 1536 numbers, else with the number."""
    return "memory_messages" if dimensions == DEFAULT_DIMENSIONS else f"memory_messages_{dimensions}"


@dataclass(frozen=True, slots=True)
class VectorCollection:
    """A collection of vectors, and how many numbers its name promises."""

    name: str
    dimensions: int


async def find_collections(database: Database, *, timeout: float = _TIMEOUT) -> list[VectorCollection]:
    """All collections of vectors that the database has. `timeout` is in seconds. Raises Unavailable."""
    with translated_errors(), pymongo.timeout(timeout):
        reply = await database.command(
            "listCollections", filter={"name": {"$regex": "^memory_messages"}}, nameOnly=True
        )
    names = [entry["name"] for entry in reply["cursor"]["firstBatch"]]
    matched = [(name, _NAME.fullmatch(name)) for name in sorted(names)]
    return [
        VectorCollection(name, int(found.group(1) or DEFAULT_DIMENSIONS))
        for name, found in matched
        if found is not None
    ]


async def check_lengths(database: Database, dimensions: int, owner: str, *, timeout: float = _TIMEOUT) -> None:
    """Raises EmbeddingMismatch when an owner without vectors of this length has some of another, or nobody has any
    of this length but others are stored: the wrong model is asked, and an empty answer would hide that.

    `timeout` bounds each command, in seconds. Raises Unavailable.
    """
    other = await find_other_length(database, dimensions, {"metadata.resource_id": owner}, timeout=timeout)
    if other is None:
        with translated_errors(), pymongo.timeout(timeout):
            row = await database[collection_name(dimensions)].find_one({"embedding": {"$exists": True}}, {"_id": 1})
        other = None if row else await find_other_length(database, dimensions, {}, timeout=timeout)
    if other is not None:
        raise mismatch(other, dimensions)


def mismatch(stored: int, dimensions: int) -> EmbeddingMismatch:
    """The error that names both lengths."""
    return EmbeddingMismatch(
        f"The stored vectors have {stored} numbers, but the embedder gives {dimensions}: they cannot be compared. "
        "Use the model that wrote them, or embed the messages again with: recallql embed"
    )


async def find_other_length(
    database: Database, dimensions: int, scope: dict[str, object], *, timeout: float = _TIMEOUT
) -> int | None:
    """The length of any stored vector in a scope that has not `dimensions` numbers, or None. Raises Unavailable."""
    for collection in await find_collections(database, timeout=timeout):
        with translated_errors(), pymongo.timeout(timeout):
            row: Document | None = await database[collection.name].find_one(
                scope | {"embedding": {"$exists": True}}, {"embedding": 1}
            )
        length = len(row["embedding"]) if row and isinstance(row["embedding"], list) else collection.dimensions
        if row is not None and length != dimensions:
            return length
    return None
