"""Ownership: `resourceId` closes and says nothing; ids are text, compared exactly, and `_id` never shows."""

from typing import Any

import pytest
from bson import ObjectId

from tests.zoo import Client, ask_recall, fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]
HEX = "65f0c0ffee65f0c0ffee65f0"


async def fill_two_owners(database: Any) -> None:
    """res-a has t1 with m1 to m10; res-b has t9 with b1 to b3, and a resource with working memory."""
    rows = [message(f"b{n}", "t9", minute=n, resourceId="res-b", text="secret words") for n in (1, 2, 3)]
    threads = [thread("t1"), thread("t9", "res-b", title="secret title", metadata={"k": "secret"})]
    await fill(database, threads=threads, messages=[*ten_messages(), *rows])
    await database["mastra_resources"].insert_many(
        [{"id": "res-a", "workingMemory": "of a"}, {"id": "res-b", "workingMemory": "secret memory"}]
    )


def says_nothing(answer: Any) -> bool:
    """Whether neither the real owner nor anything of theirs is told."""
    told = str(answer.body)
    return not any(word in told for word in ("res-b", "RES-B", "secret", "b1", "b2", "b3"))


# O1: somebody else's thread


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"include": [{"id": "m5"}]},
        {"include": [{"id": "m5", "threadId": "t1"}, {"id": "b2", "withNextMessages": 1}]},
        {"perPage": 0},
        {"perPage": False},
        {"page": 7},
        {"filter": {"metadata": {"k": "v"}}},
        {"filter": {"dateRange": {"start": "2030-01-01T00:00:00Z"}}},
        {"orderBy": {"direction": "ASC"}},
        {"threadConfig": {"lastMessages": False}},
    ],
)
async def test_o1_a_foreign_thread_is_refused_on_every_path(plain_database: Any, arguments: Row) -> None:
    """Ids compare exactly, letter by letter."""
    await fill_two_owners(plain_database)
    async with serving(plain_database) as client:
        for owner in ("res-a", "RES-B", "res-b ", "res-", "res-.", "res-c"):
            answer = await ask_recall(client, threadId="t9", resourceId=owner, **arguments)
            assert answer.code == "FORBIDDEN", owner
            assert answer.body.get("data") is None
            assert says_nothing(answer)


SELECTIONS = ["messages { id }", "transcript { text }", "total", "hasMore", "page", "perPage", "__typename"]


@pytest.mark.parametrize("search", ["", ', vectorSearchString: "x", threadConfig: {semanticRecall: true}'])
async def test_o1_a_foreign_thread_is_refused_whatever_is_selected(plain_database: Any, search: str) -> None:
    await fill_two_owners(plain_database)
    async with serving(plain_database, embedder="toy") as client:
        for selection in [*SELECTIONS, "matches { score }", "usage { tokens }", "engine"]:
            answer = await client.ask(f'{{ recall(threadId: "t9", resourceId: "res-a"{search}) {{ {selection} }} }}')
            assert answer.code == "FORBIDDEN", selection
            assert answer.body.get("data") is None
            assert says_nothing(answer)


async def test_o1_the_refusal_is_the_same_for_every_foreign_owner(database: Any) -> None:
    await fill_two_owners(database)
    await fill(database, threads=[thread("t8", "res-c")])
    async with serving(database) as client:
        answers = [await ask_recall(client, threadId=id, resourceId="res-a") for id in ("t8", "t9")]
    assert answers[0].body == answers[1].body


async def test_o1_the_owner_reads_on(database: Any) -> None:
    await fill_two_owners(database)
    async with serving(database) as client:
        found = await recall(client, threadId="t9", resourceId="res-b")
        anybody = await recall(client, threadId="t9")
    assert ids(found["messages"]) == ids(anybody["messages"]) == "b3 b2 b1"


@pytest.mark.parametrize("owner", ["res-a", "RES-B", "res-b "])
async def test_o1_single_rows_of_others_do_not_exist(database: Any, owner: str) -> None:
    await fill_two_owners(database)
    query = 'query($r: ID) { thread(id: "t9", resourceId: $r) { id } message(id: "b1", resourceId: $r) { id } }'
    async with serving(database) as client:
        answer = await client.ask(query, r=owner)
    assert answer.data == {"thread": None, "message": None}


