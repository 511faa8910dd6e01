"""Recall: which messages, in which order, with which neighbours, and what the numbers say about them."""

from typing import Any

import pytest
from bson import Binary

from tests.zoo import fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]
DESC = {"field": "createdAt", "direction": "DESC"}
ASC = {"field": "createdAt", "direction": "ASC"}


def origins(found: Row) -> dict[str, str]:
    return {row["id"]: row["origin"] for row in found["messages"]}


# R1: the newest, and further back from page to page


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"perPage": 3}, "m10 m9 m8"),
        ({"perPage": 3, "page": 1}, "m7 m6 m5"),
        ({"threadConfig": {"lastMessages": 3}}, "m10 m9 m8"),
        ({"threadConfig": {"lastMessages": 3}, "page": 1}, "m7 m6 m5"),
        ({"perPage": None, "threadConfig": {"lastMessages": 3}}, "m10 m9 m8"),
        ({"perPage": 2, "threadConfig": {"lastMessages": 5}}, "m10 m9"),
        ({"perPage": 2, "threadConfig": {"lastMessages": False}}, "m10 m9"),
        ({"threadConfig": {"lastMessages": False}}, ""),
        ({"threadConfig": {"lastMessages": 0}}, ""),
    ],
)
async def test_r1_last_n_are_the_newest_n(database: Any, arguments: Row, expected: str) -> None:
    await fill(database, messages=ten_messages())
    async with serving(database) as client:
        found = await recall(client, **arguments)
    assert ids(found["messages"]) == expected
    assert ids(found["transcript"]) == " ".join(expected.split()[::-1])
    assert (found["total"], found["hasMore"]) == (10, True)


async def test_r1_per_page_false_wins_over_last_messages(database: Any) -> None:
    await fill(database, messages=ten_messages())
    async with serving(database) as client:
        found = await recall(client, perPage=False, threadConfig={"lastMessages": 3})
    assert ids(found["messages"]) == "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1"
    assert (found["perPage"], found["hasMore"]) == (False, False)


@pytest.mark.parametrize(
    ("setting", "arguments", "expected"),
    [
        (4, {}, "m10 m9 m8 m7"),
        (4, {"threadConfig": {"lastMessages": 2}}, "m10 m9"),
        (4, {"threadConfig": {"lastMessages": None}}, "m10 m9 m8 m7"),
        (4, {"threadConfig": {"workingMemory": {"enabled": True}}}, "m10 m9 m8 m7"),
        (4, {"perPage": 1}, "m10"),
        (False, {}, ""),
        (False, {"perPage": 1}, "m10"),
    ],
)
async def test_r1_the_servers_setting_is_the_last_resort(
    plain_database: Any, setting: Any, arguments: Row, expected: str
) -> None:
    await fill(plain_database, messages=ten_messages())
    async with serving(plain_database, last_messages=setting) as client:
        found = await recall(client, **arguments)
    assert (ids(found["messages"]), found["total"]) == (expected, 10)


async def test_r1_without_history_the_included_messages_remain(database: Any) -> None:
    await fill(database, messages=ten_messages())
    include = [{"id": "m4", "withPreviousMessages": 1}]
    async with serving(database) as client:
        found = await recall(client, include=include, threadConfig={"lastMessages": False})
    assert (ids(found["messages"]), found["total"], found["hasMore"]) == ("m4 m3", 10, True)


async def test_r1_nested_lists_agree_with_recall(database: Any) -> None:
    """The newest first, further back on the next page, the ends of the thread at its ends."""
    await fill(database, threads=[thread("t1")], messages=ten_messages())
    query = """{ thread(id: "t1") {
        messageCount firstMessage { id } lastMessage { id }
        newest: messages(perPage: 3) { messages { id } }
        next: messages(perPage: 3, page: 1) { messages { id } }
        oldest: messages(perPage: 3, orderBy: {direction: ASC}) { messages { id } }
    } }"""
    async with serving(database) as client:
        found = (await client.ask(query)).data["thread"]
    assert (found["firstMessage"]["id"], found["lastMessage"]["id"], found["messageCount"]) == ("m1", "m10", 10)
    lists = [ids(found[name]["messages"]) for name in ("newest", "next", "oldest")]
    assert lists == ["m10 m9 m8", "m7 m6 m5", "m1 m2 m3"]


