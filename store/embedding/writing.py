"""Writing the rows of one collection of vectors, and making it ready for them."""

import logging
from collections.abc import Iterable, Sequence

import numpy as np
import pymongo.errors
from numpy.typing import NDArray
from pymongo import DeleteMany, ReplaceOne, UpdateOne

from store.driver import Database, translated_errors
from store.embedding.rows import Piece

log = logging.getLogger("recallql.store")

INDEXES = (
    ("metadata.resource_id", "the vectors of an owner"),
    ("metadata.message_id", "the vectors of a message"),
    ("source.key", "the vectors of a message that is gone"),
)
"""What a collection of vectors is asked for, and why."""


class Rows:
    """Writes, corrects and removes rows; what the server refuses is raised as the driver's OperationFailure."""

    def __init__(self, database: Database, collection: str) -> None:
        self._collection = database[collection]

    async def ensure_indexes(self) -> None:
        """Create the indexes that are missing, and the collection with them.

        An index that stands in the way is left alone: without ours everything is slower and still right.
        Raises Unavailable.
        """
        for field, why in INDEXES:
            # Rows of other programs have no source, and need no place in its index.
            options = {"sparse": True} if field.startswith("source.") else {}
            with translated_errors():
                try:
                    await self._collection.create_index(field, **options)
                except pymongo.errors.OperationFailure as error:
                    log.warning("%s: no index for %s: %s", self._collection.name, why, error)

    async def write(self, embedded: Iterable[tuple[Piece, NDArray[np.float32]]]) -> int:
        """Write the rows of pieces with their vectors; give their number. Raises Unavailable."""
        requests = [
            ReplaceOne({"_id": piece.row_id}, piece.to_document(vector), upsert=True) for piece, vector in embedded
        ]
        if requests:
            with translated_errors():
                await self._collection.bulk_write(requests, ordered=False)
        return len(requests)

    async def amend(self, corrections: Sequence[Piece], surplus: Sequence[object]) -> int:
        """Describe the rows of pieces anew without touching their vectors, and remove other rows; the number removed.

        One command for each of the two, none where there is nothing to do. Raises Unavailable.
        """
        requests: list[UpdateOne | DeleteMany] = [
            UpdateOne({"_id": piece.row_id}, {"$set": piece.to_description()}) for piece in corrections
        ]
        if surplus:
            requests.append(DeleteMany({"_id": {"$in": list(surplus)}}))
        if not requests:
            return 0
        with translated_errors():
            result = await self._collection.bulk_write(requests, ordered=False)
        return int(result.deleted_count)
