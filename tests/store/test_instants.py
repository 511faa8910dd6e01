"""Instants and ranges: offsets, fractions of any length, and the conditions that MongoDB gets."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from bson import DatetimeMS
from hypothesis import given
from hypothesis import strategies as st

from store.errors import InvalidArgument
from store.instants import DateRange, Instant

NOON = 1_710_072_000_000
"""2024-03-10T12:00:00Z in milliseconds."""

READ: dict[str, Instant] = {
    "2024-03-10T12:00:00Z": Instant(NOON),
    "2024-03-10t12:00:00z": Instant(NOON),
    "2024-03-10T12:00Z": Instant(NOON),
    "2024-03-10T12:00:00.000Z": Instant(NOON),
    "2024-03-10T12:00:00+00:00": Instant(NOON),
    "2024-03-10T12:00:00-00:00": Instant(NOON),
    "2024-03-10T17:30:00+05:30": Instant(NOON),
    "2024-03-10T17:30:00+0530": Instant(NOON),
    "2024-03-10T17:00:00+05": Instant(NOON),
    "2024-03-10T08:30:00-03:30": Instant(NOON),
    "2024-03-11T02:00:00+14:00": Instant(NOON),
    "2024-03-10T00:00:00-12:00": Instant(NOON),
    "2024-03-10T12:00:00.5Z": Instant(NOON + 500),
    "2024-03-10T12:00:00.05Z": Instant(NOON + 50),
    "2024-03-10T12:00:00.123Z": Instant(NOON + 123),
    "2024-03-10T12:00:00.1230000Z": Instant(NOON + 123),
    "2024-03-10T12:00:00.1230001Z": Instant(NOON + 123, is_between=True),
    "2024-03-10T12:00:00.9999999999Z": Instant(NOON + 999, is_between=True),
    "2024-02-29T00:00:00Z": Instant(1_709_164_800_000),
    "1970-01-01T00:00:00Z": Instant(0),
    "1969-12-31T23:59:59.999Z": Instant(-1),
    "1969-12-31T23:59:59.9995Z": Instant(-1, is_between=True),
    "0001-01-01T00:00:00Z": Instant(-62_135_596_800_000),
    "9999-12-31T23:59:59.999Z": Instant(253_402_300_799_999),
}

WITHOUT_OFFSET = [
    "2024-03-10",
    "2024-03-10T12:00:00",
    "2024-03-10T12:00",
    "2024-03-10 12:00:00",
    "2024-03-10T12:00:00.5",
]
NO_TIME = [
    "",
    " ",
    "now",
    "2024",
    "2024-03",
    "2024-W10",
    "2024-070",
    "20240310T120000Z",
    "2024-3-10T12:00:00Z",
    "2024-03-10Z",
    "2024-03-10T12Z",
    "2024-03-10T12:00:00.Z",
    "2024-03-10T12:00:00,5Z",
    "2024-03-10T12:00:00 Z",
    " 2024-03-10T12:00:00Z",
    "2024-03-10T12:00:00Z\n",
    "2024-03-10T12:00:00ZZ",
    "2024-03-10T12:00:00 UTC",
    "+02024-03-10T12:00:00Z",
    "-2024-03-10T12:00:00Z",
    "1710072000000",
]
IMPOSSIBLE = [
    "2024-02-30T12:00:00Z",
    "2023-02-29T12:00:00Z",
    "2024-13-01T12:00:00Z",
    "2024-00-01T12:00:00Z",
    "0000-01-01T12:00:00Z",
    "2024-03-10T25:00:00Z",
    "2024-03-10T12:60:00Z",
    "2024-03-10T12:00:60Z",
    "2024-03-10T12:00:00+24:00",
    "2024-03-10T12:00:00+99:99",
    "2024-03-10T12:00:00+05:60",
]


@pytest.mark.parametrize(("text", "instant"), READ.items(), ids=READ)
def test_reading(text: str, instant: Instant) -> None:
    assert Instant.from_text(text) == instant


@pytest.mark.parametrize("text", WITHOUT_OFFSET)
def test_a_time_without_offset_is_refused_and_told_how_to_write_it(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"has no offset.*2024-03-10T12:00:00Z"):
        Instant.from_text(text)


@pytest.mark.parametrize("text", NO_TIME)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"not an ISO 8601 time with offset"):
        Instant.from_text(text)


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_no_calendar_and_no_clock_shows_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Instant.from_text(text)


def test_a_refusal_does_not_repeat_what_is_endless() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Instant.from_text("9" * 10_000)
    assert len(str(refused.value)) < 200


MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MOMENTS, OFFSETS)
def test_the_offset_never_matters(moment: datetime, zone: timezone) -> None:
    text = moment.astimezone(zone).isoformat(timespec="milliseconds")
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert Instant.from_text(text) == Instant(milliseconds)


# Ranges

AT, LATER = Instant(NOON), Instant(NOON + 1000)
BETWEEN = Instant(NOON, is_between=True)


@pytest.mark.parametrize(
    ("dates", "condition"),
    [
        (DateRange(), {}),
        (DateRange(start_exclusive=True, end_exclusive=True), {}),
        (DateRange(start=AT), {"$gte": DatetimeMS(NOON)}),
        (DateRange(start=AT, start_exclusive=True), {"$gt": DatetimeMS(NOON)}),
        (DateRange(start=AT, end_exclusive=True), {"$gte": DatetimeMS(NOON)}),
        (DateRange(end=AT), {"$lte": DatetimeMS(NOON)}),
        (DateRange(end=AT, end_exclusive=True), {"$lt": DatetimeMS(NOON)}),
        (DateRange(end=AT, start_exclusive=True), {"$lte": DatetimeMS(NOON)}),
        (DateRange(AT, LATER), {"$gte": DatetimeMS(NOON), "$lte": DatetimeMS(NOON + 1000)}),
        (DateRange(AT, AT, True, True), {"$gt": DatetimeMS(NOON), "$lt": DatetimeMS(NOON)}),
        (DateRange(start=BETWEEN), {"$gt": DatetimeMS(NOON)}),
        (DateRange(start=BETWEEN, start_exclusive=True), {"$gt": DatetimeMS(NOON)}),
        (DateRange(end=BETWEEN), {"$lte": DatetimeMS(NOON)}),
        (DateRange(end=BETWEEN, end_exclusive=True), {"$lte": DatetimeMS(NOON)}),
    ],
)
def test_a_range_as_a_condition(dates: DateRange, condition: dict[str, DatetimeMS]) -> None:
    """A start between two milliseconds rounds up, an end rounds down, and then no flag matters."""
    assert dates.to_condition() == condition


BOUNDS = st.none() | st.builds(Instant, st.integers(NOON - 3, NOON + 3), st.booleans())
RANGES = st.builds(DateRange, BOUNDS, BOUNDS, st.booleans(), st.booleans())
STORED = st.integers(NOON - 5, NOON + 5)


@given(RANGES, STORED)
def test_contains_says_what_the_bounds_mean(dates: DateRange, milliseconds: int) -> None:
    """Half a millisecond stands for whatever lies between two."""

    def place(bound: Instant) -> float:
        return bound.milliseconds + 0.5 * bound.is_between

    after = dates.start is None or (
        milliseconds > place(dates.start) or (milliseconds == place(dates.start) and not dates.start_exclusive)
    )
    before = dates.end is None or (
        milliseconds < place(dates.end) or (milliseconds == place(dates.end) and not dates.end_exclusive)
    )
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert dates.contains(moment) is (after and before)


@given(RANGES, STORED)
def test_the_condition_and_contains_agree(dates: DateRange, milliseconds: int) -> None:
    compare = {"$gt": int.__gt__, "$gte": int.__ge__, "$lt": int.__lt__, "$lte": int.__le__}
    matched = all(compare[name](milliseconds, int(bound)) for name, bound in dates.to_condition().items())
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert dates.contains(moment) is matched


def test_the_zone_of_a_stored_moment_does_not_matter() -> None:
    kolkata = datetime(2024, 3, 10, 17, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert DateRange(AT, AT).contains(kolkata)
    assert not DateRange(AT, AT).contains(kolkata + timedelta(milliseconds=1))
