"""Included messages: across threads but never across owners, with their neighbours, and what the numbers say."""

from typing import Any

import pytest

from tests.zoo import Client, ask_recall, fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]
DESC = {"field": "createdAt", "direction": "DESC"}
ASC = {"field": "createdAt", "direction": "ASC"}


# R4: include crosses threads, never owners


async def fill_two_owners(database: Any) -> None:
    """res-a has t1 (m1...m10) and t2 (a1 a2 a3), res-b has t9 (b1 b2 b3)."""
    rows = [message(f"a{n}", "t2", minute=n) for n in (1, 2, 3)]
    rows += [message(f"b{n}", "t9", minute=n, resourceId="res-b") for n in (1, 2, 3)]
    await fill(
        database,
        threads=[thread("t1"), thread("t2"), thread("t9", "res-b")],
        messages=[*ten_messages(), *rows],
    )


def window(id: str, before: int = 0, after: int = 0, **fields: str) -> Row:
    return {"id": id, "withPreviousMessages": before, "withNextMessages": after, **fields}


async def test_r4_include_may_cross_threads_never_owners(database: Any) -> None:
    await fill_two_owners(database)
    include = [window("a2", 1, 1, threadId="t2"), window("b2", 5, 5, threadId="t9"), {"id": "no-such-message"}]
    async with serving(database) as client:
        answer = await ask_recall(client, threadId="t1", resourceId="res-a", perPage=0, include=include)
    assert ids(answer.data["recall"]["transcript"]) == "a1 a2 a3"
    assert "b2" not in str(answer.body)


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ([window("a2")], ""),
        ([window("a2", threadId="t1")], ""),
        ([window("m2", threadId="t2")], ""),
        ([window("m2", threadId="t1")], "m2"),
        ([window("b2", threadId="t9")], ""),
        ([window("b2", threadId="t1")], ""),
        ([window("b2", threadId="t-new")], ""),
        ([window("m2", 1), window("m2", 0, 2)], "m1 m2 m3 m4"),
        ([window("m2", 1), window("m3", 0, 1), window("m9", 2)], "m1 m2 m3 m4 m7 m8 m9"),
        ([window("m5", 3), window("a3", 1, threadId="t2")], "m2 a2 m3 a3 m4 m5"),
        ([window("a3", 2, threadId="t2"), window("a3", 1, threadId="t1")], "a1 a2 a3"),
        ([window("a1", 1, 2, threadId="t2"), window("a1", 2, 1)], "a1 a2 a3"),
    ],
)
async def test_r4_an_item_lies_in_the_thread_it_names(database: Any, include: list[Row], expected: str) -> None:
    """Left out, that is the thread of the recall. Windows of one message unite."""
    await fill_two_owners(database)
    async with serving(database) as client:
        found = await recall(client, resourceId="res-a", perPage=0, include=include, orderBy=ASC)
    assert sorted(ids(found["messages"]).split()) == sorted(expected.split())


@pytest.mark.parametrize("id", ["$where", "$createdAt", "$id", "$$ROOT", "$$at", "$$nobody", "$", "{$ne: 1}", "$a.b"])
async def test_r4_an_id_is_text_whatever_it_looks_like(plain_database: Any, id: str) -> None:
    """To MongoDB's expressions a text that begins with a dollar is a field or a variable."""
    await fill(plain_database, messages=[message("before"), message(id, minute=1), message("after", minute=2)])
    async with serving(plain_database) as client:
        found = await recall(client, perPage=0, include=[window(id, 1, 1), window("before", 1)])
    assert ids(found["transcript"]) == f"before {id} after"


async def test_r4_without_an_owner_nothing_is_hidden(database: Any) -> None:
    await fill_two_owners(database)
    async with serving(database) as client:
        found = await recall(client, perPage=0, include=[window("b2", 1, 5, threadId="t9")])
    assert ids(found["transcript"]) == "b1 b2 b3"


