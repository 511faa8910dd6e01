"""Pages: what `total`, `hasMore`, `page` and `perPage` mean, for threads, recall and nested messages alike."""

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.zoo import NOON, Answer, Client, as_document, fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]

_ARGUMENTS = "page: $page, perPage: $perPage, filter: $filter, orderBy: $orderBy"
_VARIABLES = "$page: Int, $perPage: PerPage, $filter: {0}Filter, $orderBy: {0}Order"
NUMBERS = "total page perPage hasMore"
LISTINGS = {
    "threads": f"query({_VARIABLES.format('Thread')}) {{ found: threads({_ARGUMENTS}) {{ SELECTION }} }}",
    "recall": (
        f'query({_VARIABLES.format("Message")}) {{ found: recall(threadId: "t1", {_ARGUMENTS}) {{ SELECTION }} }}'
    ),
    "nested": (
        f"query({_VARIABLES.format('Message')}) "
        f'{{ thread(id: "t1") {{ found: messages({_ARGUMENTS}) {{ SELECTION }} }} }}'
    ),
}
"""The three ways to a page; each asks for `found` with its rows under the name `rows`."""

every_listing = pytest.mark.parametrize("listing", LISTINGS)
of_messages = pytest.mark.parametrize("listing", ["recall", "nested"])


async def fill_listing(database: Any, listing: str, rows: list[Row]) -> None:
    """Rows with `id`, and perhaps `minute` and `metadata`, as threads or as messages of thread t1."""
    if listing == "threads":
        times = [NOON + timedelta(minutes=row.get("minute", 0)) for row in rows]
        stamps = [
            {"createdAt": time, "updatedAt": time, "metadata": row.get("metadata", {})}
            for row, time in zip(rows, times, strict=True)
        ]
        await fill(database, threads=[thread(row["id"], **fields) for row, fields in zip(rows, stamps, strict=True)])
    else:
        messages = [message(row["id"], minute=row.get("minute", 0), metadata=row.get("metadata")) for row in rows]
        await fill(database, threads=[thread("t1")], messages=messages)


async def ask_page(client: Client, listing: str, selection: str = "", **variables: Any) -> Answer:
    rows = "threads" if listing == "threads" else "messages"
    query = LISTINGS[listing].replace("SELECTION", selection or f"rows: {rows} {{ id }} {NUMBERS}")
    return await client.ask(query, **variables)


async def page_of(client: Client, listing: str, selection: str = "", **variables: Any) -> Row:
    data = (await ask_page(client, listing, selection, **variables)).data
    found: Row = (data["thread"] if listing == "nested" else data)["found"]
    return found


def numbered(count: int, **fields: Any) -> list[Row]:
    """r1 to r<count>, each a minute later than the one before."""
    return [{"id": f"r{number}", "minute": number, **fields} for number in range(1, count + 1)]


# P1: totals


async def test_p1_total_belongs_to_the_filter(database: Any) -> None:
    """Neither the other owner's threads, nor those of another status, nor the cut change the total."""
    is_open: Row = {"metadata": {"status": "open"}}
    mine = [thread(f"a{number}", **(is_open if number % 2 else {})) for number in range(1, 8)]
    others = [thread(f"b{number}", "res-b", **is_open) for number in range(1, 6)]
    await fill(database, threads=[*mine, *others])
    asked: Row = {"filter": {"resourceId": "res-a", **is_open}, "perPage": 2}
    async with serving(database) as client:
        pages = [await page_of(client, "threads", page=page, **asked) for page in range(3)]
    assert [ids(page["rows"]) for page in pages] == ["a7 a5", "a3 a1", ""]
    assert [page["total"] for page in pages] == [4, 4, 4]
    assert [page["hasMore"] for page in pages] == [True, False, False]
    assert [(page["page"], page["perPage"]) for page in pages] == [(0, 2), (1, 2), (2, 2)]