async def test_o1_lists_hold_the_owners_rows_alone(database: Any) -> None:
    await fill_two_owners(database)
    query = "query($r: ID) { threads(filter: {resourceId: $r}) { threads { id resourceId } total hasMore } }"
    async with serving(database) as client:
        found = {owner: (await client.ask(query, r=owner)).data["threads"] for owner in ("res-a", "res-b", "RES-A")}
    assert found["res-a"] == {"threads": [{"id": "t1", "resourceId": "res-a"}], "total": 1, "hasMore": False}
    assert (ids(found["res-b"]["threads"]), found["RES-A"]["total"]) == ("t9", 0)


async def fill_mixed_thread(database: Any) -> None:
    """Thread t1 of res-a, in which res-b wrote too: the first, the last, and one in the middle."""
    rows = [
        message("x1", minute=0, resourceId="res-b", text="secret words"),
        message("m1", minute=1),
        message("x2", minute=2, resourceId="res-b", text="secret words"),
        message("m2", minute=3, resourceId=None),
        message("m3", minute=4),
        message("x3", minute=5, resourceId="res-b", text="secret words"),
    ]
    await fill(database, threads=[thread("t1"), thread("t9", "res-b")], messages=rows)
    await fill(database, messages=[message("own", "t9", text="mine in a foreign thread")])


async def test_o1_a_page_holds_messages_of_the_owner_alone(database: Any) -> None:
    """With an owner named; without one the whole thread is told."""
    await fill_mixed_thread(database)
    include = [{"id": "m1", "withPreviousMessages": 5, "withNextMessages": 1}, {"id": "x2"}]
    async with serving(database) as client:
        owned = await recall(client, resourceId="res-a", perPage=2)
        included = await recall(client, resourceId="res-a", perPage=0, include=include)
        filtered = await recall(client, resourceId="res-a", filter={"dateRange": {"end": "2024-03-10T12:03:00Z"}})
        whole = await recall(client)
    assert (ids(owned["messages"]), owned["total"], owned["hasMore"]) == ("m3 m2", 3, True)
    assert (ids(included["transcript"]), included["total"]) == ("m1 m2", 3)
    assert (ids(filtered["messages"]), filtered["total"]) == ("m2 m1", 2)
    assert (ids(whole["transcript"]), whole["total"]) == ("x1 m1 x2 m2 m3 x3", 6)


async def test_o1_everything_beneath_an_owned_row_is_the_owners(database: Any) -> None:
    """Counts, ends, nested pages, and the way from a message back to its thread."""
    await fill_mixed_thread(database)
    fields = """messageCount firstMessage { id } lastMessage { id thread { messageCount } }
                messages { messages { id } total } few: messages(perPage: 1, page: 2) { messages { id } hasMore }"""
    query = f"""{{ thread(id: "t1", resourceId: "res-a") {{ {fields} }}
                   threads(filter: {{resourceId: "res-a"}}) {{ threads {{ {fields} }} }}
                   message(id: "m1", resourceId: "res-a") {{ thread {{ {fields} }} }}
                   recall(threadId: "t1", resourceId: "res-a", perPage: 1) {{
                       messages {{ thread {{ {fields} }} }} }} }}"""
    async with serving(database) as client:
        answer = await client.ask(query)
    expected = {
        "messageCount": 3,
        "firstMessage": {"id": "m1"},
        "lastMessage": {"id": "m3", "thread": {"messageCount": 3}},
        "messages": {"messages": [{"id": "m3"}, {"id": "m2"}, {"id": "m1"}], "total": 3},
        "few": {"messages": [{"id": "m1"}], "hasMore": False},
    }
    assert answer.data["thread"] == answer.data["message"]["thread"] == expected
    assert answer.data["threads"]["threads"] == [expected]
    assert answer.data["recall"]["messages"] == [{"thread": expected}]


async def test_o1_a_message_in_a_foreign_thread_is_not_the_callers(database: Any) -> None:
    await fill_mixed_thread(database)
    query = """{ own: message(id: "own", resourceId: "res-a") { id } m1: message(id: "m1", resourceId: "res-a") { id }
                 m2: message(id: "m2", resourceId: "res-a") { id } x1: message(id: "x1", resourceId: "res-a") { id }
                 x2: message(id: "x2", resourceId: "res-b") { id } }"""
    async with serving(database) as client:
        found = (await client.ask(query)).data
    assert found == {"own": None, "m1": {"id": "m1"}, "m2": {"id": "m2"}, "x1": None, "x2": None}