async def test_r4_foreign_and_unknown_ids_are_skipped_alike(database: Any) -> None:
    await fill_two_owners(database)
    async with serving(database) as client:
        foreign, unknown = [
            await ask_recall(
                client, threadId="t1", resourceId="res-a", perPage=2, include=[window(id, 2, 2, threadId="t9")]
            )
            for id in ("b2", "b7")
        ]
    assert foreign.body == unknown.body
    assert ids(foreign.data["recall"]["messages"]) == "m10 m9"


async def test_r4_rows_without_owner_belong_to_the_owner_of_their_thread(database: Any) -> None:
    """Old rows keep no `resourceId`, or null: o1 and o2 in the owner's thread, o9 in a foreign one."""
    old = [message("o1", "t2", minute=0), message("o2", "t2", minute=2.5), message("o9", "t9", minute=2)]
    for row in (old[0], old[2]):
        del row["resourceId"]
    old[1]["resourceId"] = None
    await fill_two_owners(database)
    await fill(database, messages=[*old, message("x", "t2", minute=1.5, resourceId="res-b")])
    include = [window("a2", 5, 5, threadId="t2"), window("o9", 5, 5, threadId="t9"), window("x", 1, 1, threadId="t2")]
    async with serving(database) as client:
        found = await recall(client, resourceId="res-a", perPage=0, include=include)
        page = await recall(client, resourceId="res-a", threadId="t2")
        direct = await recall(client, resourceId="res-a", perPage=0, include=[window("o1", 0, 1, threadId="t2")])
    assert ids(found["transcript"]) == ids(page["transcript"]) == "o1 a1 a2 o2 a3"
    assert ids(direct["transcript"]) == "o1 a1"


async def test_r4_a_row_of_ones_own_in_a_foreign_thread_is_not_included(database: Any) -> None:
    await fill_two_owners(database)
    await fill(database, messages=[message("mine", "t9", minute=5)])
    async with serving(database) as client:
        found = await recall(client, resourceId="res-a", perPage=0, include=[window("mine", 9, 9, threadId="t9")])
    assert found["messages"] == []


@pytest.mark.parametrize(
    ("include", "code", "words"),
    [
        ([window("m5", -1)], "BAD_USER_INPUT", ["withPreviousMessages", ">= 0"]),
        ([window("m5", 0, -1)], "BAD_USER_INPUT", ["withNextMessages", ">= 0"]),
        ([window("m5", 1001)], "LIMIT_EXCEEDED", ["withPreviousMessages", "1000"]),
        ([window("m5", 0, 2**31 - 1)], "LIMIT_EXCEEDED", ["at most"]),
        ([window("m5")] * 101, "LIMIT_EXCEEDED", ["include", "100"]),
        ([{"id": ""}], "BAD_USER_INPUT", ["include.id", "blank"]),
        ([{"id": "m5", "threadId": " "}], "BAD_USER_INPUT", ["include.threadId", "blank"]),
    ],
)
async def test_p4_windows_out_of_range_are_refused_by_name(
    plain_database: Any, include: list[Row], code: str, words: list[str]
) -> None:
    """Whatever is selected: a mistake does not wait for the day on which its rows are looked at."""
    await fill(plain_database, messages=ten_messages())
    query = 'query($i: [IncludeMessage!]) { recall(threadId: "t1", include: $i) { SELECTION } }'
    async with serving(plain_database) as client:
        for selection in ("messages { id }", "hasMore", "total", "page"):
            answer = await client.ask(query.replace("SELECTION", selection), i=include)
            assert answer.code == code, selection
            assert [word for word in words if word not in answer.error["message"]] == []


async def test_p4_the_widest_windows_and_the_longest_list_are_served(database: Any) -> None:
    await fill(database, messages=ten_messages())
    everything = "m1 m2 m3 m4 m5 m6 m7 m8 m9 m10"
    async with serving(database) as client:
        wide = await recall(client, perPage=0, include=[window("m5", 1000, 1000)])
        long = await recall(client, perPage=0, include=[window(f"m{n}", 1, 1) for n in range(1, 11)] * 10)
    assert (ids(wide["transcript"]), ids(long["transcript"])) == (everything, everything)