@of_messages
@pytest.mark.parametrize("form", ["text", "document", "both"])
async def test_p1_total_of_messages_belongs_to_the_filter(database: Any, listing: str, form: str) -> None:
    rows = [message(f"m{number}", minute=number, metadata={"open": number % 2 == 1}) for number in range(1, 8)]
    if form != "text":
        rows = [as_document(row, open=number % 2 == 0) for number, row in enumerate(rows)]
    if form == "both":
        rows[::3] = [
            message(row["id"], minute=n * 3 + 1, metadata={"open": n % 2 == 0}) for n, row in enumerate(rows[::3])
        ]
    await fill(database, threads=[thread("t1")], messages=[*rows, message("x", "t2", metadata={"open": True})])
    asked: Row = {"filter": {"metadata": {"open": True}}, "perPage": 2}
    async with serving(database) as client:
        pages = [await page_of(client, listing, page=page, **asked) for page in range(3)]
    assert [ids(page["rows"]) for page in pages] == ["m7 m5", "m3 m1", ""]
    assert [page["total"] for page in pages] == [4, 4, 4]
    assert [page["hasMore"] for page in pages] == [True, False, False]


either_way = pytest.mark.parametrize("filter", [None, {"metadata": {"k": "v"}}], ids=["unfiltered", "filtered"])


@every_listing
@either_way
async def test_p1_each_number_is_right_when_it_is_asked_for_alone(
    plain_database: Any, listing: str, filter: Row | None
) -> None:
    await fill_listing(plain_database, listing, numbered(5, metadata={"k": "v"}))
    pages: list[tuple[int, Any, bool]] = [(0, 2, True), (1, 2, True), (2, 2, False), (3, 2, False)]
    pages += [(0, 5, False), (0, 0, True), (0, False, False)]
    async with serving(plain_database) as client:
        for page, per_page, has_more in pages:
            asked = {"page": page, "perPage": per_page, "filter": filter}
            assert await page_of(client, listing, "hasMore", **asked) == {"hasMore": has_more}
            assert await page_of(client, listing, "total", **asked) == {"total": 5}
            assert await page_of(client, listing, "perPage page", **asked) == {"perPage": per_page, "page": page}


@every_listing
@either_way
async def test_p1_has_more_is_right_without_a_total(plain_database: Any, listing: str, filter: Row | None) -> None:
    await fill_listing(plain_database, listing, numbered(5, metadata={"k": "v"}))
    expected = {0: ("r5 r4", True), 1: ("r3 r2", True), 2: ("r1", False), 3: ("", False)}
    rows = f"rows: {'threads' if listing == 'threads' else 'messages'} {{ id }}"
    async with serving(plain_database) as client:
        pages = {
            page: await page_of(client, listing, f"{rows} hasMore", page=page, perPage=2, filter=filter)
            for page in expected
        }
    assert {page: (ids(found["rows"]), found["hasMore"]) for page, found in pages.items()} == expected


@every_listing
async def test_p1_nothing_matches(database: Any, listing: str) -> None:
    await fill_listing(database, listing, numbered(3, metadata={"k": "v"}))
    async with serving(database) as client:
        found = await page_of(client, listing, filter={"metadata": {"k": "other"}}, perPage=2)
    assert found == {"rows": [], "total": 0, "page": 0, "perPage": 2, "hasMore": False}


async def test_p1_nested_totals_are_each_threads_own(database: Any) -> None:
    rows = [
        message(f"{name}{n}", name, minute=n) for name, count in (("b", 1), ("c", 2), ("d", 3)) for n in range(count)
    ]
    await fill(database, threads=[thread(name) for name in "abcd"], messages=rows)
    query = "{ threads { threads { id messageCount messages(perPage: 2) { messages { id } total hasMore } } } }"
    async with serving(database) as client:
        found = {row["id"]: row for row in (await client.ask(query)).data["threads"]["threads"]}
    pages = {name: row["messages"] for name, row in found.items()}
    assert [ids(pages[name]["messages"]) for name in "abcd"] == ["", "b0", "c1 c0", "d2 d1"]
    assert [pages[name]["total"] for name in "abcd"] == [0, 1, 2, 3]
    assert [pages[name]["hasMore"] for name in "abcd"] == [False, False, False, True]
    assert [found[name]["messageCount"] for name in "abcd"] == [0, 1, 2, 3]


