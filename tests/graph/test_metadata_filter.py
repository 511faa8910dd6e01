"""Metadata filters through the API: on recall, on threads, and on the messages beneath a thread (cases M1 to M7)."""

import json
import math
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId
from pymongo import AsyncMongoClient, monitoring

from tests.zoo import NOON, Answer, Client, as_document, message, serving, thread

FOUND = "{ rows: messages { id } total }"
PLACES = {
    "recall": f'recall(threadId: "t1", perPage: false, filter: {{metadata: FILTER}}) {FOUND}',
    "nested": f'thread(id: "t1") {{ messages(perPage: false, filter: {{metadata: FILTER}}) {FOUND} }}',
    "threads": 'threads(filter: {resourceId: "res-m", metadata: FILTER}) { rows: threads { id } total }',
}
"""Where a metadata filter can stand; all of them look at the same metadata."""

Stored = dict[str, Any] | str | None
"""Metadata as a document, as text that holds JSON, or none at all."""


async def fill(database: Any, rows: dict[str, Stored]) -> None:
    """Store each row twice: as a message of thread t1, and as a thread of resource res-m."""
    messages = [_message(id, metadata, minute) for minute, (id, metadata) in enumerate(rows.items())]
    threads = [
        thread(id, "res-m", metadata=metadata, createdAt=NOON + timedelta(minutes=minute))
        for minute, (id, metadata) in enumerate(rows.items())
    ]
    await database.mastra_messages.insert_many(messages)
    await database.mastra_threads.insert_many([thread("t1"), *threads])


def _message(id: str, metadata: Stored, minute: int) -> dict[str, Any]:
    if isinstance(metadata, str):
        return message(id, minute=minute, content=f'{{"format": 2, "parts": [], "metadata": {metadata}}}')
    return message(id, minute=minute) if metadata is None else as_document(message(id, minute=minute), **metadata)


def in_both_forms(rows: dict[str, Stored]) -> dict[str, Stored]:
    """The rows as documents, and once more as text, under `<id>t`."""
    return rows | {f"{id}t": json.dumps(metadata) for id, metadata in rows.items() if metadata is not None}


def query(place: str, metadata: str, variables: str = "") -> str:
    """A query with a filter, which is given as GraphQL spells it."""
    return f"query{variables} {{ {PLACES[place].replace('FILTER', metadata)} }}"


def page_of(answer: Answer) -> dict[str, Any]:
    """The page, wherever it stands."""
    (found,) = answer.data.values()
    page: dict[str, Any] = found.get("messages", found)
    return page


