"""What the Atlas engine asks of the database, and how it reads the rows: pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.driver import Document, Pipeline
from store.vectors.engine import VectorQuery
from store.vectors.search_indexes import OWNER_PATH, THREAD_PATH, VECTOR_PATH
from store.vectors.similarity import DECIMALS, Match

MAX_CANDIDATES = 10_000
"""What Atlas allows for `numCandidates`, and so for `limit`."""
_CANDIDATES_PER_ROW = 20
"""As MongoDB advises, for a good share of the true neighbours."""


@dataclass(frozen=True, slots=True)
class ScopeFilter:
    """The scope of a query in MongoDB's terms: what the search itself filters by, and what is matched after it."""

    pushed: Document
    matched: Document

    @classmethod
    def of(cls, query: VectorQuery, filter_paths: frozenset[str]) -> "ScopeFilter":
        """Every condition goes into the search whose path the index declares."""
        conditions = {path: {"$eq": value} for path, value in scope_of(query).items()}
        pushed = {path: condition for path, condition in conditions.items() if path in filter_paths}
        return cls(pushed, {path: condition for path, condition in conditions.items() if path not in pushed})

    @classmethod
    def of_ids(cls, ids: Sequence[object]) -> "ScopeFilter":
        """The rows with these ids."""
        return cls({"_id": {"$in": list(ids)}}, {})

    @property
    def is_empty(self) -> bool:
        """Whether no row can be in the scope: a search must not be asked for one of no ids."""
        return self.pushed.get("_id") == {"$in": []}


def scope_of(query: VectorQuery) -> dict[str, str]:
    """The paths that a row in the scope of a query has, with their values."""
    thread = {} if query.thread_id is None else {THREAD_PATH: query.thread_id}
    return {OWNER_PATH: query.owner, **thread}


def id_stages(query: VectorQuery, limit: int) -> Pipeline:
    """The pipeline that gives the ids of the rows in the scope of a query."""
    return [{"$match": scope_of(query)}, {"$limit": limit}, {"$project": {"_id": 1}}]


def search_stages(index: str, vector: Sequence[float], scope: ScopeFilter, limit: int) -> Pipeline:
    """The pipeline that gives the `limit` nearest rows, less what is matched away, with their scores."""
    search: Document = {
        "index": index,
        "path": VECTOR_PATH,
        "queryVector": vector,
        "numCandidates": min(_CANDIDATES_PER_ROW * limit, MAX_CANDIDATES),
        "limit": limit,
    }
    conditions = [{path: condition} for path, condition in scope.pushed.items()]
    if conditions:
        search["filter"] = conditions[0] if len(conditions) == 1 else {"$and": conditions}
    fields = {
        "_id": 0,
        "message_id": "$metadata.message_id",
        "thread_id": "$metadata.thread_id",
        "score": {"$meta": "vectorSearchScore"},
    }
    matching = [{"$match": scope.matched}] if scope.matched else []
    return [{"$vectorSearch": search}, *matching, {"$project": fields}]


def to_matches(rows: Iterable[Document]) -> list[Match]:
    """The rows as matches, best first, equal scores by message; several of one message are still several."""
    matches = [
        Match(row["message_id"], _text(row.get("thread_id")), round(row["score"], DECIMALS))
        for row in rows
        if isinstance(row.get("message_id"), str)
    ]
    return sorted(matches, key=lambda match: (-match.score, match.message_id))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
