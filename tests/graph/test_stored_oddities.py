"""What other programs left in the database: doubled ids, times as text, values that JSON cannot carry."""

import base64
import json
import logging
import math
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import strawberry
from bson import Binary, Decimal128, Int64, ObjectId, Regex
from strawberry.schema.config import StrawberryConfig

from graph.scalars import SCALARS, Count
from tests.zoo import Client, as_document, fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]
ASC = {"field": "createdAt", "direction": "ASC"}
MESSAGE = "id threadId resourceId role type createdAt content metadata text uiMessage"
THREAD = "id resourceId title metadata createdAt updatedAt workingMemory messageCount"


# S4: indexes and doubled ids of others


async def fill_doubles(database: Any) -> None:
    """m2 is there twice, beside an index on `id` that does not forbid it."""
    await fill(database, threads=[thread("t1")], messages=[message(f"m{n}", minute=n) for n in (1, 2, 2, 3)])
    await database["mastra_messages"].create_index("id")


@pytest.mark.parametrize("create_indexes", [False, True])
async def test_s4_a_foreign_index_keeps_nothing_from_being_read(
    plain_database: Any, caplog: pytest.LogCaptureFixture, create_indexes: bool
) -> None:
    """The service starts and reads, drops nothing, and the log names collection, index and remedy."""
    await fill_doubles(plain_database)
    with caplog.at_level(logging.WARNING):
        async with serving(plain_database, create_indexes=create_indexes) as client:
            found = await recall(client)
    kept = await plain_database["mastra_messages"].index_information()
    assert ids(found["messages"]) == "m3 m2 m1"
    assert kept["id_1"].get("unique", False) is False
    assert [line for line in caplog.messages if re.search(r"mastra_messages.*\bid_1\b.*(unique|same id|doubles)", line)]