def requests(place: str, metadata: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Queries with their variables: the filter as a variable, as a literal, as a literal with variables inside."""
    ways = {"variable": (query(place, "$m", "($m: MetadataFilter)"), {"m": metadata})}
    if "$" in json.dumps(metadata):
        return ways
    ways["literal"] = query(place, literal(metadata)), {}
    if isinstance(metadata, dict) and metadata:
        names = {f"v{number}": key for number, key in enumerate(metadata)}
        inside = ", ".join(f"{key}: ${name}" for name, key in names.items())
        variables = ", ".join(f"${name}: JSON" for name in names)
        values = {name: metadata[key] for name, key in names.items()}
        ways["inside"] = query(place, f"{{{inside}}}", f"({variables})"), values
    return ways


def literal(value: Any) -> str:
    """A value as GraphQL spells it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


async def find(client: Client, metadata: Any) -> list[str]:
    """The ids that a filter finds, which are the same, and counted, in every place and in every spelling."""
    found = {}
    for place in PLACES:
        for way, (document, variables) in requests(place, metadata).items():
            page = page_of(await client.ask(document, **variables))
            found[place, way] = [row["id"] for row in page["rows"]]
            assert page["total"] == len(page["rows"])
    assert len({tuple(ids) for ids in found.values()}) == 1, found
    return sorted(found["recall", "variable"])


async def test_m1_null_is_a_value_and_missing_is_not(database: Any) -> None:
    rows: dict[str, Stored] = {"x1": {"reviewed": None}, "x2": {}, "x3": None, "x4": {"reviewed": False}}
    await fill(database, in_both_forms(rows | {"x5": {"reviewed": [None]}, "x6": {"deep": {"reviewed": None}}}))
    async with serving(database) as client:
        assert await find(client, {"reviewed": None}) == ["x1", "x1t"]
        assert await find(client, {"reviewed": False}) == ["x4", "x4t"]


async def test_m2_number_text_and_boolean_are_three_types(database: Any) -> None:
    kinds: list[Any] = [1, 1.0, Int64(1), "1", True]
    rows: dict[str, Stored] = {f"y{number}": {"n": value} for number, value in enumerate(kinds, 1)}
    await fill(database, rows | {"y6": '{"n": 1}', "y7": '{"n": "1"}', "y8": '{"n": true}', "y9": '{"n": 1.0}'})
    async with serving(database) as client:
        assert await find(client, {"n": 1}) == ["y1", "y2", "y3", "y6", "y9"]
        assert await find(client, {"n": 1.0}) == ["y1", "y2", "y3", "y6", "y9"]
        assert await find(client, {"n": "1"}) == ["y4", "y7"]
        assert await find(client, {"n": True}) == ["y5", "y8"]


async def test_m2_filters_of_one_query_are_kept_apart(plain_database: Any) -> None:
    """1 and true are equal in Python, and one query may ask for both."""
    await fill(plain_database, {"number": {"n": 1}, "boolean": {"n": True}, "text": {"n": "1"}})
    filters = {"number": "1", "boolean": "true", "text": '"1"'}
    fields = "".join(
        f"{name}: messages(filter: {{metadata: {{n: {n}}}}}) {{ total rows: messages {{ id }} }}"
        for name, n in filters.items()
    )
    async with serving(plain_database) as client:
        found = (await client.ask(f'{{ thread(id: "t1") {{ {fields} }} }}')).data["thread"]
    assert found == {name: {"total": 1, "rows": [{"id": name}]} for name in filters}


async def test_m3_an_array_is_not_its_element(database: Any) -> None:
    rows: dict[str, Stored] = {
        "z1": {"tag": "billing"},
        "z2": {"tag": ["billing", "vip"]},
        "z3": {"tag": {"k": "billing"}},
    }
    await fill(database, in_both_forms(rows))
    arrays: list[dict[str, Any]] = [
        message("z4", content=[{"metadata": {"tag": "billing"}}]),
        message("z5", content={"metadata": [{"tag": "billing"}]}),
    ]
    await database.mastra_messages.insert_many(arrays)
    await database.mastra_threads.insert_one(thread("z6", "res-m", metadata=[{"tag": "billing"}]))
    async with serving(database) as client:
        assert await find(client, {"tag": "billing"}) == ["z1", "z1t"]


REFUSED: list[tuple[Any, str]] = [
    ({"tag": {"$ne": ""}}, "tag"),
    ({"tag": {"$exists": True}}, "tag"),
    ({"tag": {"$regex": ".*"}}, "tag"),
    ({"$where": "1"}, "$where"),
    ({"$or": [{}]}, "$or"),
    ({"tag": ["billing"]}, "tag"),
    ({"tag": {"k": "billing"}}, "tag"),
    ({"fine": 1, "tag": {}}, "tag"),
    ({"__proto__": 1}, "__proto__"),
    ({"constructor": None}, "constructor"),
    ({"k" * 129: 1}, "k" * 129),
    ([], "metadata"),
    ("x", "metadata"),
    (1, "metadata"),
]


@dataclass
class Heard(monitoring.CommandListener):
    """The commands that a client sent, and the documents that came back."""

    commands: Counter[str] = field(default_factory=Counter)
    documents: int = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Count a command."""
        self.commands[event.command_name] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Count the documents of a batch."""
        cursor = event.reply.get("cursor", {})
        self.documents += len(cursor.get("firstBatch", cursor.get("nextBatch", [])))

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Not looked at."""

    def forget(self) -> None:
        """Begin anew."""
        self.commands.clear()
        self.documents = 0


@pytest.fixture
def heard() -> Heard:
    """What passes between `listened_database` and the server."""
    return Heard()


@pytest.fixture
async def listened_database(anyio_backend: str, heard: Heard, mongodb_uri: str) -> AsyncIterator[Any]:
    """A new, empty database that is listened to."""
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, event_listeners=[heard]) as client:
        database = client[f"recallql_test_{secrets.token_hex(6)}"]
        yield database
        await client.drop_database(database.name)


async def test_m4_operators_never_reach_the_database(listened_database: Any, heard: Heard) -> None:
    await fill(listened_database, {"z1": {"tag": "billing"}})
    places = [(place, metadata, key) for place in PLACES for metadata, key in REFUSED]
    async with serving(listened_database) as client:
        heard.forget()
        for place, metadata, key in places:
            for way, (document, variables) in requests(place, metadata).items():
                # A variable inside a literal is looked at when its field runs, which is after the thread was read.
                if (place, way) != ("nested", "inside"):
                    answer = await client.ask(document, **variables)
                    assert answer.code == "BAD_USER_INPUT"
                    assert key in answer.error["message"]
                    assert not answer.body.get("data")
        assert heard.commands == {}


async def test_m4_operators_in_variables_beneath_a_thread_find_nothing(listened_database: Any, heard: Heard) -> None:
    await fill(listened_database, {"z1": {"tag": "billing"}})
    document, _ = requests("nested", {"tag": {}})["inside"]
    async with serving(listened_database) as client:
        heard.forget()
        answer = await client.ask(document, v0={"$ne": ""})
    assert answer.code == "BAD_USER_INPUT"
    assert "'tag'" in answer.error["message"]
    assert "rows" not in json.dumps(answer.body)
    assert heard.documents <= 1


@pytest.mark.parametrize("place", PLACES)
async def test_m4_a_number_is_finite(plain_database: Any, place: str) -> None:
    async with serving(plain_database) as client:
        for number in ("1e999", "-1e999", "1" + 400 * "0", "1" + 5000 * "0"):
            answer = await client.ask(query(place, f"{{tag: {number}}}"))
            assert answer.code == "BAD_USER_INPUT"
            assert "'tag'" in answer.error["message"]


async def test_m5_a_dot_in_a_key_is_no_path(database: Any) -> None:
    await fill(database, {"u1": {"a": {"b": 1}}, "u2": {"a.b": 1}})
    async with serving(database) as client:
        for place in PLACES:
            answer = await client.ask(query(place, "$m", "($m: MetadataFilter)"), m={"a.b": 1})
            assert answer.code == "BAD_USER_INPUT"
            assert "'a.b'" in answer.error["message"]


async def test_m6_one_message_stored_in_three_ways(database: Any) -> None:
    content = {"format": 2, "parts": [{"type": "text", "text": "hi"}], "metadata": {"k": "v"}}
    rows = [message("w1", content=json.dumps(content, separators=(",", ":"))), message("w2", content=content)]
    await database.mastra_messages.insert_many([*rows, message("w3", content="see you at 5")])
    await database.mastra_threads.insert_many([thread("t1", metadata='{"status":"open"}')])
    everything = 'recall(threadId: "t1", perPage: false) { messages { id content } }'
    threads = 'threads(filter: {metadata: {status: "open"}}) { total threads { id metadata } }'
    async with serving(database) as client:
        data = (await client.ask(f"{{ {everything} {threads} }}")).data
        page = page_of(await client.ask(query("recall", '{k: "v"}')))
    contents = {"w1": content, "w2": content, "w3": "see you at 5"}
    assert {row["id"]: row["content"] for row in data["recall"]["messages"]} == contents
    assert data["threads"] == {"total": 1, "threads": [{"id": "t1", "metadata": {"status": "open"}}]}
    assert page == {"rows": [{"id": "w2"}, {"id": "w1"}], "total": 2}


@pytest.mark.parametrize("blank", ["", "   "])
async def test_m7_a_blank_owner_is_an_error(database: Any, blank: str) -> None:
    await fill(database, {"v1": {"status": "open"}})
    async with serving(database) as client:
        answer = await client.ask("query($r: ID) { threads(filter: {resourceId: $r}) { total } }", r=blank)
    assert answer.code == "BAD_USER_INPUT"
    assert not answer.body.get("data")


async def test_m7_a_misspelt_filter_is_an_error(database: Any) -> None:
    await fill(database, {"v1": {"status": "open"}})
    async with serving(database) as client:
        literal = await client.ask('{ threads(filter: {metdata: {status: "open"}}) { total } }')
        document = "query($f: ThreadFilter) { threads(filter: $f) { total } }"
        variable = await client.ask(document, f={"metdata": {"status": "open"}})
    assert "metdata" in literal.error["message"]
    assert "metdata" in variable.error["message"]


async def test_m7_no_entries_find_all_and_unknown_keys_find_nothing(database: Any) -> None:
    await fill(database, in_both_forms({"v1": {"status": "open"}, "v2": {}}))
    async with serving(database) as client:
        assert await find(client, {}) == ["v1", "v1t", "v2", "v2t"]
        assert await find(client, {"no_such_key": "x"}) == []


async def test_m7_a_variable_without_a_value_does_not_empty_the_filter(plain_database: Any) -> None:
    await fill(plain_database, {"v1": {"status": "open"}})
    async with serving(plain_database) as client:
        for place in PLACES:
            answer = await client.ask(query(place, "{status: $s}", "($s: String)"))
            assert answer.code == "BAD_USER_INPUT"
            assert "$s" in answer.error["message"]


async def test_a_long_text_is_found_too(plain_database: Any) -> None:
    long = 'He said: "no (really) no." ' * 2000
    await fill(
        plain_database, in_both_forms({"same": {"k": long}, "longer": {"k": long + "!"}, "short": {"k": long[:99]}})
    )
    async with serving(plain_database) as client:
        assert await find(client, {"k": long}) == ["same", "samet"]


async def test_values_are_compared_as_stored_and_not_as_shown(plain_database: Any) -> None:
    """NaN is shown as null and an ObjectId as text, but neither is one."""
    id = "65f0c0ffee65f0c0ffee65f0"
    documents: list[Any] = [math.nan, math.inf, ObjectId(id), Decimal128("1.10"), NOON]
    rows: dict[str, Stored] = {f"d{number}": {"k": value} for number, value in enumerate(documents)}
    written = ['{"k": NaN, "is": "\\u006b"}', '{"k": null, "k": 1e999}', '{"k": "half \\ud83d"}']
    await fill(plain_database, rows | {f"t{number}": text for number, text in enumerate(written, 2)})
    async with serving(plain_database) as client:
        for value in (None, id, "1.10", "2024-03-10T12:00:00.000Z", 1.1, "half \ufffd"):
            assert (value, await find(client, {"k": value})) == (value, [])


async def test_an_included_message_counts_by_the_value_that_is_stored(plain_database: Any) -> None:
    """The list ends early when what later pages would bring is included: an ObjectId that reads alike is no match."""
    id = "65f0c0ffee65f0c0ffee65f0"
    await fill(plain_database, {"other": {"k": ObjectId(id)}, "old": {"k": id}, "new": {"k": id}})
    page = 'recall(threadId: "t1", perPage: 1, filter: {metadata: {k: "%s"}}, include: [{id: "%s"}]) { total hasMore }'
    async with serving(plain_database) as client:
        found = (await client.ask(f"{{ other: {page % (id, 'other')} old: {page % (id, 'old')} }}")).data
    assert found == {"other": {"total": 2, "hasMore": True}, "old": {"total": 2, "hasMore": False}}


@pytest.mark.parametrize("selected", ["hasMore", "hasMore total", "hasMore messages { id }"])
@pytest.mark.parametrize("matching", ["", ', filter: {metadata: {k: "v"}}'])
async def test_has_more_needs_no_other_field(plain_database: Any, selected: str, matching: str) -> None:
    await fill(plain_database, {str(number): {"k": "v"} for number in range(3)})
    first, last = (f"perPage: 2, page: {page}{matching}) {{ {selected} }}" for page in (0, 1))
    nested = f'thread(id: "t1") {{ first: messages({first} last: messages({last} }}'
    recall = f'first: recall(threadId: "t1", {first} last: recall(threadId: "t1", {last}'
    async with serving(plain_database) as client:
        for document in (nested, recall):
            data = (await client.ask(f"{{ {document} }}")).data
            pages = data.get("thread", data)
            assert (pages["first"]["hasMore"], pages["last"]["hasMore"]) == (True, False)


@pytest.mark.parametrize("matching", ["", ', filter: {metadata: {k: "v"}}'])
async def test_a_full_page_takes_two_commands(listened_database: Any, heard: Heard, matching: str) -> None:
    """Rows and count; a batch that is exactly full would leave a cursor open, and need a third to close it."""
    await fill(listened_database, {str(number): {"k": "v"} for number in range(7)})
    async with serving(listened_database) as client:
        heard.forget()
        answer = await client.ask(f"{{ threads(perPage: 3{matching}) {{ total threads {{ id }} }} }}")
    assert len(answer.data["threads"]["threads"]) == 3
    assert heard.commands == {"aggregate": 2}


async def test_a_collation_of_the_collection_changes_nothing(plain_database: Any) -> None:
    for name in ("mastra_messages", "mastra_threads"):
        await plain_database.create_collection(name, collation={"locale": "en", "strength": 1})
    await fill(plain_database, in_both_forms({"a": {"k": "Résumé"}, "b": {"k": "resume"}}))
    async with serving(plain_database) as client:
        assert await find(client, {"k": "resume"}) == ["b", "bt"]


async def test_only_candidates_leave_the_database(listened_database: Any, heard: Heard) -> None:
    rows: dict[str, Stored] = {str(number): json.dumps({"n": number, "k": f"v{number % 100}"}) for number in range(500)}
    await fill(listened_database, rows)
    async with serving(listened_database) as client:
        for place in PLACES:
            heard.forget()
            assert page_of(await client.ask(query(place, '{k: "v7"}')))["total"] == 5
            # Of 500 texts; a list of threads is read a second time when it meets text.
            assert heard.documents <= 3 * 5


async def test_text_is_parsed_once(plain_database: Any) -> None:
    """What was parsed to be compared is what is shown; the request is parsed once as well."""
    await fill(plain_database, {str(number): '{"k": "v"}' for number in range(20)})
    fields = "messages { content metadata text uiMessage } total"
    document = f'{{ recall(threadId: "t1", perPage: false, filter: {{metadata: {{k: "v"}}}}) {{ {fields} }} }}'
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            calls[f"{function.__module__}.{function.__name__}"] += 1

    async with serving(plain_database) as client:
        sys.setprofile(count)
        try:
            answer = await client.ask(document)
        finally:
            sys.setprofile(None)
    assert len(answer.data["recall"]["messages"]) == 20
    assert calls["orjson.loads"] == 20 + 1
