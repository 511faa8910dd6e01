"""Cursors: `after` continues a list where an earlier answer ended, whatever was saved or deleted in between."""

import random
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from store.cursors import Cursor
from store.errors import InvalidArgument
from store.ordering import Order
from tests.graph.test_commands import listening
from tests.zoo import NOON, Answer, Client, as_document, fill, ids, message, serving, ten_messages, thread

Row = dict[str, Any]

QUERIES = {
    "threads": """query($perPage: PerPage, $page: Int, $after: Cursor, $filter: ThreadFilter, $orderBy: ThreadOrder) {
        found: threads(perPage: $perPage, page: $page, after: $after, filter: $filter, orderBy: $orderBy) {
          rows: threads { id } SELECTION endCursor } }""",
    "recall": """query($perPage: PerPage, $page: Int, $after: Cursor, $filter: MessageFilter, $orderBy: MessageOrder,
                       $include: [IncludeMessage!], $resourceId: ID, $threadId: ID = "t1") {
        found: recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page, after: $after,
                      filter: $filter, orderBy: $orderBy, include: $include) {
          rows: messages { id } SELECTION endCursor } }""",
}
ALL_NUMBERS = "total hasMore"

every_listing = pytest.mark.parametrize("listing", QUERIES)
either_way = pytest.mark.parametrize("direction", ["ASC", "DESC"])


async def ask_page(client: Client, listing: str, selection: str = ALL_NUMBERS, **variables: Any) -> Answer:
    return await client.ask(QUERIES[listing].replace("SELECTION", selection), **variables)


async def page_of(client: Client, listing: str, selection: str = ALL_NUMBERS, **variables: Any) -> Row:
    found: Row = (await ask_page(client, listing, selection, **variables)).data["found"]
    return found


async def walk(client: Client, listing: str, selection: str = ALL_NUMBERS, **variables: Any) -> AsyncIterator[Row]:
    """Page after page, up to the first without rows."""
    after = None
    while True:
        page = await page_of(client, listing, selection, after=after, **variables)
        if not page["rows"]:
            return
        yield page
        after = page["endCursor"]


def crowded(dice: random.Random, count: int) -> list[Row]:
    """Rows with many equal times, some of them without a time, in no order."""
    rows = [{"id": f"r{number}", "createdAt": NOON + timedelta(minutes=dice.randrange(4))} for number in range(count)]
    for row in dice.sample(rows, 3):
        del row["createdAt"]
    for row in dice.sample(rows, 2):
        row["createdAt"] = None
    return rows


async def fill_listing(database: Any, listing: str, rows: list[Row], as_documents: bool = False) -> None:
    """Rows with `id` and perhaps `createdAt` as threads or as messages of t1, every third of them open."""
    statuses = ["open" if number % 3 == 0 else "closed" for number in range(len(rows))]
    if listing == "threads":
        made = [thread(row["id"], metadata={"status": status}) for row, status in zip(rows, statuses, strict=True)]
    else:
        made = [
            as_document(message(row["id"]), status=status)
            if as_documents
            else message(row["id"], metadata={"status": status})
            for row, status in zip(rows, statuses, strict=True)
        ]
    for row, stored in zip(rows, made, strict=True):
        del stored["createdAt"]
        stored |= row
    await fill(database, **{"threads" if listing == "threads" else "messages": made})


@every_listing
@either_way
@pytest.mark.parametrize("selection", ["", "hasMore", ALL_NUMBERS])
@pytest.mark.parametrize("filter", [{}, {"metadata": {"status": "open"}}])
@pytest.mark.parametrize("as_documents", [False, True])
async def test_a_walk_meets_every_row_once(
    database: Any, listing: str, direction: str, selection: str, filter: Row, as_documents: bool
) -> None:
    """Equal times, missing times, and matches that the database or we decide: the pages make up the whole list."""
    await fill_listing(database, listing, crowded(random.Random(7), 26), as_documents)
    asked: Row = {"orderBy": {"direction": direction}, "filter": filter}
    async with serving(database) as client:
        whole = await page_of(client, listing, perPage=False, **asked)
        pages = [page async for page in walk(client, listing, selection, perPage=4, **asked)]
    assert [row for page in pages for row in page["rows"]] == whole["rows"]
    assert len(whole["rows"]) == (9 if filter else 26)
    if "total" in selection:
        assert {page["total"] for page in pages} == {len(whole["rows"])}
    if "hasMore" in selection:
        assert [page["hasMore"] for page in pages] == [True] * (len(pages) - 1) + [False]