# R2: the order that was asked for


@pytest.mark.parametrize(
    ("order", "page", "expected"),
    [
        (DESC, 0, "m10 m9 m8 m7"),
        (DESC, 1, "m6 m5 m4 m3"),
        (ASC, 0, "m1 m2 m3 m4"),
        (ASC, 1, "m5 m6 m7 m8"),
        ({"direction": "ASC"}, 0, "m1 m2 m3 m4"),
        ({"field": "createdAt"}, 0, "m10 m9 m8 m7"),
    ],
)
async def test_r2_an_explicit_order_survives(database: Any, order: Row, page: int, expected: str) -> None:
    await fill(database, messages=ten_messages())
    async with serving(database) as client:
        found = await recall(client, perPage=4, page=page, orderBy=order)
    assert ids(found["messages"]) == expected
    assert ids(found["transcript"]) == (expected if "ASC" in order.values() else " ".join(expected.split()[::-1]))


@pytest.mark.parametrize(("order", "expected"), [(ASC, "m1 m2 a m7 m8 m9"), (DESC, "m10 m9 m8 m7 a m2")])
async def test_r2_included_messages_are_merged_into_the_order(database: Any, order: Row, expected: str) -> None:
    """`a` of another thread stands at 12:02:30, between m2 and m3."""
    await fill(database, messages=[*ten_messages(), message("a", "t2", minute=2.5)])
    include = [{"id": "m8", "withPreviousMessages": 1, "withNextMessages": 1}, {"id": "a", "threadId": "t2"}]
    include += [{"id": "m2"}]
    async with serving(database) as client:
        found = await recall(client, perPage=2, orderBy=order, include=include)
    assert ids(found["messages"]) == expected
    assert sorted(ids(found["transcript"]).split()) == sorted(expected.split())
    assert ids(found["transcript"]) == (expected if order is ASC else " ".join(expected.split()[::-1]))


async def test_r2_every_message_says_why_it_is_there(database: Any) -> None:
    """The first reason that holds: of the page, included, a neighbour."""
    await fill(database, messages=ten_messages())
    include = [{"id": "m3", "withNextMessages": 1}, {"id": "m4", "withNextMessages": 1}, {"id": "m10"}]
    async with serving(database) as client:
        found = await recall(client, perPage=1, include=include)
    assert origins(found) == {"m10": "PAGE", "m5": "CONTEXT", "m4": "INCLUDED", "m3": "INCLUDED"}


# R3: windows among equal times


async def fill_equal_times(database: Any) -> None:
    """Thread t2: five messages of one time, stored in the order e4 e1 e5 e3 e2."""
    rows = [message(id, "t2") for id in ("e4", "e1", "e5", "e3", "e2")]
    await fill(database, threads=[thread("t2")], messages=rows)


@pytest.mark.parametrize(
    ("id", "before", "after", "expected"),
    [
        ("e3", 1, 1, "e5 e3 e2"),
        ("e3", 0, 0, "e3"),
        ("e3", 10, 10, "e4 e1 e5 e3 e2"),
        ("e3", 2, 0, "e1 e5 e3"),
        ("e4", 1, 1, "e4 e1"),
        ("e2", 1, 1, "e3 e2"),
    ],
)
async def test_r3_neighbours_among_equal_times(database: Any, id: str, before: int, after: int, expected: str) -> None:
    await fill_equal_times(database)
    include = [{"id": id, "withPreviousMessages": before, "withNextMessages": after}]
    async with serving(database) as client:
        found = await recall(client, threadId="t2", perPage=0, include=include)
    assert ids(found["transcript"]) == expected
    assert ids(found["messages"]) == " ".join(expected.split()[::-1])
    assert {row["id"] for row in found["messages"] if row["origin"] == "INCLUDED"} == {id}


async def test_r3_one_order_for_pages_windows_and_ends(database: Any) -> None:
    await fill_equal_times(database)
    query = '{ thread(id: "t2") { firstMessage { id } lastMessage { id } messages { messages { id } } } }'
    async with serving(database) as client:
        paged = await recall(client, threadId="t2")
        nested = (await client.ask(query)).data["thread"]
    assert ids(paged["transcript"]) == "e4 e1 e5 e3 e2"
    assert ids(nested["messages"]["messages"]) == ids(paged["messages"]) == "e2 e3 e5 e1 e4"
    assert (nested["firstMessage"]["id"], nested["lastMessage"]["id"]) == ("e4", "e2")


