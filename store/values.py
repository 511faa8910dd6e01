"""BSON values as JSON values, and moments as text: the only place that knows how each kind is spelt."""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import NoneType

import orjson
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson.codec_options import CodecOptions, DatetimeConversion

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


class JSONText:
    """A JSON value that is written already, in UTF-8 or as text; a long one in pieces, which are never joined."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str | bytes) -> None:
        self.pieces = pieces


CODEC: CodecOptions[dict[str, object]] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="replace",
)
"""How documents are decoded: aware dates, no exception for odd years or broken UTF-8."""

MAX_DEPTH = 200
"""Values nested deeper are not read as structure: the encoder of the response stops at 254 levels."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
_zone = attrgetter("tzinfo")
_MILLISECONDS = [f".{number:03}Z" for number in range(1000)]
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|[+-]\d\d(?::?\d\d)?)?")


def iso_text(moment: datetime) -> str:
    """A moment as ISO 8601 in UTC, with milliseconds and Z, as JavaScript's `toISOString` spells it."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    # Faster than isoformat, and every message has such a moment.
    return orjson.dumps(utc, None, orjson.OPT_OMIT_MICROSECONDS)[1:20].decode() + _MILLISECONDS[utc.microsecond // 1000]


def iso_texts(moments: Sequence[datetime]) -> list[str]:
    """`iso_text` of each moment; faster where all are in UTC, as those that were read are."""
    if set(map(_zone, moments)) != {UTC}:
        return list(map(iso_text, moments))
    # "2026-01-01T00:00:00.123000+00:00" and, at a full second, "2026-01-01T00:00:00+00:00".
    written = orjson.dumps(moments).replace(b'000+00:00"', b'Z"').replace(b'+00:00"', b'.000Z"')
    texts: list[str] = orjson.loads(written)
    # Others have microseconds, which no stored time has.
    return texts if set(map(len, texts)) == {len("2026-01-01T00:00:00.123Z")} else list(map(iso_text, moments))


def to_json(value: object) -> JSON:
    """Any decoded BSON value as a JSON value.

    NaN, infinities, MinKey, MaxKey and dates outside the years 1 to 9999 become null; ObjectId,
    Decimal128, regular expressions and code become their text; dates ISO text; binary base64 text.
    """
    spell = _SPELLINGS.get(type(value))
    if spell is not None:
        return spell(value)
    for kind, spell in _SPELLINGS.items():
        if isinstance(value, kind):
            return spell(value)
    return str(value)


def to_moment(value: object) -> datetime | None:
    """A stored time (BSON date or ISO text) as an aware moment; None if it is no time.

    Text without an offset is read as UTC, as PyMongo does for dates without a zone.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, str):
        return _moment_from_text(value)
    return None


def to_clamped_moment(value: object) -> datetime:
    """Like `to_moment` for places that need a time: years beyond 1 to 9999 are clamped, no time is 1970."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if isinstance(value, DatetimeMS):
        return _EARLIEST if int(value) < 0 else _LATEST
    return to_moment(value) or EPOCH


def to_text(value: object, default: str = "") -> str:
    """An id or a short text as text; what is not text is spelt as in JSON, and nothing is `default`."""
    if type(value) is str:
        return value
    spelt = to_json(value)
    if spelt is None:
        return default
    return spelt if isinstance(spelt, str) else orjson.dumps(spelt).decode()


def to_texts(column: list[object], default: str = "") -> list[str]:
    """`to_text` of each value, faster where all are text."""
    if set(map(type, column)) == {str}:
        return column  # type: ignore[return-value]
    return [to_text(value, default) for value in column]


def to_optional_texts(column: list[object]) -> list[str | None]:
    """`to_text` of each value that is there, faster where all are text or nothing."""
    if set(map(type, column)) <= {str, NoneType}:
        return column  # type: ignore[return-value]
    return [None if value is None else to_text(value) for value in column]


def is_too_deep(value: object) -> bool:
    """Whether a JSON value is nested deeper than `MAX_DEPTH`; walks level by level, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _moment_from_text(text: str) -> datetime | None:
    parts = _ISO.fullmatch(text.strip())
    if parts is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = parts.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
        return moment + timedelta(milliseconds=int((fraction or "0").ljust(3, "0")[:3])) - to_offset(offset)
    except (ValueError, OverflowError):
        return None


def to_offset(text: str | None) -> timedelta:
    """An ISO 8601 offset (`Z`, `+05:30`, `+0530`, `+05`) as a duration; nothing is UTC. Raises ValueError."""
    if text is None or text in "Zz":
        return timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    if int(digits[:2]) > 23 or int(digits[2:]) > 59:
        raise ValueError(f"{text} is no offset")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -size if text[0] == "-" else size


def _clean_float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def clean_text(value: str) -> str:
    """Text that can be encoded: a lone half of a surrogate pair becomes U+FFFD."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_integer(value: int) -> int | float | None:
    """A whole number as JSON carries it: exact within 64 bits, else the nearest double, else null."""
    if -(2**63) <= value < 2**64:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return None


def _clean_mapping(value: Mapping[str, object]) -> dict[str, JSON]:
    return {clean_text(str(key)): to_json(item) for key, item in value.items()}


_SPELLINGS: dict[type, Callable[..., JSON]] = {
    type(None): lambda value: None,
    bool: lambda value: value,
    str: clean_text,
    int: clean_integer,
    float: _clean_float,
    dict: _clean_mapping,
    list: lambda value: [to_json(item) for item in value],
    Int64: int,
    datetime: iso_text,
    DatetimeMS: lambda value: None,
    ObjectId: str,
    Decimal128: str,
    Binary: lambda value: base64.b64encode(value).decode(),
    bytes: lambda value: base64.b64encode(value).decode(),
    Regex: lambda value: str(value.pattern),
    Timestamp: lambda value: iso_text(value.as_datetime()),
    Code: str,
    DBRef: lambda value: to_json(value.id),
    MinKey: lambda value: None,
    MaxKey: lambda value: None,
}
