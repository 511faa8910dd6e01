"""What `$vectorSearch` answers: its arguments checked and its scores worked out as Atlas does, the neighbours exact.

Messages of refusals are those of MongoDB's search process, as far as callers tell them apart.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bson.binary import VECTOR_SUBTYPE, Binary
from numpy.typing import NDArray
from secantus.query import matches  # type: ignore[import-untyped]

from store.vectors.layout import from_binary

MAX_CANDIDATES = 10_000
COMPARISONS = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not"}
CLAUSES = {"$and", "$or", "$nor"}

Vector = NDArray[np.float64]


class Refused(Exception):
    """The search process refuses a query; the text says why."""


class ScoredDocument(dict[str, Any]):
    """A document that a search found, with its score beside its fields: a copy keeps it, a projection does not."""

    score: float


@dataclass(frozen=True, slots=True)
class SearchFields:
    """What a definition says of one path: the vector's length and similarity, and the paths that filters may name."""

    dimensions: int
    similarity: str
    filter_paths: frozenset[str]

    @classmethod
    def of(cls, definition: Mapping[str, Any], path: str) -> "SearchFields":
        """Raises Refused when the definition has no vector there."""
        fields = definition["fields"]
        for field in fields:
            if field["type"] == "vector" and field["path"] == path:
                filters = frozenset(other["path"] for other in fields if other["type"] == "filter")
                return cls(field["numDimensions"], field["similarity"], filters)
        raise Refused(f"{path} is not indexed as vector")


def check_arguments(spec: Mapping[str, Any]) -> None:
    """Raises Refused for what no index could answer."""
    for name in ("path", "limit", "queryVector", "index"):
        if name not in spec:
            raise Refused(f'"{name}" is required')
    limit, candidates = spec["limit"], spec.get("numCandidates")
    if not isinstance(limit, int) or limit <= 0:
        raise Refused('"limit" must be positive')
    if spec.get("exact"):
        if candidates is not None:
            raise Refused('"numCandidates" must be omitted when "exact" is set to true')
        return
    if candidates is None:
        raise Refused("numCandidates is required for approximate vector search")
    if not isinstance(candidates, int) or not 1 <= candidates <= MAX_CANDIDATES:
        raise Refused(f'"numCandidates" must be within bounds [1, {MAX_CANDIDATES}]')
    if limit > candidates:
        raise Refused("limit should be less than or equal to numCandidates")


def check_filter(condition: Any, fields: SearchFields) -> None:
    """Raises Refused for paths that are not declared and for operators that a search does not know."""
    if not isinstance(condition, Mapping):
        raise Refused("filter must be a document")
    for key, value in condition.items():
        if key in CLAUSES:
            for clause in value:
                check_filter(clause, fields)
        elif key.startswith("$"):
            raise Refused(f'unrecognized operator "{key}"')
        else:
            _check_comparison(key, value, fields)


def _check_comparison(path: str, value: Any, fields: SearchFields) -> None:
    if path not in fields.filter_paths:
        raise Refused(f"Path '{path}' needs to be indexed as filter")
    for operator, operand in value.items() if isinstance(value, Mapping) else ():
        if operator not in COMPARISONS:
            raise Refused(f'"filter.{path}" unrecognized operator "{operator}"')
        if operator == "$in" and not operand:
            raise Refused(f'"filter.{path}.$in" cannot be empty')
        if operator == "$in" and len(set(map(type, operand))) > 1:
            raise Refused(f'"filter.{path}.$in" must have elements of the same type')


def find_neighbours(
    definition: Mapping[str, Any], spec: Mapping[str, Any], documents: Iterable[dict[str, Any]]
) -> list[ScoredDocument]:
    """The nearest documents, best first; equal scores in stored order. Raises Refused."""
    fields = SearchFields.of(definition, spec["path"])
    query = _vector(spec["queryVector"])
    if query is None or len(query) != fields.dimensions:
        length = 0 if query is None else len(query)
        raise Refused(f"vector field is indexed with {fields.dimensions} dimensions but queried with {length}")
    if fields.similarity == "cosine" and not query.any():
        raise Refused("Cosine similarity cannot be calculated against a zero vector.")
    condition = spec.get("filter", {})
    check_filter(condition, fields)
    admitted = (document for document in documents if not condition or matches(document, condition))
    return _scored(admitted, spec["path"], query, fields)[: spec["limit"]]


def _scored(
    documents: Iterable[dict[str, Any]], path: str, query: Vector, fields: SearchFields
) -> list[ScoredDocument]:
    pairs = [(document, _vector(_at(document, path))) for document in documents]
    found = [
        (document, vector) for document, vector in pairs if vector is not None and len(vector) == fields.dimensions
    ]
    if fields.similarity == "cosine":
        # A vector without direction is left out of the index.
        found = [(document, vector) for document, vector in found if vector.any()]
    if not found:
        return []
    scores = SCORES[fields.similarity](np.stack([vector for _, vector in found]), query)
    scored = []
    for place in np.argsort(-scores, kind="stable").tolist():
        document = ScoredDocument(found[place][0])
        document.score = float(scores[place])
        scored.append(document)
    return scored


def _cosine(vectors: Vector, query: Vector) -> NDArray[np.float32]:
    cosines: Vector = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    return np.maximum((1 + cosines) / 2, 0).astype(np.float32)


def _dot_product(vectors: Vector, query: Vector) -> NDArray[np.float32]:
    return np.maximum((1 + vectors @ query) / 2, 0).astype(np.float32)


def _euclidean(vectors: Vector, query: Vector) -> NDArray[np.float32]:
    squares: Vector = ((vectors - query) ** 2).sum(axis=1)
    return (1 / (1 + squares)).astype(np.float32)


SCORES: dict[str, Callable[[Vector, Vector], NDArray[np.float32]]] = {
    "cosine": _cosine,
    "dotProduct": _dot_product,
    "euclidean": _euclidean,
}


def _vector(value: object) -> Vector | None:
    """The finite numbers of a vector; None for everything else."""
    if isinstance(value, Binary) and value.subtype == VECTOR_SUBTYPE:
        value = from_binary(value)
        value = None if value is None else value.tolist()
    if not isinstance(value, Sequence) or not all(isinstance(number, int | float) for number in value):
        return None
    vector = np.array(value, dtype=np.float64)
    return vector if len(vector) and np.isfinite(vector).all() else None


def _at(document: Mapping[str, Any], path: str) -> object:
    value: object = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