@either_way
async def test_a_walk_over_threads_by_their_last_change(database: Any, direction: str) -> None:
    dice = random.Random(3)
    times = [NOON + timedelta(minutes=dice.randrange(3)) for _ in range(12)]
    await fill(database, threads=[thread(f"t{number}", updatedAt=time) for number, time in enumerate(times)])
    asked: Row = {"orderBy": {"field": "updatedAt", "direction": direction}}
    async with serving(database) as client:
        whole = await page_of(client, "threads", perPage=False, **asked)
        pages = [page async for page in walk(client, "threads", perPage=5, **asked)]
    assert [row for page in pages for row in page["rows"]] == whole["rows"]


@either_way
async def test_a_walk_over_times_kept_as_text(database: Any, direction: str) -> None:
    times = ["2024-03-10T12:00:00.000Z", "2024-03-10T14:00:00.000+01:00", NOON, NOON - timedelta(hours=2)]
    rows = [message(f"m{number}", createdAt=time) for number, time in enumerate(times)]
    await fill(database, messages=rows)
    asked: Row = {"orderBy": {"direction": direction}}
    async with serving(database) as client:
        pages = [page async for page in walk(client, "recall", perPage=1, **asked)]
    in_order = ["m3", "m0", "m2", "m1"]
    assert [row["id"] for page in pages for row in page["rows"]] == (in_order if direction == "ASC" else in_order[::-1])


# P5: messages that arrive in between


async def test_p5_new_messages_do_not_move_what_follows(database: Any) -> None:
    await fill(database, threads=[thread("t1")], messages=ten_messages())
    async with serving(database) as client:
        first = await page_of(client, "recall", perPage=4)
        await fill(database, messages=[message("m11", minute=11)])
        second = await page_of(client, "recall", perPage=4, after=first["endCursor"])
    assert ids(first["rows"]) == "m10 m9 m8 m7"
    assert (ids(second["rows"]), second["total"], second["hasMore"]) == ("m6 m5 m4 m3", 11, True)


async def test_p5_messages_of_the_same_moment_arrive(database: Any) -> None:
    """Page numbers and dates cannot tell them apart."""
    await fill(database, messages=[message(f"m{number}") for number in range(1, 6)])
    async with serving(database) as client:
        first = await page_of(client, "recall", perPage=2)
        await fill(database, messages=[message("m6")])
        second = await page_of(client, "recall", perPage=2, after=first["endCursor"])
    assert (ids(first["rows"]), ids(second["rows"])) == ("m5 m4", "m3 m2")


async def test_deleted_rows_move_nothing(database: Any) -> None:
    await fill(database, messages=ten_messages())
    async with serving(database) as client:
        first = await page_of(client, "recall", perPage=4)
        await database.mastra_messages.delete_many({"id": {"$in": ["m10", "m9", "m6"]}})
        second = await page_of(client, "recall", perPage=2, after=first["endCursor"])
    assert (ids(second["rows"]), second["total"], second["hasMore"]) == ("m5 m4", 7, True)


async def test_nothing_is_lost_when_the_row_itself_is_deleted(database: Any) -> None:
    """Only its time is known then: others of that very time may come once more."""
    await fill(database, messages=[message("a", minute=1), *(message(id, minute=2) for id in "bcd")])
    async with serving(database) as client:
        first = await page_of(client, "recall", perPage=2)
        await database.mastra_messages.delete_one({"id": "c"})
        second = await page_of(client, "recall", perPage=2, after=first["endCursor"])
        third = await page_of(client, "recall", perPage=2, after=second["endCursor"])
    assert [ids(page["rows"]) for page in (first, second, third)] == ["d c", "d b", "a"]