@pytest.mark.parametrize(
    "query",
    [
        'recall(threadId: "t1", resourceId: $id) { total }',
        "recall(threadId: $id) { total }",
        'recall(threadId: $id, resourceId: "res-a") { total }',
        'recall(threadId: "t1", include: [{id: $id}]) { total }',
        'recall(threadId: "t1", include: [{id: "m1", threadId: $id}]) { total }',
        "threads(filter: {resourceId: $id}) { total }",
        'threads(filter: {resourceId: $id, metadata: {k: "v"}}) { total }',
        "thread(id: $id) { id }",
        'thread(id: "t1", resourceId: $id) { id }',
        "message(id: $id) { id }",
        'message(id: "m1", resourceId: $id) { id }',
        "resource(id: $id) { id }",
    ],
)
async def test_o1_a_blank_id_is_an_error_and_never_everybody(plain_database: Any, query: str) -> None:
    await fill_two_owners(plain_database)
    async with serving(plain_database) as client:
        for blank in ("", " ", "\t\n", "\u3000"):
            answer = await client.ask(f"query($id: ID!) {{ found: {query} }}", id=blank)
            assert answer.code == "BAD_USER_INPUT"
            assert "blank" in answer.error["message"]
            assert not (answer.body.get("data") or {}).get("found")


# O2: ids are text


ODD_IDS = [
    HEX,
    HEX.upper(),
    "Thread-T1",
    " t1",
    "t 1 ",
    "a/b/../c?d=e&f#g",
    "日本語-поток-🧵",
    'quote"back\\slash',
    "{$ne: 1}",
    "$where",
    "a.b",
    "0",
    "null",
    "é",
    "e\u0301",
    "i" * 2000,
]


async def fill_odd_ids(database: Any) -> None:
    """A thread, a message and a resource of each odd id, and as decoys the same ids in other letters."""
    await fill(
        database,
        threads=[thread(id, id) for id in ODD_IDS],
        messages=[message(id, id, resourceId=id) for id in ODD_IDS],
    )
    await database["mastra_resources"].insert_many([{"id": id, "workingMemory": id} for id in ODD_IDS])


async def test_o2_odd_ids_are_found_and_shown_as_they_are(database: Any) -> None:
    await fill_odd_ids(database)
    query = """query($id: ID!) {
        thread(id: $id, resourceId: $id) { id resourceId messages { messages { id threadId } } lastMessage { id } }
        message(id: $id, resourceId: $id) { id thread { id } } resource(id: $id) { id workingMemory }
        threads(filter: {resourceId: $id}) { threads { id } }
        recall(threadId: $id, resourceId: $id, include: [{id: $id}]) { messages { id } total }
    }"""
    async with serving(database) as client:
        for id in ODD_IDS:
            found = (await client.ask(query, id=id)).data
            page = {"messages": [{"id": id, "threadId": id}]}
            assert found["thread"] == {"id": id, "resourceId": id, "messages": page, "lastMessage": {"id": id}}
            assert found["message"] == {"id": id, "thread": {"id": id}}
            assert found["resource"] == {"id": id, "workingMemory": id}
            assert (found["threads"], found["recall"]) == (
                {"threads": [{"id": id}]},
                {"messages": [{"id": id}], "total": 1},
            )


async def test_o2_what_only_looks_alike_is_not_found(plain_database: Any) -> None:
    await fill_odd_ids(plain_database)
    query = """query($id: ID!) { thread(id: $id) { id } message(id: $id) { id } resource(id: $id) { id }
        recall(threadId: $id) { total } }"""
    nothing = {"thread": None, "message": None, "resource": None, "recall": {"total": 0}}
    async with serving(plain_database) as client:
        for near in (HEX.title(), "thread-t1", "t1", " t1 ", "T 1 ", "E\u0301", "a", "aXb", "NULL", "00"):
            assert (await client.ask(query, id=near)).data == nothing, near


