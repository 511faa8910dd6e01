"""Vector search indexes of Atlas: finding the one for vectors of a length, what stands in its way, making one.

An index is described by `$listSearchIndexes`: `latestDefinition.fields` declares the vector (`path`, `numDimensions`,
`similarity`) and the paths that a filter may name. While a changed definition is being built the old one answers, and
`statusDetail` tells which one that is, host by host.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from pymongo.errors import OperationFailure

from store.driver import Database, Document, open_cursor, translated_errors
from store.values import CODEC
from store.vectors.collections import REGISTRY, collection_name

log = logging.getLogger("recallql.store")

VECTOR_PATH = "embedding"
OWNER_PATH = "metadata.resource_id"
THREAD_PATH = "metadata.thread_id"
SIMILARITY = "cosine"
"""Only for cosine is Atlas's score (1 + cosine) / 2."""

NOT_SUPPORTED = "The database has no Atlas Search."
_NOT_PERMITTED = "The database user may not list or create search indexes."
_SEARCH_AWAY = "The search service of the database does not answer."

_UNSUPPORTED_CODES = {59, 115, 31082, 40324, 6047401}
"""CommandNotFound, CommandNotSupported, SearchNotEnabled, and the unknown stage of old and other servers."""
_PERMISSION_CODES = {13, 8000}
_NAMESPACE_EXISTS = 48
_INDEX_EXISTS = 68


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """A vector search index on `embedding`; `status` in Atlas's words, for people."""

    name: str
    collection: str
    queryable: bool
    dimensions: int
    similarity: str
    filter_paths: frozenset[str]
    status: str = "READY"

    @classmethod
    def from_document(cls, collection: str, document: Mapping[str, Any]) -> "VectorIndex | None":
        """Read an entry of `$listSearchIndexes`; None when it indexes something else, or cannot be understood.

        A filter path counts only where every definition that is in use declares it.
        """
        latest = _fields(document.get("latestDefinition"))
        vector = next((field for field in latest if _is_vector(field)), None)
        if vector is None or not isinstance(document.get("name"), str):
            return None
        in_use = [_filter_paths(fields) for fields in (latest, *_serving(document))]
        return cls(
            name=document["name"],
            collection=collection,
            queryable=document.get("queryable") is True,
            dimensions=vector["numDimensions"],
            similarity=str(vector.get("similarity")),
            filter_paths=frozenset.intersection(*in_use),
            status=str(document.get("status", "unknown")),
        )

    def obstacle(self, dimensions: int) -> str | None:
        """Why the index cannot serve vectors of this length, as a sentence; None when it can."""
        named = f"The vector search index {self.name} of {self.collection}"
        if self.dimensions != dimensions:
            return f"{named} is for {self.dimensions} numbers, but the embedder gives {dimensions}."
        if self.similarity != SIMILARITY:
            return f"{named} compares by {self.similarity}; scores are defined for {SIMILARITY} alone."
        if not self.queryable:
            return f"{named} cannot be queried: its status is {self.status}."
        return None


@dataclass(frozen=True, slots=True)
class IndexProbe:
    """What was found out about the index for vectors of a length.

    `obstacle` says in a sentence why Atlas cannot answer, and is None when `index` can be used. An index may have
    been found all the same. `is_supported` is False for servers without Atlas Search, where asking again is no use.
    """

    index: VectorIndex | None
    obstacle: str | None = None

    @property
    def is_supported(self) -> bool:
        """Whether the server has search indexes at all."""
        return self.obstacle != NOT_SUPPORTED


async def find_vector_index(database: Database, dimensions: int, name: str | None = None) -> VectorIndex | None:
    """The index that Atlas would use for vectors of this length, ready or not; None where there is none.

    See `probe_vector_index` for the order in which it is looked for, and for the reason where there is none.
    Raises Unavailable.
    """
    return (await probe_vector_index(database, dimensions, name)).index


async def probe_vector_index(
    database: Database, dimensions: int, name: str | None = None, *, timeout: float = 5.0
) -> IndexProbe:
    """Look for the index for vectors of this length, in at most two commands.

    Only the one called `name` if that is given. Else, of those that can be used, the one that Mastra's registry
    names, `<collection>_vector_index`, or any other on `embedding`. Where none can be used, the first of them in the
    same order, with what stands in its way. Raises Unavailable when the database does not answer within `timeout`
    seconds; a server without search is no error.
    """
    with translated_errors(), pymongo.timeout(timeout):
        entry = await _registered(database, dimensions)
        collection = _text(entry.get("collectionName")) or collection_name(dimensions)
        documents, refusal = await _list(database, collection)
    if refusal is not None:
        return IndexProbe(None, refusal)
    found = (VectorIndex.from_document(collection, document) for document in documents)
    preferred = [_text(entry.get("searchIndexName")), default_index_name(dimensions)]
    index = choose([index for index in found if index is not None], dimensions, preferred, name)
    if index is None:
        called = "" if name is None else f" called {name}"
        return IndexProbe(None, f"{collection} has no vector search index on {VECTOR_PATH}{called}.")
    return IndexProbe(index, index.obstacle(dimensions))


