"""From raw BSON batches of a vector collection to rows of numbers.

Decoding is the cost of a cold load, so the numbers never become Python objects: where a document looks as expected
(`_id`, then an array of doubles of the right size, then the metadata, and no more), the arrays are read together, and
of the rest only the metadata are decoded. Every other document is decoded in the plain way, with the same result.
"""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple

import bson
import numpy as np
from bson.binary import VECTOR_SUBTYPE, Binary
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import InvalidBSON
from bson.int64 import Int64

from store.vectors.batch import VectorBatch
from store.vectors.layout import DoubleArrays, Vectors, double_arrays, from_binary

# The type and the name of the elements that are looked for; a size follows all but the second.
_TEXT_ID, _OBJECT_ID = b"\x02_id\x00", b"\x07_id\x00"
_EMBEDDING_ARRAY = b"\x04embedding\x00"
_METADATA = b"\x03metadata\x00"

_INT32 = Struct("<i")
_OBJECT_ID_SIZE = 12
_EMPTY_DOCUMENT = 5
# Of an empty id, empty metadata and the frame.
_LEAST_BESIDES_ARRAY = 4 + len(_TEXT_ID) + 5 + len(_EMBEDDING_ARRAY) + len(_METADATA) + 5 + 1
_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
_NUMBERS = {int, float, Int64}


class _Span(NamedTuple):
    """Where a document begins and ends in the batch."""

    start: int
    end: int


class _Expected(NamedTuple):
    """A document as expected: its span, and where the values of its embedding and its metadata begin."""

    span: _Span
    embedding: int
    metadata: int


class _Owner(NamedTuple):
    """Whom a vector belongs to."""

    message_id: str
    thread_id: str | None
    resource_id: str | None


class _Row(NamedTuple):
    """A vector, whom it belongs to, and where its document begins."""

    start: int
    owner: _Owner
    vector: Vectors


def decode_batch(data: bytes, dimensions: int) -> VectorBatch:
    """The vectors of `dimensions` numbers in a batch of documents, as `find_raw_batches` yields it.

    Read are `embedding` (an array of numbers, or a binary vector of float32 or int8), `metadata.message_id`,
    `metadata.thread_id` and `metadata.resource_id`; documents should be projected to them. Those without a message or
    a vector are left out, such as the row `__index_metadata__` of older databases. Vectors of other lengths are only
    counted, and slowly: who refuses them had better stop at the first batch that has some. Raises
    bson.errors.InvalidBSON for bytes that are no documents.
    """
    layout = double_arrays(dimensions)
    head = _EMBEDDING_ARRAY + _INT32.pack(layout.size)
    expected: list[_Expected] = []
    others: list[_Span] = []
    for span in _documents(data):
        found = _as_expected(data, span, layout.size, head)
        if found is None:
            others.append(span)
        else:
            expected.append(found)
    rows, odd = _rows(data, expected, layout)
    plain, other_lengths = _plain_rows(data, others + odd, dimensions)
    return _batch(sorted(rows + plain, key=attrgetter("start")) if plain else rows, dimensions, other_lengths)


def _documents(data: bytes) -> Iterator[_Span]:
    start = 0
    while start < len(data):
        end = start + _INT32.unpack_from(data, start)[0] if start + _EMPTY_DOCUMENT <= len(data) else 0
        if not start + _EMPTY_DOCUMENT <= end <= len(data):
            raise InvalidBSON("a batch of vectors does not consist of whole documents")
        yield _Span(start, end)
        start = end


def _as_expected(data: bytes, span: _Span, array_size: int, array_head: bytes) -> _Expected | None:
    """The document's parts if it looks as expected: an id, an array that begins so, metadata, and nothing else."""
    start, end = span
    if end - start < array_size + _LEAST_BESIDES_ARRAY:
        return None
    position = _after_id(data, start + _INT32.size)
    metadata = position + len(_EMBEDDING_ARRAY) + array_size + len(_METADATA)
    if not start < position <= metadata <= end - _EMPTY_DOCUMENT - 1 or not data.startswith(array_head, position):
        return None
    if not data.startswith(_METADATA, metadata - len(_METADATA)):
        return None
    if metadata + _INT32.unpack_from(data, metadata)[0] != end - 1:
        return None
    return _Expected(span, position + len(_EMBEDDING_ARRAY), metadata)


def _after_id(data: bytes, position: int) -> int:
    """Where the element after the id begins; -1 when there is no id, or one of another type."""
    if data.startswith(_TEXT_ID, position):
        size = position + len(_TEXT_ID)
        return size + _INT32.size + int(_INT32.unpack_from(data, size)[0])
    if data.startswith(_OBJECT_ID, position):
        return position + len(_OBJECT_ID) + _OBJECT_ID_SIZE
    return -1


def _rows(data: bytes, expected: list[_Expected], layout: DoubleArrays) -> tuple[list[_Row], list[_Span]]:
    """The rows of documents as expected, and the documents whose arrays turn out not to hold doubles alone."""
    view = memoryview(data)
    vectors, sound = layout.read([view[found.embedding : found.embedding + layout.size] for found in expected])
    pieces = (view[found.metadata : found.span.end - 1] for found in expected)
    documents = bson.decode_all(b"".join(pieces), _OPTIONS)
    rows: list[_Row] = []
    odd: list[_Span] = []
    for found, metadata, vector, is_sound in zip(expected, documents, vectors, sound.tolist(), strict=True):
        if not is_sound:
            odd.append(found.span)
        elif owner := _owner(metadata):
            rows.append(_Row(found.span.start, owner, vector))
    return rows, odd


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
            rows.append(_Row(start, owner, vector))
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
    return _Owner(message_id, _text(metadata.get("thread_id")), _text(metadata.get("resource_id")))


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
        return np.array(embedding, dtype=np.float32)
