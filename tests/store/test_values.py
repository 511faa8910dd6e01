"""BSON values as JSON values, and moments as text."""

import json
import math
import re
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson import decode as decode_bson
from bson import encode as encode_bson
from hypothesis import given
from hypothesis import strategies as st

from store.values import (
    CODEC,
    clean_integer,
    clean_text,
    iso_text,
    iso_texts,
    to_clamped_moment,
    to_json,
    to_moment,
    to_text,
)

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
HEX = "65f0c0ffee65f0c0ffee65f0"
BEFORE_YEAR_1, AFTER_YEAR_9999 = DatetimeMS(-62_135_596_800_001), DatetimeMS(253_402_300_800_000)

SPELT: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "true": (True, True),
    "false": (False, False),
    "text": ("hé", "hé"),
    "half a surrogate pair": ("ok \ud83d", "ok \ufffd"),
    "a whole pair": ("\U0001f9f5", "\U0001f9f5"),
    "int": (7, 7),
    "long": (Int64(2**63 - 1), 2**63 - 1),
    "least long": (Int64(-(2**63)), -(2**63)),
    "unsigned": (2**64 - 1, 2**64 - 1),
    "beyond 64 bits": (2**70, float(2**70)),
    "beyond a double": (10**400, None),
    "double": (1.5, 1.5),
    "whole double": (1.0, 1.0),
    "negative zero": (-0.0, -0.0),
    "nan": (math.nan, None),
    "infinity": (math.inf, None),
    "minus infinity": (-math.inf, None),
    "object id": (ObjectId(HEX), HEX),
    "decimal": (Decimal128("1.10"), "1.10"),
    "decimal nan": (Decimal128("NaN"), "NaN"),
    "date": (NOON, "2024-03-10T12:00:00.000Z"),
    "date of another zone": (NOON.astimezone(timezone(timedelta(hours=5))), "2024-03-10T12:00:00.000Z"),
    "date before year 1": (BEFORE_YEAR_1, None),
    "date after year 9999": (AFTER_YEAR_9999, None),
    "bytes": (b"\x00\xff", "AP8="),
    "binary": (Binary(b"\x00\xff", 128), "AP8="),
    "uuid": (Binary.from_uuid(uuid.UUID(int=1)), "AAAAAAAAAAAAAAAAAAAAAQ=="),
    "empty bytes": (b"", ""),
    "regex": (Regex("^a", "i"), "^a"),
    "code": (Code("return 1"), "return 1"),
    "code with scope": (Code("return x", {"x": 1}), "return x"),
    "timestamp": (Timestamp(1_710_072_000, 1), "2024-03-10T12:00:00.000Z"),
    "reference": (DBRef("threads", ObjectId(HEX)), HEX),
    "least key": (MinKey(), None),
    "greatest key": (MaxKey(), None),
    "list": ([1, [math.nan, ObjectId(HEX)]], [1, [None, HEX]]),
    "document": ({"a": {"b": [math.inf]}, "c.d": 1, "$e": 2, "": 3}, {"a": {"b": [None]}, "c.d": 1, "$e": 2, "": 3}),
    "key with half a pair": ({"\ud83d": 1}, {"\ufffd": 1}),
}


@pytest.mark.parametrize(("value", "spelt"), SPELT.values(), ids=SPELT)
def test_spelling(value: Any, spelt: Any) -> None:
    found = to_json(value)
    assert found == spelt
    assert type(found) is type(spelt)


def test_what_is_stored_and_read_again_is_spelt_the_same() -> None:
    """Through BSON as the store decodes it: no date and no broken text raises."""
    names = [name for name in SPELT if name not in ("half a surrogate pair", "key with half a pair", "unsigned")]
    stored = {name: SPELT[name][0] for name in names if "beyond" not in name}
    read = decode_bson(encode_bson(stored), CODEC)
    assert to_json(read) == {name: SPELT[name][1] for name in stored}


def test_broken_utf_8_is_read() -> None:
    broken = encode_bson({"a": "xx"}).replace(b"xx", b"x\xff")
    assert to_json(decode_bson(broken, CODEC)) == {"a": "x\ufffd"}


def test_booleans_stay_booleans() -> None:
    """Python counts True as 1; JSON does not."""
    assert json.dumps(to_json({"a": True, "b": 1, "c": 1.0})) == '{"a": true, "b": 1, "c": 1.0}'


BSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | st.sampled_from(
        [ObjectId(HEX), Decimal128("1.5"), Int64(5), BEFORE_YEAR_1, AFTER_YEAR_9999, MinKey(), Regex("a")]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=20,
)


@given(BSON)
def test_any_value_becomes_strict_json(value: Any) -> None:
    """The encoder of answers takes it, and a second pass changes nothing."""
    spelt = to_json(value)
    orjson.dumps(spelt)
    json.dumps(spelt, allow_nan=False).encode()
    assert to_json(spelt) == spelt


@given(st.integers(-(2**63), 2**64 - 1))
def test_whole_numbers_of_64_bits_are_exact(number: int) -> None:
    assert clean_integer(number) == number
    assert isinstance(clean_integer(number), int)


@given(st.text())
def test_proper_text_stays_as_it_is(text: str) -> None:
    assert clean_text(text) == text


# Moments


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON, "2024-03-10T12:00:00.000Z"),
        (NOON + timedelta(microseconds=7999), "2024-03-10T12:00:00.007Z"),
        (datetime(2024, 3, 10, 17, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))), "2024-03-10T12:00:00.000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 1000, tzinfo=UTC), "1969-12-31T23:59:59.001Z"),
    ],
)
def test_a_moment_as_text(moment: datetime, text: str) -> None:
    assert iso_text(moment) == text


@given(st.datetimes(timezones=st.timezones()))
def test_every_moment_is_told_in_utc(moment: datetime) -> None:
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", iso_text(moment))


@pytest.mark.parametrize(
    ("stored", "moment"),
    [
        (NOON, NOON),
        (NOON.replace(tzinfo=None), NOON),
        ("2024-03-10T12:00:00.000Z", NOON),
        ("2024-03-10T12:00:00Z", NOON),
        ("2024-03-10T12:00:00", NOON),
        ("2024-03-10 12:00", NOON),
        ("2024-03-10T17:30:00+05:30", NOON),
        ("2024-03-10T07:00:00.000-0500", NOON),
        ("2024-03-10T12:00:00.123456789Z", NOON + timedelta(milliseconds=123)),
        ("2024-03-10T12:00:00.5Z", NOON + timedelta(milliseconds=500)),
        (" 2024-03-10T12:00:00Z ", NOON),
        ("yesterday", None),
        ("", None),
        ("2024-02-30T12:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-12:00", None),
        (None, None),
        (True, None),
        ([], None),
        (AFTER_YEAR_9999, None),
    ],
)
def test_a_stored_time_as_a_moment(stored: object, moment: datetime | None) -> None:
    assert to_moment(stored) == moment


@pytest.mark.parametrize(
    ("stored", "moment"),
    [
        (NOON, NOON),
        ("2024-03-10T12:00:00Z", NOON),
        (BEFORE_YEAR_1, datetime(1, 1, 1, tzinfo=UTC)),
        (AFTER_YEAR_9999, datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("yesterday", datetime(1970, 1, 1, tzinfo=UTC)),
        (None, datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_where_a_time_is_needed_there_is_one(stored: object, moment: datetime) -> None:
    assert to_clamped_moment(stored) == moment


@given(st.text() | BSON)
def test_no_stored_time_raises(stored: object) -> None:
    assert to_clamped_moment(stored).tzinfo is not None


# Ids and short texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("t1", "t1"),
        ("", ""),
        (" t1 ", " t1 "),
        (5, "5"),
        (Int64(5), "5"),
        (1.5, "1.5"),
        (True, "true"),
        (ObjectId(HEX), HEX),
        (Decimal128("1.10"), "1.10"),
        (["a"], '["a"]'),
        ({"a": None}, '{"a":null}'),
        (None, "unknown"),
        (math.nan, "unknown"),
        (MinKey(), "unknown"),
    ],
)
def test_what_stands_for_an_id_as_text(value: object, text: str) -> None:
    """Text as it is; all else is spelt as in JSON (blanks aside), and what has no spelling is the default."""
    assert to_text(value, "unknown").replace(": ", ":") == text


@given(moments=st.lists(st.datetimes(timezones=st.just(UTC)), max_size=5))
def test_many_moments_are_spelt_like_one(moments: list[datetime]) -> None:
    assert iso_texts(moments) == [iso_text(moment) for moment in moments]


def test_many_moments_of_several_zones_are_spelt_like_one() -> None:
    moments = [NOON, NOON.astimezone(timezone(timedelta(hours=5)))]
    assert iso_texts(moments) == ["2024-03-10T12:00:00.000Z"] * 2