def choose(
    indexes: Iterable[VectorIndex], dimensions: int, preferred: Sequence[str | None], name: str | None = None
) -> VectorIndex | None:
    """The index to use: the one called `name`, or else the first in order of use, preference, and name."""
    if name is not None:
        return next((index for index in indexes if index.name == name), None)

    def rank(index: VectorIndex) -> tuple[bool, int, str]:
        place = preferred.index(index.name) if index.name in preferred else len(preferred)
        return index.obstacle(dimensions) is not None, place, index.name

    return min(indexes, key=rank, default=None)


def default_index_name(dimensions: int) -> str:
    """What Mastra calls the index for vectors of this length."""
    return f"{collection_name(dimensions)}_vector_index"


def index_definition(dimensions: int) -> Document:
    """The definition of an index for vectors of this length that serves both scopes."""
    vector = {"type": "vector", "path": VECTOR_PATH, "numDimensions": dimensions, "similarity": SIMILARITY}
    filters = [{"type": "filter", "path": path} for path in (OWNER_PATH, THREAD_PATH)]
    return {"fields": [vector, *filters]}


async def create_vector_index(database: Database, dimensions: int) -> str | None:
    """Create the index for vectors of this length, and their collection; the reason when it is refused, else None.

    May be called again and again. An index of the same name is never changed: if it has another definition, that
    is the reason. A new index takes a while to become ready. Raises Unavailable.
    """
    collection, name = collection_name(dimensions), default_index_name(dimensions)
    index = {"name": name, "type": "vectorSearch", "definition": index_definition(dimensions)}
    with translated_errors():
        await _ensure_collection(database, collection)
        try:
            await database.command({"createSearchIndexes": collection, "indexes": [index]})
            return None
        except OperationFailure as error:
            if error.code == _INDEX_EXISTS:
                return f"{collection} has an index {name} with another definition; change or drop it yourself."
            return _refusal(error)


async def _ensure_collection(database: Database, collection: str) -> None:
    try:
        await database.create_collection(collection, check_exists=False)
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise


async def _registered(database: Database, dimensions: int) -> Document:
    """What Mastra's registry says of the index for this length; an empty document when it knows none."""
    registry = database.get_collection(REGISTRY, codec_options=CODEC)
    entry: Document | None = await registry.find_one({"_id": collection_name(dimensions)})
    return entry or {}


async def _list(database: Database, collection: str) -> tuple[list[Document], str | None]:
    """The search indexes of a collection, or why they cannot be listed."""
    source = database.get_collection(collection, codec_options=CODEC)
    try:
        cursor = await open_cursor(source, [{"$listSearchIndexes": {}}])
        return await cursor.to_list(None), None
    except OperationFailure as error:
        return [], _refusal(error)


def _refusal(error: OperationFailure) -> str:
    """The sentence for a refused search command. Raises the error itself when it is a matter of time."""
    if error.timeout:
        raise error
    text = str(error)
    if error.code in _PERMISSION_CODES:
        return _NOT_PERMITTED
    if error.code in _UNSUPPORTED_CODES or "Atlas" in text or "$listSearchIndexes" in text:
        return NOT_SUPPORTED
    log.warning("the search indexes cannot be managed (code %s)", error.code, exc_info=error)
    return _SEARCH_AWAY


def _fields(definition: object) -> list[Document]:
    fields = definition.get("fields") if isinstance(definition, Mapping) else None
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _is_vector(field: Mapping[str, Any]) -> bool:
    is_ours = field.get("type") == "vector" and field.get("path") == VECTOR_PATH
    return is_ours and isinstance(field.get("numDimensions"), int)


def _filter_paths(fields: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(str(field.get("path")) for field in fields if field.get("type") == "filter")


def _serving(document: Mapping[str, Any]) -> Iterator[list[Document]]:
    """The fields of the definitions that answer queries now, where the server tells."""
    hosts = document.get("statusDetail")
    for host in hosts if isinstance(hosts, list) else []:
        main = host.get("mainIndex") if isinstance(host, Mapping) else None
        fields = _fields(main.get("definition")) if isinstance(main, Mapping) else []
        if fields:
            yield fields


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
