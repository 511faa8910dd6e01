"""The indexes that serve every listing, declared as data, and the one call that creates them.

Foreign indexes are never dropped. One that starts with the same keys serves as well and is left in place;
one that stands in the way is reported and keeps nothing from being read.
"""

from dataclasses import dataclass
from typing import Any

import pymongo
import pymongo.errors

from store.collections import MESSAGES, RESOURCES, THREADS
from store.driver import Database, Document, translated_errors
from store.vectors.collections import find_collections

_EXACT = {"locale": "simple"}
"""Named where a collection has a collation of its own, which its indexes would otherwise take over."""

_IN_THE_WAY = {85, 86}
"""IndexOptionsConflict, IndexKeySpecsConflict."""
_TIMEOUT = 30.0

Keys = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a collection; `why` says which reads it serves."""

    collection: str
    keys: Keys
    why: str
    unique: bool = False

    @property
    def name(self) -> str:
        """MongoDB's default name for these keys."""
        return "_".join(f"{field}_{direction}" for field, direction in self.keys)

    @property
    def label(self) -> str:
        """The name with what is special about the index, for people."""
        return f"{self.name} (unique)" if self.unique else self.name


INDEXES: tuple[Index, ...] = (
    Index(THREADS, (("id", 1),), "one thread by its id", unique=True),
    Index(THREADS, (("resourceId", 1), ("createdAt", 1), ("_id", 1)), "threads of an owner"),
    Index(THREADS, (("resourceId", 1), ("updatedAt", 1), ("_id", 1)), "threads of an owner by last change"),
    Index(THREADS, (("createdAt", 1), ("_id", 1)), "threads of everybody"),
    Index(THREADS, (("updatedAt", 1), ("_id", 1)), "threads of everybody by last change"),
    Index(MESSAGES, (("id", 1),), "one message by its id, includes", unique=True),
    Index(MESSAGES, (("thread_id", 1), ("createdAt", 1), ("_id", 1)), "messages of a thread, windows, counts"),
    Index(MESSAGES, (("resourceId", 1), ("createdAt", 1), ("_id", 1)), "messages of an owner"),
    Index(MESSAGES, (("content.metadata.$**", 1),), "metadata of messages kept as documents"),
    Index(RESOURCES, (("id", 1),), "one resource by its id", unique=True),
)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of each declared index: it was there, was created, is missing, or could not be created."""

    present: list[Index]
    created: list[Index]
    missing: list[Index]
    refused: dict[Index, str]


async def check_indexes(database: Database, *, timeout: float = 30.0) -> IndexReport:
    """Which declared indexes are there; nothing is written. `timeout` is in seconds. Raises Unavailable."""
    with pymongo.timeout(timeout):
        return await _check(database)


async def _check(database: Database) -> IndexReport:
    declared = await _declared(database)
    present = await _present(database, declared)
    missing = [index for index in declared if index not in present]
    return IndexReport(present, [], missing, {})


async def create_indexes(database: Database) -> IndexReport:
    """Create the declared indexes that are missing; may be called again and again.

    An index that the server refuses (doubled ids, a conflict of options) is reported with the remedy.
    Raises Unavailable.
    """
    declared = await _declared(database)
    collated = await _find_collated(database, declared)
    present = await _present(database, declared)
    created: list[Index] = []
    refused: dict[Index, str] = {}
    for index in declared:
        if index in present:
            continue
        reason = await _create(database, index, is_collated=index.collection in collated)
        if reason is None:
            created.append(index)
        else:
            refused[index] = reason
    return IndexReport(present, created, list(refused), refused)


async def _declared(database: Database) -> list[Index]:
    """The indexes of the three collections, and those of the collections of vectors that there are."""
    vectors = await find_collections(database)
    return [*INDEXES, *(index for collection in vectors for index in vector_indexes(collection.name))]


async def _find_collated(database: Database, declared: list[Index]) -> set[str]:
    """The collections of these indexes that have a collation of their own."""
    names = sorted({index.collection for index in declared})
    with translated_errors(), pymongo.timeout(_TIMEOUT):
        # By name: of all collections, a reply holds only the first hundred.
        reply = await database.command("listCollections", filter={"name": {"$in": names}})
    return {entry["name"] for entry in reply["cursor"]["firstBatch"] if entry.get("options", {}).get("collation")}


def vector_indexes(collection: str) -> tuple[Index, ...]:
    """The indexes of a collection of vectors."""
    return (
        Index(collection, (("metadata.resource_id", 1),), "vectors of an owner"),
        Index(collection, (("metadata.message_id", 1),), "vectors of a message"),
    )


async def _present(database: Database, declared: list[Index]) -> list[Index]:
    existing = {name: await _existing(database, name) for name in {index.collection for index in declared}}
    return [index for index in declared if any(_serves(found, index) for found in existing[index.collection])]


async def _existing(database: Database, collection: str) -> list[Document]:
    with translated_errors(), pymongo.timeout(_TIMEOUT):
        try:
            return list((await database[collection].index_information()).values())
        except pymongo.errors.OperationFailure as error:
            if error.code == 26:  # NamespaceNotFound: nothing was written yet
                return []
            raise


def _serves(found: Document, index: Index) -> bool:
    """An index serves when it starts with the wanted keys, covers every document and compares text exactly."""
    keys = tuple((field, direction) for field, direction in found["key"])
    is_whole = not any(found.get(option) for option in ("partialFilterExpression", "sparse", "hidden"))
    is_exact = found.get("collation", _EXACT)["locale"] == _EXACT["locale"]
    is_unique = keys == index.keys and bool(found.get("unique")) if index.unique else True
    return keys[: len(index.keys)] == index.keys and is_whole and is_exact and is_unique


async def _create(database: Database, index: Index, *, is_collated: bool) -> str | None:
    """Create one index; the reason when the server refuses it."""
    options: dict[str, Any] = {"unique": True} if index.unique else {}
    if is_collated:
        options["collation"] = _EXACT
    with translated_errors():
        try:
            await database[index.collection].create_index(list(index.keys), name=index.name, **options)
            return None
        except pymongo.errors.DuplicateKeyError:
            return f"{index.collection} holds rows with the same {index.keys[0][0]}; remove the doubles"
        except pymongo.errors.OperationFailure as error:
            if error.code in _IN_THE_WAY:
                return f"an index of {index.collection} stands in the way ({error.code}); drop or rename it yourself"
            return f"the database refuses it: {(error.details or {}).get('errmsg', error)}"