async def test_r3_a_window_reaches_past_the_equal_times(database: Any) -> None:
    """Times first, insertion only among equals: `late` was stored first, `early` last."""
    rows = [message("late", minute=1), message("x"), message("y"), message("z"), message("early", minute=-1)]
    await fill(database, messages=rows)
    include = [{"id": "y", "withPreviousMessages": 2, "withNextMessages": 2}]
    async with serving(database) as client:
        found = await recall(client, perPage=0, include=include)
    assert ids(found["transcript"]) == "early x y z late"


async def test_r3_rows_keyed_otherwise_than_mongodb_does_have_one_order_too(database: Any) -> None:
    """Other writers may choose `_id`. MongoDB's order: numbers, texts, binaries (byte by byte), ObjectIds."""
    keys = {"text": "b", "number": 7, "larger": 7.5, "also text": "a", "uuid A": b"A" * 16, "uuid 1": b"\x01" * 16}
    rows = [message(id, _id=Binary(key, 4) if isinstance(key, bytes) else key) for id, key in keys.items()]
    await fill(database, messages=[message("own"), *rows])
    include = [{"id": "text", "withPreviousMessages": 9, "withNextMessages": 9}]
    async with serving(database) as client:
        paged = await recall(client, orderBy=ASC)
        windowed = await recall(client, perPage=0, include=include, orderBy=ASC)
    expected = ["number", "larger", "also text", "text", "uuid 1", "uuid A", "own"]
    assert [row["id"] for row in paged["messages"]] == expected
    assert [row["id"] for row in windowed["messages"]] == expected
    assert [row["id"] for row in windowed["transcript"]] == expected


# R8: a thread that does not exist yet


@pytest.mark.parametrize("owner", [{}, {"resourceId": "res-a"}], ids=["anybody", "owner"])
@pytest.mark.parametrize(
    "arguments", [{}, {"filter": {"metadata": {"k": "v"}}}, {"page": 3}, {"include": [{"id": "x"}]}]
)
async def test_r8_a_thread_that_does_not_exist_is_empty(database: Any, owner: Row, arguments: Row) -> None:
    async with serving(database) as client:
        found = await recall(client, threadId="t-new", perPage=20, **owner, **arguments)
    page = arguments.get("page", 0)
    assert found == {"messages": [], "transcript": [], "total": 0, "page": page, "perPage": 20, "hasMore": False}


async def test_r8_included_messages_of_other_threads_come_to_a_new_thread(database: Any) -> None:
    await fill(database, threads=[thread("t2")], messages=[message("a1", "t2"), message("a2", "t2", minute=1)])
    include = [{"id": "a2", "threadId": "t2", "withPreviousMessages": 1}]
    async with serving(database) as client:
        anybody = await recall(client, threadId="t-new", include=include)
        owner = await recall(client, threadId="t-new", resourceId="res-a", include=include)
        stranger = await recall(client, threadId="t-new", resourceId="res-b", include=include)
    assert ids(anybody["transcript"]) == ids(owner["transcript"]) == "a1 a2"
    assert (owner["total"], owner["hasMore"]) == (0, False)
    assert stranger["messages"] == []


async def test_r8_a_thread_without_messages_is_empty_too(database: Any) -> None:
    await fill(database, threads=[thread("t1")])
    query = '{ thread(id: "t1") { messageCount firstMessage { id } lastMessage { id } messages { total hasMore } } }'
    async with serving(database) as client:
        found = await recall(client, resourceId="res-a")
        nested = (await client.ask(query)).data["thread"]
        absent = await client.ask('{ thread(id: "t-new") { id } message(id: "m-new") { id } resource(id: "r") { id } }')
    assert (found["messages"], found["total"], found["hasMore"]) == ([], 0, False)
    assert nested == {
        "messageCount": 0,
        "firstMessage": None,
        "lastMessage": None,
        "messages": {"total": 0, "hasMore": False},
    }
    assert absent.data == {"thread": None, "message": None, "resource": None}