async def test_p1_nested_pages_with_other_filters_are_other_pages(plain_database: Any) -> None:
    """1, true and "1" are three values, though Python holds the first two for equal."""
    rows = [
        message("one", metadata={"n": 1}),
        message("yes", metadata={"n": True}),
        message("text", metadata={"n": "1"}),
    ]
    await fill(plain_database, threads=[thread("t1")], messages=rows)
    pages = " ".join(
        f"{name}: messages(filter: {{metadata: {{n: {value}}}}}) {{ messages {{ id }} total }}"
        for name, value in (("a", "1"), ("b", "true"), ("c", '"1"'))
    )
    async with serving(plain_database) as client:
        found = (await client.ask(f'{{ thread(id: "t1") {{ {pages} }} }}')).data["thread"]
    assert [ids(found[name]["messages"]) for name in "abc"] == ["one", "yes", "text"]
    assert [found[name]["total"] for name in "abc"] == [1, 1, 1]


# P2: equal times


async def walk(client: Client, listing: str, field: str, direction: str) -> list[Row]:
    order = {"field": field, "direction": direction}
    return [(await page_of(client, listing, page=page, perPage=10, orderBy=order)) for page in range(3)]


@every_listing
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
async def test_p2_equal_times_are_in_the_order_of_insertion(database: Any, listing: str, direction: str) -> None:
    """No row twice, none lost, and the same walk again when rows that do not matter come and go."""
    inserted = [f"r{number:02}" for number in range(25)]
    random.Random(7).shuffle(inserted)
    await fill_listing(database, listing, [{"id": id} for id in inserted])
    expected = inserted if direction == "ASC" else inserted[::-1]
    async with serving(database) as client:
        for field in ["createdAt", "updatedAt"] if listing == "threads" else ["createdAt"]:
            first = await walk(client, listing, field, direction)
            assert [len(page["rows"]) for page in first] == [10, 10, 5]
            assert " ".join(ids(page["rows"]) for page in first) == " ".join(expected)
            other = thread("zz", "res-b") if listing == "threads" else message("zz", "t2")
            collection = database["mastra_threads" if listing == "threads" else "mastra_messages"]
            await collection.insert_one(other)
            await collection.delete_one({"id": "zz"})
            assert await walk(client, listing, field, direction) == first


@pytest.mark.parametrize(("direction", "expected"), [("ASC", "c a d b"), ("DESC", "b d a c")])
async def test_p2_only_equal_times_are_in_the_order_of_insertion(database: Any, direction: str, expected: str) -> None:
    """c is the oldest though it was stored last; a and d share a time; b is the newest."""
    minutes = {"a": 5, "b": 9, "d": 5, "c": 1}
    await fill(database, messages=[message(id, minute=minute) for id, minute in minutes.items()])
    async with serving(database) as client:
        pages = [
            await page_of(client, "recall", page=page, perPage=1, orderBy={"direction": direction}) for page in range(4)
        ]
    assert " ".join(ids(page["rows"]) for page in pages) == expected


async def test_p2_the_filtered_list_has_the_same_order(database: Any) -> None:
    inserted = [message(f"r{number}", metadata={"even": number % 2 == 0}) for number in (3, 8, 1, 6, 4, 7, 2)]
    await fill(database, threads=[thread("t1")], messages=inserted)
    asked: Row = {"filter": {"metadata": {"even": True}}, "orderBy": {"direction": "ASC"}, "perPage": 3}
    async with serving(database) as client:
        for listing in ("recall", "nested"):
            pages = [await page_of(client, listing, page=page, **asked) for page in (0, 1)]
            assert [ids(page["rows"]) for page in pages] == ["r8 r6 r4", "r2"]


