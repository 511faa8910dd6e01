"""Where the vectors lie in a raw batch of documents, found for all documents at once."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
from bson.errors import InvalidBSON
from numpy.typing import NDArray

# The type and the name of the elements that are looked for.
_TEXT_ID, _OBJECT_ID = b"\x02_id\x00", b"\x07_id\x00"
_METADATA = b"\x03metadata\x00"

_INT32 = Struct("<i")
_INT32_SIZE = 4
_OBJECT_ID_SIZE = 12
_EMPTY_DOCUMENT = 5
# From the start of a document to the end of an id that is an empty text, less one.
_SHORTEST_ID = _INT32_SIZE + len(_TEXT_ID) + _INT32_SIZE

Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Found(NamedTuple):
    """Which documents have an embedding of the form looked for, and where in these it and the metadata begin.

    `bodies` is where what follows the head of the form begins, `metadata` where the value of the metadata does.
    """

    chosen: NDArray[np.bool_]
    bodies: Places
    metadata: Places


def find_documents(data: bytes) -> Places:
    """Where the documents of a batch begin and end, of shape (documents, 2).

    Raises InvalidBSON for bytes that are no documents.
    """
    return np.array(list(_documents(data)), dtype=np.int64).reshape(-1, 2)


def find_embeddings(data: bytes, documents: Places, head: bytes, size: int) -> Found:
    """Looks for documents of an id, an element that begins with `head` and goes on for `size` bytes, and metadata.

    The id is a text or an ObjectId, the metadata are a document, and nothing else may follow.
    """
    octets = np.frombuffer(data, dtype=np.uint8)
    starts, ends = documents[:, 0], documents[:, 1]
    elements = _after_ids(octets, starts + _INT32_SIZE)
    bodies = elements + len(head)
    metadata = bodies + size + len(_METADATA)
    metadata_sizes = _int32(octets, metadata)
    # Elements that follow each other from the start to the very end leave no room for a mistake.
    chosen = (
        (elements > starts + _SHORTEST_ID)
        & _is_at(octets, elements, head)
        & _is_at(octets, bodies + size, _METADATA)
        & (metadata_sizes >= _EMPTY_DOCUMENT)
        & (metadata + metadata_sizes == ends - 1)
    )
    return Found(chosen, bodies[chosen], metadata[chosen])


def _documents(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        end = start + _INT32.unpack_from(data, start)[0] if start + _EMPTY_DOCUMENT <= len(data) else 0
        if not start + _EMPTY_DOCUMENT <= end <= len(data):
            raise InvalidBSON("a batch of vectors does not consist of whole documents")
        yield start, end
        start = end


def _after_ids(octets: Bytes, ids: Places) -> Places:
    """Where the elements after the ids begin; -1 after an id of another type."""
    after_text = ids + len(_TEXT_ID) + _INT32_SIZE + _int32(octets, ids + len(_TEXT_ID))
    after_object_id = ids + len(_OBJECT_ID) + _OBJECT_ID_SIZE
    after_others = np.where(_is_at(octets, ids, _OBJECT_ID), after_object_id, -1)
    return np.where(_is_at(octets, ids, _TEXT_ID), after_text, after_others)


def _int32(octets: Bytes, places: Places) -> Places:
    return _gathered(octets, places, _INT32_SIZE).view("<i4")[:, 0].astype(np.int64)


def _is_at(octets: Bytes, places: Places, wanted: bytes) -> NDArray[np.bool_]:
    equal = _gathered(octets, places, len(wanted)) == np.frombuffer(wanted, dtype=np.uint8)
    matches: NDArray[np.bool_] = np.all(equal, axis=1)
    return matches


def _gathered(octets: Bytes, places: Places, count: int) -> Bytes:
    """So many bytes from each place; for what lies beyond the batch the byte at its edge, which decides nothing."""
    return octets.take(places[:, None] + np.arange(count), mode="clip")