async def test_s4_doubles_that_forbid_the_index_are_told_with_the_remedy(
    plain_database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(plain_database, threads=[thread("t1")], messages=[message("m1"), message("m1")])
    with caplog.at_level(logging.WARNING):
        async with serving(plain_database, create_indexes=True) as client:
            found = await recall(client)
    lines = [text for text in caplog.messages if "mastra_messages" in text and "id_1" in text]
    assert ids(found["messages"]) == "m1"
    assert any("remove the doubles" in line for line in lines)


async def test_s4_an_index_of_other_options_stays(plain_database: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Made for open threads alone, under the very name that our own would have."""
    name = "resourceId_1_createdAt_1__id_1"
    keys = [("resourceId", 1), ("createdAt", 1), ("_id", 1)]
    partial = {"metadata.status": "open"}
    await fill(plain_database, threads=[thread("t1")])
    await plain_database["mastra_threads"].create_index(keys, name=name, partialFilterExpression=partial)
    with caplog.at_level(logging.WARNING):
        async with serving(plain_database, create_indexes=True) as client:
            answer = await client.ask('{ threads(filter: {resourceId: "res-a"}) { threads { id } } }')
    kept = await plain_database["mastra_threads"].index_information()
    assert answer.data["threads"]["threads"] == [{"id": "t1"}]
    assert kept[name]["partialFilterExpression"] == partial
    assert any("mastra_threads" in line and name in line for line in caplog.messages)


async def test_s4_a_doubled_id_is_shown_once(plain_database: Any) -> None:
    await fill_doubles(plain_database)
    await fill(plain_database, threads=[thread("t1", title="again"), thread("t2")])
    include = [{"id": "m2", "withPreviousMessages": 5, "withNextMessages": 5}]
    query = """{ threads { threads { id messages { messages { id } } messageCount lastMessage { id } } }
        thread(id: "t1") { title messages { messages { id } } } message(id: "m2") { id } }"""
    async with serving(plain_database) as client:
        paged, pinned = await recall(client), await recall(client, perPage=0, include=include)
        filtered = await recall(client, filter={"dateRange": {"start": "2024-03-10T12:00:00Z"}})
        found = (await client.ask(query)).data
    assert ids(paged["messages"]) == ids(pinned["messages"]) == ids(filtered["messages"]) == "m3 m2 m1"
    assert sorted(row["id"] for row in found["threads"]["threads"]) == ["t1", "t2"]
    assert ids(found["thread"]["messages"]["messages"]) == "m3 m2 m1"
    assert found["message"] == {"id": "m2"}


async def test_s4_the_rest_beside_a_doubled_id_ends_the_list(plain_database: Any) -> None:
    await fill_doubles(plain_database)
    async with serving(plain_database) as client:
        before = await recall(client, perPage=3, orderBy=ASC)
        rest = await recall(client, perPage=3, orderBy=ASC, include=[{"id": "m3"}])
    assert (ids(before["messages"]), before["hasMore"]) == ("m1 m2", True)
    assert (ids(rest["messages"]), rest["hasMore"]) == ("m1 m2 m3", False)


# S5: times kept as text


def with_text(rows: list[Row], text: str = "2024-03-10T12:05:00.000Z") -> list[Row]:
    """The rows, m5 with its time as text."""
    return [row | {"createdAt": text} if row["id"] == "m5" else row for row in rows]


TEXTS = ["2024-03-10T12:05:00.000Z", "2024-03-10T12:05:00Z", "2024-03-10T17:35:00.000+05:30", "2024-03-10T12:05:00"]


@pytest.mark.parametrize("text", TEXTS)
async def test_s5_a_time_kept_as_text_is_a_time(plain_database: Any, text: str) -> None:
    """In place, in the range, and shown like the others. Without offset it is read as UTC."""
    await fill(plain_database, threads=[thread("t1")], messages=with_text(ten_messages(), text))
    dates = {"dateRange": {"start": "2024-03-10T12:04:00Z", "end": "2024-03-10T12:06:00Z"}}
    async with serving(plain_database) as client:
        down = await recall(client, perPage=False)
        up = await recall(client, perPage=False, orderBy=ASC)
        ranged = await recall(client, filter=dates)
        row = (await client.ask('{ message(id: "m5") { createdAt } }')).data["message"]
    assert ids(down["messages"]) == "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1"
    assert ids(up["messages"]) == "m1 m2 m3 m4 m5 m6 m7 m8 m9 m10"
    assert (ids(ranged["messages"]), ranged["total"]) == ("m6 m5 m4", 3)
    assert row == {"createdAt": "2024-03-10T12:05:00.000Z"}


async def test_s5_pages_windows_and_nested_lists_keep_the_order(plain_database: Any) -> None:
    await fill(plain_database, threads=[thread("t1")], messages=with_text(ten_messages()))
    window = {"withPreviousMessages": 1, "withNextMessages": 1}
    query = """{ thread(id: "t1") { firstMessage { id } lastMessage { id } messageCount
        messages(perPage: 3, page: 1) { messages { id createdAt } total hasMore }
        few: messages(filter: {dateRange: {end: "2024-03-10T12:05:00Z"}}) { messages { id } total } } }"""
    async with serving(plain_database) as client:
        pages = [ids((await recall(client, perPage=4, page=page))["messages"]) for page in range(3)]
        at = await recall(client, perPage=0, include=[{"id": "m5", **window}])
        beside = await recall(client, perPage=0, include=[{"id": "m6", **window}])
        found = (await client.ask(query)).data["thread"]
    assert pages == ["m10 m9 m8 m7", "m6 m5 m4 m3", "m2 m1"]
    assert (ids(at["transcript"]), ids(beside["transcript"])) == ("m4 m5 m6", "m5 m6 m7")
    assert (found["firstMessage"]["id"], found["lastMessage"]["id"], found["messageCount"]) == ("m1", "m10", 10)
    assert ids(found["messages"]["messages"]) == "m7 m6 m5"
    assert (ids(found["few"]["messages"]), found["few"]["total"]) == ("m5 m4 m3 m2 m1", 5)


@pytest.mark.parametrize("minute", [1, 10])
async def test_s5_the_ends_of_a_thread_may_be_text(plain_database: Any, minute: int) -> None:
    text = f"2024-03-10T12:{minute:02}:00.000Z"
    rows = [row | {"createdAt": text} if row["id"] == f"m{minute}" else row for row in ten_messages()]
    await fill(plain_database, threads=[thread("t1")], messages=rows)
    query = '{ thread(id: "t1") { firstMessage { id createdAt } lastMessage { id createdAt } } }'
    async with serving(plain_database) as client:
        found = (await client.ask(query)).data["thread"]
        newest = await recall(client, perPage=1)
    assert found["firstMessage"] == {"id": "m1", "createdAt": "2024-03-10T12:01:00.000Z"}
    assert found["lastMessage"] == {"id": "m10", "createdAt": "2024-03-10T12:10:00.000Z"}
    assert ids(newest["messages"]) == "m10"


async def test_s5_metadata_filters_keep_the_order(plain_database: Any) -> None:
    rows = [message(f"m{n}", minute=n, metadata={"k": "v"}) for n in range(4, 7)]
    rows += [as_document(message(f"m{n}", minute=n), k="v") for n in (3, 7)]
    await fill(plain_database, threads=[thread("t1")], messages=with_text(rows))
    matching = {"metadata": {"k": "v"}, "dateRange": {"start": "2024-03-10T12:04:00Z"}}
    async with serving(plain_database) as client:
        found = await recall(client, filter=matching)
        rest = await recall(client, filter=matching, perPage=2, include=[{"id": "m5", "withPreviousMessages": 1}])
    assert (ids(found["messages"]), found["total"]) == ("m7 m6 m5 m4", 4)
    assert (ids(rest["messages"]), rest["hasMore"]) == ("m7 m6 m5 m4", False)


@pytest.mark.parametrize("field", ["createdAt", "updatedAt"])
async def test_s5_threads_with_times_as_text_stand_in_their_place(plain_database: Any, field: str) -> None:
    times = [datetime(2024, 3, 10, 12, minute, tzinfo=UTC) for minute in range(5)]
    rows = [thread(f"t{n}", createdAt=time, updatedAt=time) for n, time in enumerate(times)]
    rows[2][field] = "2024-03-10T12:02:00.000Z"
    await fill(plain_database, threads=rows)
    query = """query($order: ThreadOrder, $filter: ThreadFilter) {
        threads(orderBy: $order, filter: $filter) { threads { id createdAt updatedAt } total } }"""
    async with serving(plain_database) as client:
        down = (await client.ask(query, order={"field": field})).data["threads"]
        up = (await client.ask(query, order={"field": field, "direction": "ASC"})).data["threads"]
        owned = (await client.ask(query, order={"field": field}, filter={"resourceId": "res-a"})).data["threads"]
    assert ids(down["threads"]) == ids(owned["threads"]) == "t4 t3 t2 t1 t0"
    assert (ids(up["threads"]), up["total"]) == ("t0 t1 t2 t3 t4", 5)
    assert up["threads"][2][field] == "2024-03-10T12:02:00.000Z"


async def test_s5_rows_imported_while_serving_are_not_lost(plain_database: Any) -> None:
    async with serving(plain_database) as client:
        assert (await recall(client))["messages"] == []
        await fill(plain_database, threads=[thread("t1")], messages=with_text(ten_messages()))
        found = await recall(client, perPage=False)
    assert ids(found["messages"]) == "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1"


@pytest.mark.parametrize("time", ["yesterday", "", "2024-13-40T99:00:00Z", 5, None, True, {}, [], "null"])
async def test_s5_what_is_no_time_loses_no_row(plain_database: Any, time: Any) -> None:
    """`createdAt` cannot be null in an answer: such rows are the oldest and say 1970."""
    rows = [message("m1", minute=1), message("odd") | {"createdAt": time}, message("m2", minute=2)]
    await fill(plain_database, threads=[thread("t1"), thread("odd") | {"createdAt": time}], messages=rows)
    query = '{ threads { threads { id } total } thread(id: "odd") { createdAt } message(id: "odd") { createdAt } }'
    async with serving(plain_database) as client:
        found = await recall(client, perPage=False)
        pinned = await recall(client, perPage=1, include=[{"id": "odd"}])
        data = (await client.ask(query)).data
    assert sorted(row["id"] for row in found["messages"]) == ["m1", "m2", "odd"]
    assert (found["total"], data["threads"]["total"], len(data["threads"]["threads"])) == (3, 2, 2)
    assert sorted(row["id"] for row in pinned["messages"]) == ["m2", "odd"]
    assert data["message"] == data["thread"] == {"createdAt": "1970-01-01T00:00:00.000Z"}


# G1: values that JSON or GraphQL cannot carry

STORED: Row = {
    "score": math.nan,
    "inf": math.inf,
    "minus": -math.inf,
    "ref": ObjectId("65f0c0ffee65f0c0ffee65f0"),
    "price": Decimal128("1.10"),
    "at": datetime(2024, 3, 10, 12, 0, 0, 5000, tzinfo=UTC),
    "raw": Binary(b"\x00\xff", 0),
    "big": Int64(1710072000000),
    "largest": Int64(2**63 - 1),
    "smallest": Int64(-(2**63)),
    "pattern": Regex("^a"),
    "list": [math.nan, {"ref": ObjectId("65f0c0ffee65f0c0ffee65f0")}],
    "a.b": {"$c": 1},
}
SHOWN: Row = {
    "score": None,
    "inf": None,
    "minus": None,
    "ref": "65f0c0ffee65f0c0ffee65f0",
    "price": "1.10",
    "at": "2024-03-10T12:00:00.005Z",
    "raw": base64.b64encode(b"\x00\xff").decode(),
    "big": 1710072000000,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "pattern": "^a",
    "list": [None, {"ref": "65f0c0ffee65f0c0ffee65f0"}],
    "a.b": {"$c": 1},
}


async def ask_strictly(client: Client, query: str) -> Row:
    """The data of an answer that a strict JSON parser accepts: NaN and infinities are none, nor is bad UTF-8."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    response = await client.http.post("/graphql", json={"query": query})
    body = json.loads(response.content.decode("utf-8", "strict"), parse_constant=refuse)
    assert "errors" not in body
    data: Row = body["data"]
    return data


async def test_g1_values_that_json_lacks_are_spelt_as_documented(plain_database: Any) -> None:
    """In the metadata of messages, threads and resources, whichever way they are read."""
    row = as_document(message("m1"), **STORED)
    await fill(plain_database, threads=[thread("t1", metadata=STORED)], messages=[row])
    await plain_database["mastra_resources"].insert_one({"id": "res-a", "metadata": STORED})
    query = """{ recall(threadId: "t1") { messages { content metadata uiMessage } }
        threads { threads { metadata resource { metadata } messages { messages { metadata } } } }
        filtered: threads(filter: {metadata: {big: 1710072000000}}) { threads { metadata } }
        matching: recall(threadId: "t1", filter: {metadata: {big: 1710072000000}}) { messages { metadata } } }"""
    async with serving(plain_database) as client:
        data = await ask_strictly(client, query)
    listed = data["threads"]["threads"][0]
    assert listed["metadata"] == listed["resource"]["metadata"] == SHOWN
    assert listed["messages"]["messages"][0]["metadata"] == SHOWN
    assert data["filtered"]["threads"][0]["metadata"] == SHOWN
    assert data["recall"]["messages"][0]["metadata"] == data["matching"]["messages"][0]["metadata"] == SHOWN
    assert data["recall"]["messages"][0]["content"]["metadata"] == SHOWN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"n": NaN, "i": [Infinity, -Infinity]}', {"n": None, "i": [None, None]}),
        ('{"n": 1e999}', {"n": None}),
        ('{"half": "ok \\ud83d"}', {"half": "ok \ufffd"}),
        ('{"\\ud83d": 1}', {"\ufffd": 1}),
        ('{"n": 9007199254740993, "m": 18446744073709551615}', {"n": 9007199254740993, "m": 18446744073709551615}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890.0}),
        ("[" * 5000, {}),
        ('{"a": ' * 5000 + "1" + "}" * 5000, {}),
        ('{"a": {"b": {"c": [[[]]]}}}', {"a": {"b": {"c": [[[]]]}}}),
    ],
)
async def test_g1_text_that_other_writers_call_json(plain_database: Any, text: str, shown: Row) -> None:
    """What is nested beyond all reason is no structure: there are no metadata, and the content is words."""
    content = f'{{"format": 2, "parts": [{{"type": "text", "text": "hi"}}], "metadata": {text}}}'
    await fill(plain_database, threads=[thread("t1", metadata=text)], messages=[message("m1", content=content)])
    query = '{ thread(id: "t1") { metadata } recall(threadId: "t1") { messages { metadata text uiMessage content } } }'
    async with serving(plain_database) as client:
        data = await ask_strictly(client, query)
    assert data["thread"]["metadata"] == shown
    assert data["recall"]["messages"][0]["metadata"] == shown
    assert data["recall"]["messages"][0]["text"] == ("hi" if shown else content)


