"""The one total order: by a time, then by insertion (`_id`), both in the direction of the sort."""

from dataclasses import dataclass
from typing import Any

from bson import DatetimeMS, ObjectId

from store.values import to_moment


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

_NOWHERE = float("-inf")
_NUMBER, _TEXT, _DOCUMENT, _BINARY, _OBJECT_ID, _OTHER = range(6)


def position(time: object, identity: object) -> Position:
    """The position of a row by its stored time and its `_id`.

    Rows without a time stand first, as null does in MongoDB's order; kinds of `_id` are in the order of BSON.
    """
    return (_seconds(time), *_rank(identity))


def _seconds(time: object) -> float:
    if isinstance(time, DatetimeMS):
        return int(time) / 1000
    moment = to_moment(time)
    return _NOWHERE if moment is None else moment.timestamp()


def _rank(identity: object) -> tuple[int, Any]:
    if isinstance(identity, ObjectId):
        return _OBJECT_ID, identity
    if isinstance(identity, str):
        return _TEXT, identity.encode("utf-8", "surrogatepass")
    if isinstance(identity, bytes):
        # Binary values are compared by length, then by kind, then byte by byte.
        return _BINARY, (len(identity), getattr(identity, "subtype", 0), bytes(identity))
    if isinstance(identity, (int, float)) and not isinstance(identity, bool):
        return _NUMBER, identity
    return (_DOCUMENT if isinstance(identity, dict) else _OTHER), str(identity)
