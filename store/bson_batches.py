"""Batches of undecoded BSON documents."""

from collections.abc import Iterator
from struct import unpack_from


def parts_of(batch: bytes, count: int) -> Iterator[bytes]:
    """A batch of documents, one after the other, in parts of `count` documents: each begins with its size."""
    view = memoryview(batch)
    start = end = 0
    while end < len(batch):
        for _ in range(count):
            if end < len(batch):
                end += unpack_from("<i", batch, end)[0]
        yield bytes(view[start:end])
        start = end