ODD_VALUES: list[Any] = [
    None,
    7,
    1.5,
    math.nan,
    True,
    "",
    "words",
    "{",
    "[" * 300 + "]" * 300,
    '{"parts": 5, "metadata": [], "content": {"content": []}}',
    [],
    [None, [1], {"type": 5}],
    {},
    {"parts": {"a": 1}, "metadata": "x", "format": "two"},
    {"format": 2, "parts": [None, 5, {"type": None, "text": {}}, {"type": "tool-invocation"}]},
    ObjectId(),
    Decimal128("NaN"),
    Binary(b"x"),
    datetime(2024, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("field", ["content", "role", "type", "resourceId", "createdAt"])
async def test_g1_one_odd_message_never_empties_the_list(plain_database: Any, field: str) -> None:
    rows = [message(f"m{n}", minute=n) | {field: value} for n, value in enumerate(ODD_VALUES)]
    bare = {"id": "bare", "thread_id": "t1"}
    await fill(plain_database, threads=[thread("t1")], messages=[*rows, bare])
    query = f"""{{ recall(threadId: "t1", perPage: false) {{ messages {{ {MESSAGE} }} total }}
        thread(id: "t1") {{ firstMessage {{ {MESSAGE} }} messages(perPage: false) {{ messages {{ id text }} }} }} }}"""
    async with serving(plain_database) as client:
        data = await ask_strictly(client, query)
    assert data["recall"]["total"] == len(ODD_VALUES) + 1
    assert len(data["recall"]["messages"]) == len(data["thread"]["messages"]["messages"]) == len(ODD_VALUES) + 1
    assert all(isinstance(row["role"], str) and isinstance(row["text"], str) for row in data["recall"]["messages"])


@pytest.mark.parametrize("field", ["metadata", "title", "resourceId", "createdAt", "updatedAt"])
async def test_g1_one_odd_thread_never_empties_the_list(plain_database: Any, field: str) -> None:
    rows = [thread(f"t{n}") | {field: value} for n, value in enumerate(ODD_VALUES)]
    await fill(plain_database, threads=[*rows, {"id": "bare"}])
    query = f"{{ threads {{ threads {{ {THREAD} resource {{ id }} lastMessage {{ id }} }} total }} }}"
    async with serving(plain_database) as client:
        data = await ask_strictly(client, query)
    assert data["threads"]["total"] == len(data["threads"]["threads"]) == len(ODD_VALUES) + 1
    assert all(isinstance(row["metadata"], dict) for row in data["threads"]["threads"])


async def test_g1_odd_resources_are_shown(plain_database: Any) -> None:
    rows = [{"id": f"r{n}", "workingMemory": value, "metadata": value} for n, value in enumerate(ODD_VALUES)]
    await plain_database["mastra_resources"].insert_many([*rows, {"id": "bare"}])
    async with serving(plain_database) as client:
        for id in [*(row["id"] for row in rows), "bare"]:
            data = await ask_strictly(client, f'{{ resource(id: "{id}") {{ id workingMemory metadata createdAt }} }}')
            assert data["resource"]["id"] == id
            assert isinstance(data["resource"]["metadata"], dict)


@pytest.mark.parametrize("total", [2**31, 2**31 - 1, 2**53 + 1, 2**63 - 1, 0])
async def test_g1_a_total_beyond_32_bits_is_delivered(total: int) -> None:
    """The scalar of every total, in a schema that has one of this size."""

    def resolve_total() -> int:
        return total

    @strawberry.type
    class Query:
        total: int = strawberry.field(resolver=resolve_total, graphql_type=Count)

    schema = strawberry.Schema(Query, config=StrawberryConfig(scalar_map=SCALARS))
    result = await schema.execute("{ total }")
    assert (result.errors, result.data) == (None, {"total": total})