# R5: include and the numbers


def pin(order: Row, id: str, nearer_the_start: int = 0, nearer_the_end: int = 0, thread_id: str = "t1") -> Row:
    """An item whose window is told in the direction of the list."""
    sizes = (nearer_the_start, nearer_the_end) if order is ASC else (nearer_the_end, nearer_the_start)
    return window(id, *sizes, threadId=thread_id)


async def fill_in_order(database: Any, order: Row) -> None:
    """Such times that the list reads n1 n2 n3 n4 n5 in this order; thread t2 (a1 a2 a3) would come after it."""
    minute = 1 if order is ASC else -1
    rows = [message(f"n{n}", minute=n * minute) for n in range(1, 6)]
    rows += [message(f"a{n}", "t2", minute=(20 + n) * minute) for n in range(1, 4)]
    await fill(database, threads=[thread("t1"), thread("t2")], messages=rows)


async def has_more_alone(client: Client, **arguments: Any) -> bool:
    query = """query($page: Int, $perPage: PerPage, $orderBy: MessageOrder, $include: [IncludeMessage!],
                     $filter: MessageFilter) {
        recall(threadId: "t1", page: $page, perPage: $perPage, orderBy: $orderBy, include: $include,
               filter: $filter) { hasMore }
    }"""
    answer: bool = (await client.ask(query, **arguments)).data["recall"]["hasMore"]
    return answer


@pytest.mark.parametrize("order", [ASC, DESC], ids=["ASC", "DESC"])
@pytest.mark.parametrize(
    ("page", "per_page", "pins", "expected", "has_more"),
    [
        (0, 3, [("n5", 1)], "n1 n2 n3 n4 n5", False),
        (0, 3, [("n5", 2)], "n1 n2 n3 n4 n5", False),
        (0, 3, [("n5",)], "n1 n2 n3 n5", True),
        (0, 3, [("n3",)], "n1 n2 n3", True),
        (0, 3, [("a2", 0, 0, "t2")], "n1 n2 n3 a2", True),
        (0, 3, [("a2", 1, 1, "t2")], "n1 n2 n3 a1 a2 a3", True),
        (0, 3, [("a2", 1, 1, "t2"), ("n4",)], "n1 n2 n3 n4 a1 a2 a3", True),
        (0, 5, [("a2", 0, 0, "t2")], "n1 n2 n3 n4 n5 a2", False),
        (1, 2, [("n1",)], "n1 n3 n4", True),
        (1, 2, [("n1", 0, 1)], "n1 n2 n3 n4", True),
        (1, 2, [("n5",)], "n3 n4 n5", False),
        (1, 2, [("n3", 5, 5)], "n1 n2 n3 n4 n5", False),
        (2, 2, [("n1",)], "n1 n5", False),
        (9, 2, [("n1",)], "n1", False),
        (0, 0, [("n3", 2, 1)], "n1 n2 n3 n4", True),
        (0, 0, [("n3", 2, 2)], "n1 n2 n3 n4 n5", False),
        (0, 3, [("gone",)], "n1 n2 n3", True),
    ],
)
async def test_r5_has_more_ends_when_page_and_pins_hold_the_rest(
    plain_database: Any, order: Row, page: int, per_page: int, pins: list[Any], expected: str, has_more: bool
) -> None:
    """Rows remain when later pages would bring something new. `total` stays that of the thread."""
    await fill_in_order(plain_database, order)
    asked = {"page": page, "perPage": per_page, "orderBy": order, "include": [pin(order, *item) for item in pins]}
    async with serving(plain_database) as client:
        found = await recall(client, **asked)
        alone = await has_more_alone(client, **asked)
    assert ids(found["messages"]) == expected
    assert (found["total"], found["hasMore"], alone) == (5, has_more, has_more)