@every_listing
async def test_an_empty_page_keeps_the_place_for_what_is_saved_later(database: Any, listing: str) -> None:
    """How a reader follows a list: the same cursor until there is something new."""
    asked: Row = {"orderBy": {"direction": "ASC"}}
    rows = [{"id": f"r{number}", "createdAt": NOON + timedelta(minutes=number)} for number in range(3)]
    await fill_listing(database, listing, rows[:2])
    async with serving(database) as client:
        first = await page_of(client, listing, **asked)
        waiting = await page_of(client, listing, after=first["endCursor"], **asked)
        await fill_listing(database, listing, rows[2:])
        later = await page_of(client, listing, after=waiting["endCursor"], **asked)
    assert (waiting["rows"], waiting["total"], waiting["hasMore"]) == ([], 2, False)
    assert waiting["endCursor"] == first["endCursor"]
    assert (ids(later["rows"]), later["total"]) == ("r2", 3)


@every_listing
async def test_an_empty_list_has_no_cursor(database: Any, listing: str) -> None:
    async with serving(database) as client:
        assert (await page_of(client, listing))["endCursor"] is None
        assert (await page_of(client, listing, perPage=0))["endCursor"] is None


async def test_a_row_too_odd_to_be_named_ends_a_walk_and_does_not_repeat_it(plain_database: Any) -> None:
    odd = message("odd", createdAt=Decimal128("5"))
    await fill(plain_database, messages=[message("m2", minute=2), message("m1", minute=1), odd])
    async with serving(plain_database) as client:
        first = await page_of(client, "recall", perPage=2)
        last = await page_of(client, "recall", perPage=1, after=first["endCursor"])
    assert (ids(first["rows"]), ids(last["rows"]), last["endCursor"]) == ("m2 m1", "odd", None)


async def test_all_that_follows_and_none_of_it(database: Any) -> None:
    await fill(database, messages=ten_messages())
    async with serving(database) as client:
        end = (await page_of(client, "recall", perPage=7))["endCursor"]
        rest = await page_of(client, "recall", perPage=False, after=end)
        nothing = await page_of(client, "recall", perPage=0, after=end)
    assert (ids(rest["rows"]), rest["total"], rest["hasMore"]) == ("m3 m2 m1", 10, False)
    assert (nothing["rows"], nothing["total"], nothing["hasMore"], nothing["endCursor"]) == ([], 10, True, end)


async def test_included_messages_count_for_the_end_and_not_for_the_cursor(database: Any) -> None:
    """`hasMore` is false once everything that was left has been answered."""
    await fill(database, threads=[thread("t1")], messages=ten_messages())
    async with serving(database) as client:
        first = await page_of(client, "recall", perPage=6, include=[{"id": "m1"}])
        last = await page_of(
            client, "recall", perPage=2, after=first["endCursor"], include=[{"id": "m2"}, {"id": "m1"}]
        )
        more = await page_of(
            client, "recall", perPage=2, after=first["endCursor"], include=[{"id": "m2"}, {"id": "m9"}]
        )
    assert (ids(first["rows"]), first["hasMore"]) == ("m10 m9 m8 m7 m6 m5 m1", True)
    assert (ids(last["rows"]), last["total"], last["hasMore"]) == ("m4 m3 m2 m1", 10, False)
    assert (ids(more["rows"]), more["hasMore"]) == ("m9 m4 m3 m2", True)


async def test_a_nested_page_is_continued_by_a_recall(database: Any) -> None:
    await fill(database, threads=[thread("t1"), thread("t2")], messages=ten_messages())
    query = "{ threads(orderBy: {direction: ASC}) { threads { messages(perPage: 3) { messages { id } endCursor } } } }"
    async with serving(database) as client:
        filled, empty = [each["messages"] for each in (await client.ask(query)).data["threads"]["threads"]]
        following = await page_of(client, "recall", perPage=3, after=filled["endCursor"])
        alone = await client.ask('{ thread(id: "t1") { messages(perPage: 3) { endCursor } } }')
    assert (ids(filled["messages"]), ids(following["rows"])) == ("m10 m9 m8", "m7 m6 m5")
    assert alone.data["thread"]["messages"]["endCursor"] == filled["endCursor"]
    assert empty["endCursor"] is None


