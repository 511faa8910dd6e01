"""Cursors: the place in a listing after which a next page begins, as text that a caller hands back.

A page number counts rows, so it repeats or skips some when others come or go in between. A cursor holds the place
itself: the time of the last row, and its public id, which settles the order among equal times.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from types import NoneType
from typing import Any, Literal

from bson import DatetimeMS, ObjectId, json_util
from bson.json_util import CANONICAL_JSON_OPTIONS

from store.driver import Document, Pipeline
from store.errors import InvalidArgument
from store.ordering import Order
from store.source import Source
from store.values import CODEC

Listing = Literal["messages", "threads"]
_MAX_LENGTH = 4096
_OPTIONS = CANONICAL_JSON_OPTIONS.with_options(
    tz_aware=CODEC.tz_aware, tzinfo=CODEC.tzinfo, datetime_conversion=CODEC.datetime_conversion
)
_KINDS = (str, bool, int, float, datetime, DatetimeMS, ObjectId, NoneType)
"""What may stand for a time or an id; stored rows may be odd."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a row in a listing: the time that sorts it, as stored, and its public id."""

    listing: Listing
    order: Order
    time: object
    id: object

    @classmethod
    def of(cls, listing: Listing, order: Order, row: Document) -> "Cursor | None":
        """The place of a row that was read; None for a row too odd to be named."""
        time, id = row.get(order.field), row.get("id")
        return cls(listing, order, time, id) if isinstance(time, _KINDS) and isinstance(id, _KINDS) else None

    def to_text(self) -> str:
        """As it is handed out."""
        place = [self.listing, self.order.field, self.order.descending, self.time, self.id]
        written = json_util.dumps(place, json_options=_OPTIONS, separators=(",", ":"))
        return urlsafe_b64encode(written.encode()).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str, listing: Listing, order: Order) -> "Cursor":
        """Read what was handed out. Raises InvalidArgument for other text, and for a cursor of another order."""
        kind, field, descending, time, id = _read(text)
        if kind != listing:
            raise InvalidArgument(f"after is a cursor of {kind}, and this lists {listing}.")
        if (field, descending) != (order.field, order.descending):
            way = "DESC" if descending else "ASC"
            raise InvalidArgument(f"after is a cursor of the order {field} {way}; pass that order as orderBy.")
        return cls(listing, order, time, id)

    async def to_stages(self, source: Source, matches: Pipeline) -> Pipeline:
        """The condition for rows beyond this place; one command. Raises Unavailable.

        The row itself is looked for among `matches` alone, so that a made-up cursor tells nothing of others. When it
        is gone, others of the very same time may come once more: none is lost.
        """
        its_key: Pipeline = [{"$sort": {"_id": 1}}, {"$limit": 1}, {"$project": {"_id": 1}}]
        rows = await source.rows([{"$match": {"id": self.id}}, *matches, *its_key], batch_size=2)
        field, time, descending = f"${self.order.field}", {"$literal": self.time}, self.order.descending
        stages: Pipeline = []
        if descending or self.time is not None:
            # An index serves this bound. Unlike `$lt` in a query it covers rows without time, or with an odd one.
            stages.append({"$match": {"$expr": {"$lte" if descending else "$gte": [field, time]}}})
        if rows:
            beyond = {"$lt" if descending else "$gt": ["$_id", {"$literal": rows[0]["_id"]}]}
            is_elsewhere = {"$ne": [{"$ifNull": [field, None]}, time]}
            stages.append({"$match": {"$expr": {"$or": [is_elsewhere, beyond]}}})
        return stages


def _read(text: str) -> tuple[Listing, Any, Any, object, object]:
    """The parts of a cursor. Raises InvalidArgument."""
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError
        padded = text + "=" * (-len(text) % 4)
        written = urlsafe_b64decode(padded.encode("ascii"))
        listing, field, descending, time, id = json_util.loads(written, json_options=_OPTIONS)
        if listing not in ("messages", "threads") or not isinstance(time, _KINDS) or not isinstance(id, _KINDS):
            raise ValueError
    except Exception:
        # Text of any kind may come here, and what takes it apart has many ways to fail.
        raise InvalidArgument("after is no cursor: pass the endCursor of an earlier answer.") from None
    return listing, field, descending, time, id
