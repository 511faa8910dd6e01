"""The emulated server: the embedded one, with the stages and commands of Atlas Search added to its tables.

Run as a process of its own: `python -m tests.atlas.server`. It listens on 127.0.0.1, announces its port as one line
of JSON on standard output, and ends when its standard input does. Beyond Atlas it knows one command, for tests:
`{setSearchIndexState: <collection>, name, status, queryable}`.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from secantus import SecantusDBServer, aggregate, commands, expressions  # type: ignore[import-untyped]

from tests.atlas.neighbours import Refused, ScoredDocument, check_arguments, find_neighbours
from tests.atlas.search_indexes import InvalidIndex, SearchIndexes

_FIRST_ONLY = ("$vectorSearch", "$listSearchIndexes")
_SCORE = "vectorSearchScore"

Reply = dict[str, Any]


def _failure(code: int, name: str, message: str) -> Reply:
    return {"ok": 0.0, "code": code, "codeName": name, "errmsg": message}


class Emulation:
    """The added stages and commands, over the indexes of this process."""

    def __init__(self) -> None:
        self.indexes = SearchIndexes()

    def install(self) -> None:
        """Add everything to the embedded server's tables."""
        aggregate._ATLAS_ONLY_STAGES = frozenset({"$search", "$searchMeta"})
        aggregate._STAGES["$vectorSearch"] = self.vector_search
        aggregate._STAGES["$listSearchIndexes"] = self.list_search_indexes
        expressions._OPS["$meta"] = _meta
        expressions._NEVER_FOLDED = expressions._NEVER_FOLDED | {"$meta"}
        handlers = commands._HANDLERS
        handlers["createSearchIndexes"] = self.create_search_indexes
        handlers["updateSearchIndex"] = self.update_search_index
        handlers["dropSearchIndex"] = self.drop_search_index
        handlers["setSearchIndexState"] = self.set_search_index_state
        for name, wrapped in (("aggregate", _checked), ("drop", self._dropping), ("dropDatabase", self._dropping)):
            handlers[name] = wrapped(handlers[name])

    def vector_search(self, spec: Mapping[str, Any], documents: list[Any], context: Any) -> list[ScoredDocument]:
        """The stage: an index that does not exist, or is not yet begun, has no neighbours to give."""
        try:
            check_arguments(spec)
            index = self.indexes.find((context.db_name, context.coll_name, spec["index"]))
            if index is None or (index.status == "PENDING" and not index.queryable):
                return []
            if not index.queryable:
                state = "INITIAL_SYNC" if index.status == "BUILDING" else index.status
                raise Refused(f"cannot query vector index {index.name} while in state {state}")
            return find_neighbours(index.serving, spec, documents)
        except Refused as error:
            message = f"PlanExecutor error during aggregation :: caused by :: {error}"
            raise aggregate.AggregateError(message, code=8, code_name="UnknownError") from error

    def list_search_indexes(self, spec: Mapping[str, Any], documents: list[Any], context: Any) -> list[Reply]:
        """The stage: all indexes of the collection, or those of a name or an id."""
        listed = [index.to_document() for index in self.indexes.of_collection(context.db_name, context.coll_name)]
        return [entry for entry in listed if all(entry[key] == spec[key] for key in ("id", "name") if key in spec)]

    def create_search_indexes(self, command: Mapping[str, Any], context: Any) -> Reply:
        """The command: indexes are ready at once."""
        collection = command["createSearchIndexes"]
        if not context.storage.collection_exists(context.db_name, collection):
            return _failure(26, "NamespaceNotFound", f"Collection '{context.db_name}.{collection}' does not exist.")
        created = []
        try:
            for wanted in command["indexes"]:
                key = (context.db_name, collection, wanted.get("name", "default"))
                index = self.indexes.create(key, wanted.get("type", "search"), wanted["definition"])
                created.append({"id": str(index.id), "name": index.name})
        except InvalidIndex as error:
            is_present = "already exists" in str(error)
            return _failure(68 if is_present else 2, "IndexAlreadyExists" if is_present else "BadValue", str(error))
        return {"ok": 1.0, "indexesCreated": created}

    def update_search_index(self, command: Mapping[str, Any], context: Any) -> Reply:
        """The command: the old definition answers until the index is set to READY."""
        key = (context.db_name, command["updateSearchIndex"], command["name"])
        try:
            is_found = self.indexes.update(key, command["definition"])
        except InvalidIndex as error:
            return _failure(2, "BadValue", str(error))
        return {"ok": 1.0} if is_found else _not_found(command["name"])

    def drop_search_index(self, command: Mapping[str, Any], context: Any) -> Reply:
        """The command: by name."""
        is_found = self.indexes.drop(context.db_name, command["dropSearchIndex"], command["name"])
        return {"ok": 1.0} if is_found else _not_found(command["name"])

    def set_search_index_state(self, command: Mapping[str, Any], context: Any) -> Reply:
        """The command of tests."""
        key = (context.db_name, command["setSearchIndexState"], command["name"])
        is_found = self.indexes.set_state(key, command["status"], command["queryable"])
        return {"ok": 1.0} if is_found else _not_found(command["name"])

    def _dropping(self, handler: Any) -> Any:
        """A collection or a database takes its search indexes along."""

        def drop(command: Mapping[str, Any], context: Any) -> Reply:
            self.indexes.drop(context.db_name, command.get("drop"))
            reply: Reply = handler(command, context)
            return reply

        return drop


def _not_found(name: str) -> Reply:
    return _failure(27, "IndexNotFound", f"No index with name {name} exists")


def _checked(handler: Any) -> Any:
    """The aggregate command, refusing the added stages anywhere but in front."""

    def run(command: Mapping[str, Any], context: Any) -> Reply:
        for stage in command.get("pipeline", [])[1:]:
            misplaced = [name for name in _FIRST_ONLY if name in stage]
            if misplaced:
                message = f"{misplaced[0]} is only valid as the first stage in a pipeline"
                return _failure(40602, "Location40602", message)
        reply: Reply = handler(command, context)
        return reply

    return run


def _meta(argument: object, context: Any) -> object:
    """The expression `{$meta: "vectorSearchScore"}`."""
    if argument != _SCORE:
        raise expressions.ExpressionError(f"Unsupported $meta field: {argument}", code=17308)
    if not isinstance(context.doc, ScoredDocument):
        message = "query requires vector search score metadata, but it is not available"
        raise expressions.ExpressionError(message, code=40218)
    return context.doc.score


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--storage-path", default=":memory:")
    options = parser.parse_args()
    Emulation().install()
    server = SecantusDBServer("127.0.0.1", options.port, options.storage_path)
    server.start()
    try:
        sys.stdout.write(json.dumps({"port": server.port}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
