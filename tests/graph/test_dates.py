"""Dates: the edges of a range, offsets in, `Z` out, and no trace of the server's own zone."""

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.zoo import NOON, Client, as_document, ask_recall, fill, ids, message, recall, serving, thread

Row = dict[str, Any]
ASC = {"field": "createdAt", "direction": "ASC"}
UTC_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ")


async def in_range(client: Client, **dates: Any) -> Row:
    """The messages of thread t1 in a range, oldest first, as recall gives them; nested lists must agree."""
    found = await recall(client, filter={"dateRange": dates}, orderBy=ASC)
    query = """query($filter: MessageFilter) { thread(id: "t1") {
        messages(filter: $filter, orderBy: {direction: ASC}) { messages { id } total hasMore } } }"""
    nested = (await client.ask(query, filter={"dateRange": dates})).data["thread"]["messages"]
    assert (ids(nested["messages"]), nested["total"]) == (ids(found["messages"]), found["total"])
    return found


async def fill_seconds(database: Any) -> None:
    """s0, s1 and s2, at the first three seconds of 12:00."""
    await fill(database, threads=[thread("t1")], messages=[message(f"s{n}", minute=n / 60) for n in range(3)])


# R6: the edges of a range


def at(second: int | None) -> str | None:
    return None if second is None else f"2024-03-10T12:00:{second:02}.000Z"


@pytest.mark.parametrize(
    ("start", "end", "flags", "expected"),
    [
        (0, 2, "", "s0 s1 s2"),
        (0, 2, "start", "s1 s2"),
        (0, 2, "end", "s0 s1"),
        (0, 2, "start end", "s1"),
        (1, 1, "", "s1"),
        (1, 1, "start", ""),
        (1, 1, "end", ""),
        (1, 1, "start end", ""),
        (2, 0, "", ""),
        (None, 1, "", "s0 s1"),
        (None, 1, "end", "s0"),
        (None, 1, "start", "s0 s1"),
        (1, None, "", "s1 s2"),
        (1, None, "start", "s2"),
        (1, None, "end", "s1 s2"),
        (None, None, "start end", "s0 s1 s2"),
    ],
)
async def test_r6_edges(database: Any, start: int | None, end: int | None, flags: str, expected: str) -> None:
    """A flag without its date changes nothing, and a start after the end is an empty page."""
    await fill_seconds(database)
    dates = {"start": at(start), "end": at(end), "startExclusive": "start" in flags, "endExclusive": "end" in flags}
    async with serving(database) as client:
        found = await in_range(client, **dates)
        without = await in_range(client, **{name: value for name, value in dates.items() if value})
    assert ids(found["messages"]) == ids(without["messages"]) == expected
    assert (found["total"], found["hasMore"]) == (len(expected.split()), False)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ({"start": "2024-03-10T12:00:01.0001Z"}, "s2"),
        ({"start": "2024-03-10T12:00:00.9999Z"}, "s1 s2"),
        ({"end": "2024-03-10T12:00:01.0009Z"}, "s0 s1"),
        ({"end": "2024-03-10T12:00:01.0009Z", "endExclusive": True}, "s0 s1"),
        ({"end": "2024-03-10T12:00:00.9999999Z"}, "s0"),
        ({"start": "2024-03-10T12:00:01.0000000Z", "startExclusive": True}, "s2"),
        ({"start": "2024-03-10T12:00:01Z", "end": "2024-03-10T12:00:01.0000001Z"}, "s1"),
        ({"start": "2024-03-10T12:00Z", "end": "2024-03-10T12:00+00:00"}, "s0"),
        ({"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59.999Z"}, "s0 s1 s2"),
    ],
)
async def test_r6_bounds_are_exact_below_the_millisecond(plain_database: Any, dates: Row, expected: str) -> None:
    await fill_seconds(plain_database)
    async with serving(plain_database) as client:
        assert ids((await in_range(client, **dates))["messages"]) == expected


@pytest.mark.parametrize("text", ["2024-03-10", "2024-W10", "2024-03", "noon", "", "2024-02-30T12:00:00Z"])
async def test_r6_a_date_without_a_time_is_refused(plain_database: Any, text: str) -> None:
    """ "Up to that day" would lose the day, or most of it: as a literal and as a variable."""
    await fill_seconds(plain_database)
    literal = '{ recall(threadId: "t1", filter: {dateRange: {BOUND: "TEXT"}}) { total } }'
    variable = 'query($f: MessageFilter) { recall(threadId: "t1", filter: $f) { total } }'
    async with serving(plain_database) as client:
        for bound in ("start", "end"):
            written = await client.ask(literal.replace("BOUND", bound).replace("TEXT", text))
            sent = await client.ask(variable, f={"dateRange": {bound: text}})
            assert (written.code, sent.code) == ("BAD_USER_INPUT", "BAD_USER_INPUT")
            assert text in written.error["message"]


@pytest.mark.parametrize("dates", [{"start": "0001-01-01T00:00:00+14:00"}, {"end": "9999-12-31T23:59:59-12:00"}])
async def test_r6_bounds_in_the_years_0_and_10000_are_no_fault_of_ours(plain_database: Any, dates: Row) -> None:
    """An offset leads out of the years that have four digits: served, or refused in plain words."""
    await fill_seconds(plain_database)
    async with serving(plain_database) as client:
        answer = await ask_recall(client, threadId="t1", filter={"dateRange": dates})
    if "errors" in answer.body:
        assert answer.code == "BAD_USER_INPUT"
    else:
        assert answer.data["recall"]["total"] == 3


