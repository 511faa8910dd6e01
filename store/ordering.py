"""The one total order: by a time, then by insertion (`_id`), both in the direction of the sort."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId


@dataclass(frozen=True, slots=True)
class Order:
    """Which time sorts a listing, and which way."""

    field: str = "createdAt"
    descending: bool = True

    def to_sort(self) -> dict[str, int]:
        """As MongoDB's sort document; it always ends in the unique `_id`."""
        direction = -1 if self.descending else 1
        return {self.field: direction, "_id": direction}


Position = tuple[float, int, Any]
"""Where a row stands in the total order, as a value that Python compares the way the database does."""

_RANKS = {int: 1, float: 1, str: 2, bytes: 3, ObjectId: 4}


def position(moment: datetime | None, identity: object) -> Position:
    """The position of a row: rows without a time stand first, as null does in MongoDB's order."""
    rank = _RANKS.get(type(identity), 5)
    comparable = identity if rank < 5 else str(identity)
    return (float("-inf") if moment is None else moment.timestamp(), rank, comparable)
