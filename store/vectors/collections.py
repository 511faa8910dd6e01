"""Where vectors are kept: one collection for each length, named as Mastra's memory names it."""

import re
from dataclasses import dataclass

from store.driver import Database, Document, translated_errors

DEFAULT_DIMENSIONS = 1536
REGISTRY = "__mastra_vector_indexes__"
_NAME = re.compile(r"memory_messages(?:_(\d+))?")


def collection_name(dimensions: int) -> str:
    """The collection of vectors of this length: `memory_messages` for 1536 numbers, else with the number."""
    return "memory_messages" if dimensions == DEFAULT_DIMENSIONS else f"memory_messages_{dimensions}"


@dataclass(frozen=True, slots=True)
class VectorCollection:
    """A collection of vectors, and how many numbers its name promises."""

    name: str
    dimensions: int


async def find_collections(database: Database) -> list[VectorCollection]:
    """All collections of vectors that the database has. Raises Unavailable."""
    with translated_errors():
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


async def find_other_length(database: Database, dimensions: int) -> int | None:
    """The length of any stored vector that has not `dimensions` numbers, or None. Raises Unavailable."""
    for collection in await find_collections(database):
        with translated_errors():
            row: Document | None = await database[collection.name].find_one(
                {"embedding": {"$exists": True}}, {"embedding": 1}
            )
        length = len(row["embedding"]) if row and isinstance(row["embedding"], list) else collection.dimensions
        if row is not None and length != dimensions:
            return length
    return None
