"""Instants of a query: bounds kept exact below the millisecond that MongoDB stores."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bson import DatetimeMS

from store.errors import InvalidArgument
from store.values import to_offset

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?([Zz]|[+-]\d\d(?::?\d\d)?)")
_WITHOUT_OFFSET = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC) - _EPOCH) // _MILLISECOND


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: whole milliseconds since 1970 (UTC), and whether it lies a little after them."""

    milliseconds: int
    is_between: bool = False

    @classmethod
    def from_text(cls, text: str) -> "Instant":
        """Read ISO 8601 with an offset; any number of fraction digits.

        Raises InvalidArgument for other forms: a time without offset means another instant in every zone.
        """
        parts = _RFC3339.fullmatch(text)
        if parts is None:
            raise InvalidArgument(_explain(text))
        day, minute, second, fraction, offset = parts.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}+00:00")
            shift = to_offset(offset) // _MILLISECOND
        except ValueError as error:
            raise InvalidArgument(f"{text!r} is not a date that exists: {error}.") from None
        digits = (fraction or "").ljust(3, "0")
        whole = (moment - _EPOCH) // _MILLISECOND + int(digits[:3])
        instant = whole - shift
        if not _FIRST <= instant <= _LAST:
            raise InvalidArgument(f"{text!r} lies outside the years 1 to 9999 in UTC.")
        return cls(instant, bool(digits[3:].strip("0")))


@dataclass(frozen=True, slots=True)
class DateRange:
    """Bounds on `createdAt`; inclusive unless said otherwise. A flag without its bound changes nothing."""

    start: Instant | None = None
    end: Instant | None = None
    start_exclusive: bool = False
    end_exclusive: bool = False

    def to_condition(self) -> dict[str, DatetimeMS]:
        """The range as a MongoDB condition on a date; empty when there are no bounds."""
        condition: dict[str, DatetimeMS] = {}
        if self.start is not None:
            after = self.start_exclusive or self.start.is_between
            condition["$gt" if after else "$gte"] = DatetimeMS(self.start.milliseconds)
        if self.end is not None:
            before = self.end_exclusive and not self.end.is_between
            condition["$lt" if before else "$lte"] = DatetimeMS(self.end.milliseconds)
        return condition

    def contains(self, moment: datetime) -> bool:
        """Whether a stored moment (whole milliseconds) lies in the range."""
        milliseconds = (moment - _EPOCH) // _MILLISECOND
        comparisons = {
            "$gt": milliseconds.__gt__,
            "$gte": milliseconds.__ge__,
            "$lt": milliseconds.__lt__,
            "$lte": milliseconds.__le__,
        }
        return all(comparisons[operator](int(bound)) for operator, bound in self.to_condition().items())


def _explain(text: str) -> str:
    shown = repr(text[:40])
    if _WITHOUT_OFFSET.fullmatch(text):
        return f"{shown} has no offset: write for example 2024-03-10T12:00:00Z or 2024-03-10T12:00:00+01:00."
    return f"{shown} is not an ISO 8601 time with offset, for example 2024-03-10T12:00:00.000Z."