async def test_a_cursor_shows_nothing_of_other_owners(database: Any) -> None:
    """It is a place in the order and no more: the page stays that of the thread, the owner and the filter."""
    theirs = [message(f"x{number}", "t9", number, resourceId="res-b") for number in range(5)]
    await fill(database, threads=[thread("t1"), thread("t9", "res-b")], messages=[*ten_messages(), *theirs])
    async with serving(database) as client:
        end = (await page_of(client, "recall", threadId="t9", perPage=1))["endCursor"]
        mine = await page_of(client, "recall", resourceId="res-a", after=end)
        refused = await ask_page(client, "recall", threadId="t9", resourceId="res-a", after=end)
    assert ids(mine["rows"]) == "m4 m3 m2 m1"
    assert refused.code == "FORBIDDEN"


def packed(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


NO_CURSORS = [
    "",
    " ",
    "m7",
    "é",
    "=",
    packed("[]"),
    packed('["messages", "createdAt", true]'),
    packed("[" * 3000),
    "A" * 5000,
]


@every_listing
@pytest.mark.parametrize("after", NO_CURSORS)
async def test_other_text_is_refused(plain_database: Any, listing: str, after: str) -> None:
    async with serving(plain_database) as client:
        answer = await ask_page(client, listing, after=after)
    assert (answer.code, answer.error["message"]) == (
        "BAD_USER_INPUT",
        "after is no cursor: pass the endCursor of an earlier answer.",
    )


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Cursor.from_text(text, "messages", Order())


PLACES = st.one_of(
    st.none(), st.booleans(), st.text(), st.integers(-(2**31), 2**31), st.datetimes(timezones=st.just(NOON.tzinfo))
)


@given(PLACES.map(lambda time: time), st.text())
def test_a_cursor_is_read_as_it_was_written(time: Any, id: str) -> None:
    if hasattr(time, "microsecond"):
        time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    cursor = Cursor("threads", Order("updatedAt", descending=False), time, id)
    assert Cursor.from_text(cursor.to_text(), "threads", cursor.order) == cursor


async def test_a_cursor_belongs_to_its_list_and_its_order(plain_database: Any) -> None:
    await fill(plain_database, threads=[thread("t1")], messages=ten_messages())
    async with serving(plain_database) as client:
        of_messages = (await page_of(client, "recall", perPage=1))["endCursor"]
        of_threads = (await page_of(client, "threads", orderBy={"field": "updatedAt"}))["endCursor"]
        answers = [
            await ask_page(client, "threads", after=of_messages),
            await ask_page(client, "threads", after=of_threads),
            await ask_page(client, "recall", after=of_messages, orderBy={"direction": "ASC"}),
            await ask_page(client, "recall", after=of_messages, page=1),
            await ask_page(client, "recall", after=5),
        ]
    assert [answer.code for answer in answers] == ["BAD_USER_INPUT"] * 5
    assert [answer.error["message"] for answer in answers[:4]] == [
        "after is a cursor of messages, and this lists threads.",
        "after is a cursor of the order updatedAt DESC; pass that order as orderBy.",
        "after is a cursor of the order createdAt DESC; pass that order as orderBy.",
        "after begins where the last page ended and goes with page 0 only.",
    ]
    assert "A Cursor is text" in answers[4].error["message"]


async def test_a_cursor_in_the_document_itself(plain_database: Any) -> None:
    await fill(plain_database, messages=ten_messages())
    async with serving(plain_database) as client:
        end = (await page_of(client, "recall", perPage=8))["endCursor"]
        answer = await client.ask(f'{{ recall(threadId: "t1", after: "{end}") {{ messages {{ id }} }} }}')
    assert ids(answer.data["recall"]["messages"]) == "m2 m1"


async def test_the_place_costs_one_command_and_no_rows_are_skipped(mongodb_uri: str) -> None:
    async with listening(mongodb_uri, "recallql_cursors") as (database, commands), serving(database) as client:
        await fill(database, messages=ten_messages())
        end = (await page_of(client, "recall", perPage=3))["endCursor"]
        counts = []
        for selection in ("", "hasMore", ALL_NUMBERS):
            commands.reset()
            await page_of(client, "recall", selection, perPage=3, after=end)
            counts.append(len(commands.names))
            assert not any("$skip" in stage for pipeline in commands.pipelines for stage in pipeline)
    assert counts == [2, 2, 3]