# P3: false and 0


@every_listing
async def test_p3_false_is_every_row(database: Any, listing: str) -> None:
    await fill_listing(database, listing, numbered(150))
    async with serving(database) as client:
        found = await page_of(client, listing, perPage=False)
    assert found == {
        "rows": [{"id": f"r{number}"} for number in range(150, 0, -1)],
        "total": 150,
        "page": 0,
        "perPage": False,
        "hasMore": False,
    }


@every_listing
async def test_p3_zero_is_no_row_but_counts(database: Any, listing: str) -> None:
    await fill_listing(database, listing, numbered(3))
    async with serving(database) as client:
        found = await page_of(client, listing, perPage=0)
        later = await page_of(client, listing, perPage=0, page=2)
    assert found == {"rows": [], "total": 3, "page": 0, "perPage": 0, "hasMore": True}
    assert (later["rows"], later["total"], later["page"]) == ([], 3, 2)


@every_listing
async def test_p3_false_goes_with_page_0_only(plain_database: Any, listing: str) -> None:
    await fill_listing(plain_database, listing, numbered(3))
    async with serving(plain_database) as client:
        answer = await ask_page(client, listing, perPage=False, page=1)
    assert answer.code == "BAD_USER_INPUT"
    assert "perPage: false" in answer.error["message"]
    assert "page 0" in answer.error["message"]


@every_listing
async def test_p3_the_default_page(database: Any, listing: str) -> None:
    """100 threads, 10 messages."""
    await fill_listing(database, listing, numbered(102))
    default = 100 if listing == "threads" else 10
    async with serving(database) as client:
        found = await page_of(client, listing)
    assert [row["id"] for row in found["rows"]] == [f"r{number}" for number in range(102, 102 - default, -1)]
    assert (found["total"], found["perPage"], found["hasMore"]) == (102, default, True)


@every_listing
@either_way
async def test_p3_false_refuses_what_it_cannot_return_whole(
    plain_database: Any, listing: str, filter: Row | None
) -> None:
    """Past the limit an error that names it, never a cut list; pages go on working."""
    await fill_listing(plain_database, listing, numbered(4, metadata={"k": "v"}))
    async with serving(plain_database, max_rows=3) as client:
        answer = await ask_page(client, listing, perPage=False, filter=filter)
        paged = await page_of(client, listing, perPage=2, filter=filter)
    assert answer.code == "LIMIT_EXCEEDED"
    assert "at most 3 rows" in answer.error["message"]
    assert "RECALLQL_MAX_ROWS" in answer.error["message"]
    assert (ids(paged["rows"]), paged["total"]) == ("r4 r3", 4)


@every_listing
async def test_p3_false_returns_exactly_as_many_as_the_limit(plain_database: Any, listing: str) -> None:
    await fill_listing(plain_database, listing, numbered(3))
    async with serving(plain_database, max_rows=3) as client:
        found = await page_of(client, listing, perPage=False)
    assert (ids(found["rows"]), found["hasMore"]) == ("r3 r2 r1", False)


@pytest.mark.parametrize(("per_page", "paged"), [(0, ""), (False, "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1")])
async def test_p3_included_messages_come_with_either(database: Any, per_page: Any, paged: str) -> None:
    await fill(database, messages=[*ten_messages(), message("a2", "t2", minute=30)])
    include = [{"id": "a2", "threadId": "t2"}, {"id": "m5", "withNextMessages": 1}]
    async with serving(database) as client:
        found = await recall(client, perPage=per_page, include=include)
    assert ids(found["messages"]) == "a2 " + (paged or "m6 m5")
    assert (found["total"], found["perPage"], found["hasMore"]) == (
        10,
        per_page,
        per_page == 0 and per_page is not False,
    )


# P4: negative and enormous numbers