async def test_o2_a_whole_number_is_the_text_of_its_digits(plain_database: Any) -> None:
    await fill(plain_database, threads=[thread("5"), thread("05")], messages=[message("7", "5")])
    async with serving(plain_database) as client:
        literal = await client.ask("{ thread(id: 5) { id } message(id: 7) { id } recall(threadId: 5) { total } }")
        variable = await client.ask("query($id: ID!) { thread(id: $id) { id } }", id=5)
    assert literal.data == {"thread": {"id": "5"}, "message": {"id": "7"}, "recall": {"total": 1}}
    assert variable.data == {"thread": {"id": "5"}}


async def fill_known_keys(database: Any) -> list[ObjectId]:
    """One row of each collection, with `_id`s that the test knows."""
    keys = [ObjectId() for _ in range(3)]
    await fill(
        database,
        threads=[thread("t1", _id=keys[0], metadata={"k": {"deep": [1]}})],
        messages=[message("m1", _id=keys[1], metadata={"k": "v"})],
    )
    await database["mastra_resources"].insert_one({"_id": keys[2], "id": "res-a", "metadata": {"k": 1}})
    return keys


async def test_o2_the_hex_of_a_key_finds_nothing(database: Any) -> None:
    keys = await fill_known_keys(database)
    query = """query($id: ID!) { thread(id: $id) { id } message(id: $id) { id } resource(id: $id) { id }
        threads(filter: {resourceId: $id}) { total } recall(threadId: $id) { total } }"""
    async with serving(database) as client:
        answers = [await client.ask(query, id=str(key)) for key in keys]
        included = await recall(
            client, perPage=0, include=[{"id": str(keys[1])}, {"id": "m1", "threadId": str(keys[0])}]
        )
    nothing = {"thread": None, "message": None, "resource": None, "threads": {"total": 0}, "recall": {"total": 0}}
    assert [answer.data for answer in answers] == [nothing] * 3
    assert included["messages"] == []


async def test_o2_the_key_appears_nowhere(database: Any) -> None:
    """Every field of every type, also on the paths that read rows in two steps."""
    keys = await fill_known_keys(database)
    message_fields = "id threadId resourceId role type createdAt content metadata text uiMessage origin"
    thread_fields = "id resourceId title metadata createdAt updatedAt messageCount workingMemory"
    query = f"""{{
        threads(filter: {{metadata: {{}}}}) {{ threads {{ {thread_fields} resource {{ id metadata createdAt }}
            firstMessage {{ {message_fields} }} lastMessage {{ {message_fields} thread {{ {thread_fields} }} }}
            messages(filter: {{metadata: {{k: "v"}}}}) {{ messages {{ {message_fields} }} }} }} }}
        thread(id: "t1") {{ {thread_fields} }} message(id: "m1") {{ {message_fields} }}
        recall(threadId: "t1", include: [{{id: "m1"}}]) {{ messages {{ {message_fields} }} }}
        resource(id: "res-a") {{ id workingMemory metadata createdAt updatedAt }}
    }}"""
    async with serving(database) as client:
        answer = await client.ask(query)
    assert answer.data["threads"]["threads"][0]["firstMessage"]["id"] == "m1"
    told = str(answer.body)
    assert not any(str(key) in told for key in keys)
    assert "_id" not in told


async def test_o2_a_collections_own_collation_changes_nothing(plain_database: Any) -> None:
    """Case matters even where the collection was made to ignore it."""
    ignoring_case = {"locale": "en", "strength": 2}
    for name in ("mastra_threads", "mastra_messages", "mastra_resources"):
        await plain_database.create_collection(name, collation=ignoring_case)
    await fill_two_owners(plain_database)
    await fill(plain_database, threads=[thread("T1", "RES-A")], messages=[message("M1", "T1", resourceId="RES-A")])
    async with serving(plain_database) as client:
        found = await nested_of(client)
        refused = await ask_recall(client, threadId="t9", resourceId="RES-B")
        pinned = await recall(client, perPage=0, include=[{"id": "m1", "withNextMessages": 1}])
    assert found == {"thread": None, "message": None, "resource": None, "threads": {"threads": [{"id": "t1"}]}}
    assert refused.code == "FORBIDDEN"
    assert ids(pinned["transcript"]) == "m1 m2"


async def nested_of(client: Client) -> Row:
    query = """{ thread(id: "T9") { id } message(id: "B1") { id } resource(id: "RES-A") { id }
        threads(filter: {resourceId: "res-a"}) { threads { id } } }"""
    return (await client.ask(query)).data
