"""From raw BSON batches of a vector collection to rows of numbers.

Decoding is the cost of a cold load, so the numbers never become Python objects: where a document looks as expected
(`_id`, then an embedding of the right size, then the metadata, and no more), the embeddings are read together, and of
the rest only the metadata are decoded. Every other document is decoded in the plain way, with the same result.
"""

from collections import Counter
from itertools import chain
from typing import Any, NamedTuple

import bson
import numpy as np
from bson.binary import VECTOR_SUBTYPE, Binary
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.int64 import Int64
from numpy.typing import NDArray

from store.vectors.batch import VectorBatch
from store.vectors.finding import Places, find_documents, find_embeddings
from store.vectors.layout import Form, Vectors, forms, from_binary

_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
_NUMBERS = {int, float, Int64}


_Metadata = dict[str, Any]
_Texts = list[str | None]


class _Rows(NamedTuple):
    """Some rows of a batch: where their documents begin, the ids of message, thread and resource, and the vectors."""

    starts: Places
    ids: tuple[_Texts, _Texts, _Texts]
    vectors: Vectors

    @classmethod
    def of(cls, starts: Places, metadata: list[_Metadata], vectors: Vectors) -> "_Rows":
        """The rows of the documents that begin there and have these metadata and vectors."""
        messages, threads, resources = (
            [_text(each.get(field)) for each in metadata] for field in ("message_id", "thread_id", "resource_id")
        )
        return cls(starts, (messages, threads, resources), vectors)

    @classmethod
    def joined(cls, parts: "list[_Rows]") -> "_Rows":
        """The rows of all parts, in stored order."""
        if len(parts) == 1:
            return parts[0]
        messages, threads, resources = (
            list(chain.from_iterable(part.ids[column] for part in parts)) for column in range(3)
        )
        starts, vectors = (np.concatenate([part[column] for part in parts]) for column in (0, 2))
        return cls(starts, (messages, threads, resources), vectors).at(np.argsort(starts))

    def at(self, places: NDArray[np.int64]) -> "_Rows":
        """The rows at these places, in this order."""
        chosen = places.tolist()
        messages, threads, resources = ([column[place] for place in chosen] for column in self.ids)
        return _Rows(self.starts[places], (messages, threads, resources), self.vectors[places])


def decode_batch(data: bytes, dimensions: int) -> VectorBatch:
    """The vectors of `dimensions` numbers in a batch of documents, as `find_raw_batches` yields it.

    Read are `embedding` (an array of numbers, or a binary vector of float32 or int8), `metadata.message_id`,
    `metadata.thread_id` and `metadata.resource_id`; documents should be projected to them. Those without a message or
    a vector are left out, such as the row `__index_metadata__` of older databases. Vectors of other lengths are only
    counted, and slowly: who refuses them had better stop at the first batch that has some. Raises
    bson.errors.InvalidBSON for bytes that are no documents.
    """
    parts: list[_Rows] = []
    documents = find_documents(data)
    for form in forms(dimensions):
        if not len(documents):
            break
        rows, documents = _rows_of(data, documents, form)
        parts.append(rows)
    plain, other_lengths = _plain_rows(data, documents, dimensions)
    rows = _Rows.joined([part for part in (*parts, plain) if len(part.starts)] or [plain])
    if None in rows.ids[0]:
        rows = rows.at(np.flatnonzero([message_id is not None for message_id in rows.ids[0]]))
    messages, threads, resources = rows.ids
    message_ids = [message_id for message_id in messages if message_id is not None]
    return VectorBatch(rows.vectors, message_ids, threads, resources, other_lengths)


def _rows_of(data: bytes, documents: Places, form: Form) -> tuple[_Rows, Places]:
    """The rows of the documents of this form, and the documents that do not have it."""
    found = find_embeddings(data, documents, form.head, form.size)
    view = memoryview(data)
    vectors, is_sound = form.read([view[place : place + form.size] for place in found.bodies.tolist()])
    chosen, metadata = documents[found.chosen], found.metadata
    others = documents[~found.chosen]
    if not is_sound.all():
        others = np.sort(np.concatenate((others, chosen[~is_sound])), axis=0)
        chosen, metadata, vectors = chosen[is_sound], metadata[is_sound], vectors[is_sound]
    ends = (chosen[:, 1] - 1).tolist()
    pieces = [view[start:end] for start, end in zip(metadata.tolist(), ends, strict=True)]
    return _Rows.of(chosen[:, 0], bson.decode_all(b"".join(pieces), _OPTIONS), vectors), others


def _plain_rows(data: bytes, documents: Places, dimensions: int) -> tuple[_Rows, Counter[int]]:
    """The rows of these documents, decoded in the plain way, and the lengths of vectors of other lengths."""
    starts: list[int] = []
    metadata: list[_Metadata] = []
    vectors: list[Vectors] = []
    other_lengths: Counter[int] = Counter()
    for start, end in documents.tolist():
        document = bson.decode(data[start:end], _OPTIONS)
        vector, owner = _numbers(document.get("embedding")), document.get("metadata")
        if vector is None or not isinstance(owner, dict) or _text(owner.get("message_id")) is None:
            continue
        if len(vector) == dimensions:
            starts.append(start)
            metadata.append(owner)
            vectors.append(vector)
        else:
            other_lengths[len(vector)] += 1
    matrix = np.stack(vectors) if vectors else np.empty((0, dimensions), dtype=np.float32)
    return _Rows.of(np.array(starts, dtype=np.int64), metadata, matrix), other_lengths


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _numbers(embedding: object) -> Vectors | None:
    """The numbers of a decoded embedding; None when it is no vector."""
    if isinstance(embedding, Binary) and embedding.subtype == VECTOR_SUBTYPE:
        return from_binary(embedding)
    if not isinstance(embedding, list) or not embedding or not set(map(type, embedding)) <= _NUMBERS:
        return None
    # What float32 cannot hold becomes infinite, as it does in the fast way.
    with np.errstate(over="ignore"):
        return np.fromiter(embedding, dtype=np.float32, count=len(embedding))