@pytest.mark.parametrize("order", [ASC, DESC], ids=["ASC", "DESC"])
@pytest.mark.parametrize(
    ("pins", "expected", "has_more"),
    [
        ([("n5",)], "n1 n3 n5", False),
        ([("n4",)], "n1 n3 n4", True),
        ([("n4", 1, 1)], "n1 n3 n4 n5", False),
        ([("n2",)], "n1 n2 n3", True),
    ],
)
async def test_r5_only_matches_bring_the_end_nearer(
    plain_database: Any, order: Row, pins: list[Any], expected: str, has_more: bool
) -> None:
    """n1, n3 and n5 match the filter; n2 and n4 are shown when they are included, and count for nothing."""
    await fill_in_order(plain_database, order)
    odd = message("n1", metadata={"odd": True})["content"]
    await plain_database["mastra_messages"].update_many({"id": {"$in": ["n1", "n3", "n5"]}}, {"$set": {"content": odd}})
    include = [pin(order, *item) for item in pins]
    asked: Row = {"perPage": 2, "orderBy": order, "include": include, "filter": {"metadata": {"odd": True}}}
    async with serving(plain_database) as client:
        found = await recall(client, **asked)
        alone = await has_more_alone(client, **asked)
    assert (ids(found["messages"]), found["total"]) == (expected, 3)
    assert (found["hasMore"], alone) == (has_more, has_more)


async def test_r5_a_range_of_dates_decides_what_counts(plain_database: Any) -> None:
    """Of m3 to m6 the page holds two; the other two, or neighbours outside the range, are included."""
    await fill(plain_database, messages=ten_messages())
    dates = {"dateRange": {"start": "2024-03-10T12:03:00Z", "end": "2024-03-10T12:06:00Z"}}
    asked: Row = {"perPage": 2, "orderBy": ASC, "filter": dates}
    async with serving(plain_database) as client:
        rest = await recall(client, include=[window("m5", 0, 1)], **asked)
        outside = await recall(client, include=[window("m8", 1, 1)], **asked)
    assert (ids(rest["messages"]), rest["total"], rest["hasMore"]) == ("m3 m4 m5 m6", 4, False)
    assert (ids(outside["messages"]), outside["total"], outside["hasMore"]) == ("m3 m4 m7 m8 m9", 4, True)


async def test_r5_equal_times_at_the_end_of_the_page(database: Any) -> None:
    """Only insertion tells what later pages would bring."""
    await fill(database, messages=[message(f"n{n}") for n in range(1, 6)])
    async with serving(database) as client:
        rest = await recall(client, perPage=3, orderBy=ASC, include=[window("n5", 1)])
        last = await recall(client, perPage=3, orderBy=ASC, include=[window("n5")])
    assert (ids(rest["messages"]), rest["hasMore"]) == ("n1 n2 n3 n4 n5", False)
    assert (ids(last["messages"]), last["hasMore"]) == ("n1 n2 n3 n5", True)


async def test_r5_text_comes_with_included_messages(database: Any) -> None:
    """Fields that cost something are there for every message, whichever way it came in."""
    await fill(database, messages=ten_messages())
    query = """{ recall(threadId: "t1", perPage: 1, include: [{id: "m5", withNextMessages: 1}]) {
        messages { text role threadId resourceId type createdAt content } } }"""
    async with serving(database) as client:
        rows = (await client.ask(query)).data["recall"]["messages"]
    assert [row["text"] for row in rows] == ["text of m10", "text of m6", "text of m5"]
    assert {(row["role"], row["threadId"], row["resourceId"], row["type"]) for row in rows} == {
        ("user", "t1", "res-a", "v2")
    }
    assert [row["createdAt"][11:16] for row in rows] == ["12:10", "12:06", "12:05"]
    assert [row["content"]["format"] for row in rows] == [2, 2, 2]