OUT_OF_RANGE: list[tuple[Row, str, str]] = [
    ({"page": -1, "perPage": 3}, "BAD_USER_INPUT", "page must be a whole number >= 0"),
    ({"page": -1, "perPage": 0}, "BAD_USER_INPUT", "page must be a whole number >= 0"),
    ({"perPage": -5}, "BAD_USER_INPUT", "perPage must be a whole number >= 0"),
    ({"perPage": -5.0}, "BAD_USER_INPUT", "perPage must be a whole number >= 0"),
    ({"perPage": 1001}, "LIMIT_EXCEEDED", "perPage is 1001, but a page holds at most 1000 rows"),
    ({"page": 2**31 - 1, "perPage": 2**31 - 1}, "LIMIT_EXCEEDED", "at most"),
    ({"perPage": 2**63}, "LIMIT_EXCEEDED", "at most"),
    ({"page": 2**31}, "BAD_USER_INPUT", "32-bit"),
]


@every_listing
async def test_p4_numbers_out_of_range_are_refused_by_name(plain_database: Any, listing: str) -> None:
    await fill_listing(plain_database, listing, numbered(3))
    async with serving(plain_database) as client:
        for asked, code, words in OUT_OF_RANGE:
            answer = await ask_page(client, listing, **asked)
            assert answer.code == code, asked
            assert words in answer.error["message"]
            assert "r1" not in str(answer.body)


@every_listing
@either_way
async def test_p4_the_farthest_page_is_empty(database: Any, listing: str, filter: Row | None) -> None:
    await fill_listing(database, listing, numbered(3, metadata={"k": "v"}))
    async with serving(database) as client:
        found = await page_of(client, listing, page=2**31 - 1, perPage=1000, filter=filter)
    assert found == {"rows": [], "total": 3, "page": 2**31 - 1, "perPage": 1000, "hasMore": False}


@every_listing
async def test_p4_the_largest_page_is_a_setting(plain_database: Any, listing: str) -> None:
    await fill_listing(plain_database, listing, numbered(3))
    async with serving(plain_database, max_page_size=2) as client:
        answer = await ask_page(client, listing, perPage=3)
        found = await page_of(client, listing, perPage=2)
    assert answer.code == "LIMIT_EXCEEDED"
    assert "at most 2 rows" in answer.error["message"]
    assert ids(found["rows"]) == "r3 r2"


# P5: messages that arrive in between


@of_messages
async def test_p5_new_messages_move_pages_but_not_dates(database: Any, listing: str) -> None:
    """The next page repeats a message; everything before the last time seen is a clean cursor."""
    await fill(database, threads=[thread("t1")], messages=ten_messages())
    older = {"dateRange": {"end": "2024-03-10T12:07:00.000Z", "endExclusive": True}}
    async with serving(database) as client:
        first = await page_of(client, listing, perPage=4)
        await fill(database, messages=[message("m11", minute=11)])
        second = await page_of(client, listing, perPage=4, page=1)
        before = await page_of(client, listing, perPage=4, filter=older)
    assert ids(first["rows"]) == "m10 m9 m8 m7"
    assert (ids(second["rows"]), second["total"], second["hasMore"]) == ("m7 m6 m5 m4", 11, True)
    assert (ids(before["rows"]), before["total"], before["hasMore"]) == ("m6 m5 m4 m3", 6, True)


@of_messages
async def test_p5_a_walk_by_dates_ends(database: Any, listing: str) -> None:
    await fill(database, threads=[thread("t1")], messages=ten_messages())
    asked: Row = {"perPage": 3, "orderBy": {"direction": "ASC"}}
    seen: list[str] = []
    async with serving(database) as client:
        for minute in (0, 3, 6, 9, 10):
            start = f"2024-03-10T12:{minute:02}:00.000Z"
            page = await page_of(
                client, listing, filter={"dateRange": {"start": start, "startExclusive": True}}, **asked
            )
            seen.append(f"{ids(page['rows'])}, {page['total']} {page['hasMore']}")
    assert seen == ["m1 m2 m3, 10 True", "m4 m5 m6, 7 True", "m7 m8 m9, 4 True", "m10, 1 False", ", 0 False"]
