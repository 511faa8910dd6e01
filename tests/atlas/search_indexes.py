"""The search indexes of the emulated server: kept in memory, ready at once, or in whatever state a test wants."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from bson import ObjectId

from tests.atlas.neighbours import SCORES

MAX_DIMENSIONS = 8192

Key = tuple[str, str, str]
"""Database, collection, name of the index."""


class InvalidIndex(Exception):
    """The definition of an index is refused; the text says why."""


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """An index: the newest definition, the one that answers queries, and its state as Atlas names it."""

    name: str
    type: str
    latest: Mapping[str, Any]
    serving: Mapping[str, Any]
    status: str = "READY"
    queryable: bool = True
    version: int = 0
    id: ObjectId = field(default_factory=ObjectId)

    def to_document(self) -> dict[str, Any]:
        """As `$listSearchIndexes` gives it."""
        version = {"version": self.version, "createdAt": datetime.now(UTC)}
        main = {
            "status": "READY" if self.queryable else self.status,
            "queryable": self.queryable,
            "definitionVersion": version,
            "definition": dict(self.serving),
        }
        host = {"hostname": "emulated", "status": self.status, "queryable": self.queryable, "mainIndex": main}
        return {
            "id": str(self.id),
            "name": self.name,
            "type": self.type,
            "status": self.status,
            "queryable": self.queryable,
            "latestDefinitionVersion": version,
            "latestDefinition": dict(self.latest),
            "statusDetail": [host],
        }


class SearchIndexes:
    """All indexes of the server; may be used by several connections at once."""

    def __init__(self) -> None:
        self._indexes: dict[Key, SearchIndex] = {}
        self._lock = threading.Lock()

    def find(self, key: Key) -> SearchIndex | None:
        """The index of that key."""
        with self._lock:
            return self._indexes.get(key)

    def of_collection(self, database: str, collection: str) -> list[SearchIndex]:
        """All indexes of a collection."""
        with self._lock:
            return [index for key, index in self._indexes.items() if key[:2] == (database, collection)]

    def create(self, key: Key, kind: str, definition: Mapping[str, Any]) -> SearchIndex:
        """Make an index; one that is there already with this definition is given as it is. Raises InvalidIndex."""
        check_definition(kind, definition)
        with self._lock:
            present = self._indexes.get(key)
            if present is not None and present.latest != definition:
                raise InvalidIndex(
                    f"Index {key[2]} already exists with a different definition. Drop it first if needed."
                )
            return self._indexes.setdefault(key, SearchIndex(key[2], kind, definition, definition))

    def update(self, key: Key, definition: Mapping[str, Any]) -> bool:
        """Give an index a new definition: the old one answers until the index is set to READY."""
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                return False
            check_definition(index.type, definition)
            self._indexes[key] = replace(index, latest=definition, status="BUILDING", version=index.version + 1)
            return True

    def set_state(self, key: Key, status: str, queryable: bool) -> bool:
        """Put an index into a state; READY makes the newest definition the one that answers."""
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                return False
            serving = index.latest if status == "READY" else index.serving
            self._indexes[key] = replace(index, status=status, queryable=queryable, serving=serving)
            return True

    def drop(self, database: str, collection: str | None = None, name: str | None = None) -> bool:
        """Remove the indexes of a database, of a collection, or one by its name."""
        wanted = tuple(part for part in (database, collection, name) if part is not None)
        with self._lock:
            keys = [key for key in self._indexes if key[: len(wanted)] == wanted]
            for key in keys:
                del self._indexes[key]
            return bool(keys)


def check_definition(kind: str, definition: Mapping[str, Any]) -> None:
    """Raises InvalidIndex for a definition that Atlas would not take."""
    if kind != "vectorSearch":
        return
    fields = definition.get("fields")
    if not isinstance(fields, list) or not fields:
        raise InvalidIndex('"definition.fields" cannot be empty')
    for declared in fields:
        if not isinstance(declared.get("path"), str):
            raise InvalidIndex('"definition.fields.path" is required')
        if declared.get("type") == "vector":
            _check_vector(declared)
        elif declared.get("type") != "filter":
            raise InvalidIndex('"definition.fields.type" must be one of [filter, vector]')


def _check_vector(declared: Mapping[str, Any]) -> None:
    dimensions = declared.get("numDimensions")
    if not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise InvalidIndex(f'"numDimensions" must be within bounds [1, {MAX_DIMENSIONS}]')
    if declared.get("similarity") not in SCORES:
        raise InvalidIndex(f'"similarity" must be one of {sorted(SCORES)}')
