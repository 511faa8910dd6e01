"""From raw BSON batches of a vector collection to rows of numbers.

Decoding is the cost of a cold load, so the numbers never become Python objects: where a document looks as expected
(`_id`, then an embedding of the right size, then the metadata, and no more), the embeddings are read together, and of
the rest only the metadata are decoded. Every other document is decoded in the plain way, with the same result.
"""

from collections import Counter
from operator import itemgetter
from typing import Any

import bson
import numpy as np
from bson.binary import VECTOR_SUBTYPE, Binary
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.int64 import Int64

from store.vectors.batch import VectorBatch
from store.vectors.finding import Places, find_documents, find_embeddings
from store.vectors.layout import Form, Vectors, forms, from_binary

_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
_NUMBERS = {int, float, Int64}

# Where a document begins and ends in the batch.
_Span = tuple[int, int]
# Whom a vector belongs to: message, thread and resource.
_Owner = tuple[str, str | None, str | None]
# Where a document begins, whom its vector belongs to, and the vector.
_Row = tuple[int, _Owner, Vectors]


def decode_batch(data: bytes, dimensions: int) -> VectorBatch:
    """The vectors of `dimensions` numbers in a batch of documents, as `find_raw_batches` yields it.

    Read are `embedding` (an array of numbers, or a binary vector of float32 or int8), `metadata.message_id`,
    `metadata.thread_id` and `metadata.resource_id`; documents should be projected to them. Those without a message or
    a vector are left out, such as the row `__index_metadata__` of older databases. Vectors of other lengths are only
    counted, and slowly: who refuses them had better stop at the first batch that has some. Raises
    bson.errors.InvalidBSON for bytes that are no documents.
    """
    rows: list[_Row] = []
    others: list[_Span] = []
    documents = find_documents(data)
    for form in forms(dimensions):
        sound, odd, documents = _rows_of(data, documents, form)
        rows += sound
        others += odd
    plain, other_lengths = _plain_rows(data, others + _spans(documents), dimensions)
    return _batch(sorted(rows + plain, key=itemgetter(0)), dimensions, other_lengths)


def _spans(documents: Places) -> list[_Span]:
    return [(start, end) for start, end in documents.tolist()]


def _rows_of(data: bytes, documents: Places, form: Form) -> tuple[list[_Row], list[_Span], Places]:
    """The rows of the documents of this form, those that only seem to have it, and the other documents."""
    view, found = memoryview(data), find_embeddings(data, documents, form.head, form.size)
    spans = _spans(documents[found.chosen])
    vectors, sound = form.read([view[place : place + form.size] for place in found.bodies.tolist()])
    pieces = [view[place : end - 1] for place, (_, end) in zip(found.metadata.tolist(), spans, strict=True)]
    decoded = bson.decode_all(b"".join(pieces), _OPTIONS)
    rows: list[_Row] = []
    odd: list[_Span] = []
    for span, metadata, vector, is_sound in zip(spans, decoded, vectors, sound.tolist(), strict=True):
        if not is_sound:
            odd.append(span)
        elif owner := _owner(metadata):
            rows.append((span[0], owner, vector))
    return rows, odd, documents[~found.chosen]


def _plain_rows(data: bytes, spans: list[_Span], dimensions: int) -> tuple[list[_Row], Counter[int]]:
    """The rows of these documents, decoded in the plain way, and the lengths of vectors of other lengths."""
    rows: list[_Row] = []
    other_lengths: Counter[int] = Counter()
    for start, end in spans:
        document = bson.decode(data[start:end], _OPTIONS)
        owner, vector = _owner(document.get("metadata")), _numbers(document.get("embedding"))
        if owner is None or vector is None:
            continue
        if len(vector) == dimensions:
            rows.append((start, owner, vector))
        else:
            other_lengths[len(vector)] += 1
    return rows, other_lengths


def _batch(rows: list[_Row], dimensions: int, other_lengths: Counter[int]) -> VectorBatch:
    if not rows:
        return VectorBatch(np.empty((0, dimensions), dtype=np.float32), [], [], [], other_lengths)
    _, owners, vectors = zip(*rows, strict=True)
    messages, threads, resources = zip(*owners, strict=True)
    return VectorBatch(np.stack(vectors), list(messages), list(threads), list(resources), other_lengths)


def _owner(metadata: object) -> _Owner | None:
    """Whom a vector with these metadata belongs to; None when they name no message."""
    if not isinstance(metadata, dict):
        return None
    message_id = _text(metadata.get("message_id"))
    if message_id is None:
        return None
    return message_id, _text(metadata.get("thread_id")), _text(metadata.get("resource_id"))


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