async def test_r6_total_and_pages_belong_to_the_range(database: Any) -> None:
    rows = [message(f"m{n}", minute=n) for n in range(1, 11)]
    await fill(database, messages=[*rows, message("other", "t2", minute=5)])
    dates = {"dateRange": {"start": "2024-03-10T12:03:00Z", "end": "2024-03-10T12:07:00Z"}}
    async with serving(database) as client:
        pages = [await recall(client, filter=dates, perPage=2, page=page) for page in range(4)]
    assert [ids(page["messages"]) for page in pages] == ["m7 m6", "m5 m4", "m3", ""]
    assert [(page["total"], page["hasMore"]) for page in pages] == [(5, True), (5, True), (5, False), (5, False)]


async def test_r6_the_range_restrains_neither_included_messages_nor_their_neighbours(database: Any) -> None:
    await fill_seconds(database)
    dates = {"dateRange": {"start": at(2)}}
    include = [{"id": "s0", "withNextMessages": 1}]
    async with serving(database) as client:
        found = await recall(client, filter=dates, include=include, orderBy=ASC)
    assert (ids(found["messages"]), found["total"], found["hasMore"]) == ("s0 s1 s2", 1, False)


async def test_r6_dates_and_metadata_must_both_hold(database: Any) -> None:
    rows = [as_document(message("d0"), k="v"), message("t1", minute=1, metadata={"k": "v"}), message("x", minute=2)]
    await fill(database, messages=[*rows, message("t3", minute=3, metadata={"k": "v"})])
    dates = {"start": "2024-03-10T12:00:00Z", "end": "2024-03-10T12:03:00Z", "endExclusive": True}
    async with serving(database) as client:
        found = await recall(client, filter={"dateRange": dates, "metadata": {"k": "v"}}, orderBy=ASC)
    assert (ids(found["messages"]), found["total"]) == ("d0 t1", 2)


# R7: zones in, zones out


@pytest.fixture(params=["America/New_York", "Asia/Kolkata", "UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """The zone of the serving process; New York's clocks change at 2024-03-10T07:00Z."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = str(request.param)
    time.tzset()
    yield str(request.param)
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


SEVEN = datetime(2024, 3, 10, 7, tzinfo=UTC)


AROUND_SEVEN: list[tuple[Row, bool]] = [
    ({"start": "2024-03-10T12:30:00+05:30"}, True),
    ({"start": "2024-03-10T12:30:00+05:30", "startExclusive": True}, False),
    ({"end": "2024-03-10T02:00:00-05:00"}, True),
    ({"end": "2024-03-10T02:00:00-05:00", "endExclusive": True}, False),
    ({"start": "2024-03-10T03:00:00-04:00", "end": "2024-03-10T03:00:00-04:00"}, True),
    ({"start": "2024-03-10T07:00:00.001Z"}, False),
    ({"end": "2024-03-10T06:59:59.999Z"}, False),
    ({"start": "2024-03-10T07:00:00z", "end": "2024-03-10t07:00:00+0000"}, True),
]


async def test_r7_offsets_are_instants_whatever_the_servers_zone(plain_database: Any, zone: str) -> None:
    await fill(plain_database, threads=[thread("t1")], messages=[message("m", createdAt=SEVEN)])
    async with serving(plain_database) as client:
        for dates, is_found in AROUND_SEVEN:
            assert (await in_range(client, **dates))["total"] == int(is_found), dates


async def test_r7_a_time_without_offset_is_refused(plain_database: Any, zone: str) -> None:
    query = 'query($dates: DateRange) { recall(threadId: "t1", filter: {dateRange: $dates}) { total } }'
    zoneless = ["2024-03-10T07:00:00", "2024-03-10T07:00:00.000", "2024-03-10 07:00:00", "2024-03-10T07:00"]
    async with serving(plain_database) as client:
        for text in zoneless:
            for bound in ("start", "end"):
                answer = await client.ask(query, dates={bound: text})
                assert answer.code == "BAD_USER_INPUT", text
                assert "offset" in answer.error["message"]


async def test_r7_every_time_in_an_answer_is_utc_and_says_so(plain_database: Any, zone: str) -> None:
    """Columns, times inside metadata and content, and those of the UI message."""
    times: Row = {"createdAt": SEVEN, "updatedAt": SEVEN, "metadata": {"at": SEVEN}}
    row = as_document(message("m", createdAt=SEVEN), at=SEVEN)
    await fill(plain_database, threads=[thread("t1", **times)], messages=[row])
    await plain_database["mastra_resources"].insert_one({"id": "res-a", **times})
    query = """{ thread(id: "t1") {
        createdAt updatedAt metadata resource { createdAt updatedAt metadata }
        firstMessage { createdAt metadata content uiMessage }
        messages { messages { createdAt } }
    } }"""
    async with serving(plain_database) as client:
        answer = await client.ask(query)
    found = [value for value in strings(answer.data) if value.startswith("2024")]
    assert len(found) >= 11
    assert set(found) == {"2024-03-10T07:00:00.000Z"}


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (NOON.replace(microsecond=7000), "2024-03-10T12:00:00.007Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), "1969-12-31T23:59:59.999Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
async def test_r7_times_have_milliseconds_and_four_digits_of_year(
    plain_database: Any, stored: datetime, shown: str
) -> None:
    await fill(plain_database, messages=[message("m", createdAt=stored)])
    async with serving(plain_database) as client:
        data = (await client.ask('{ message(id: "m") { createdAt } }')).data
    assert data["message"]["createdAt"] == shown
    assert UTC_TEXT.fullmatch(shown)
