"""Arguments: left out, null, variables inside literals, and what each scalar accepts as literal and as variable."""

import json
from typing import Any

import pytest

from tests.zoo import Answer, Client, ask_recall, fill, ids, message, recall, serving, ten_messages, thread

Row = dict[str, Any]


# G2: null is "left out"


async def fill_threads(database: Any) -> None:
    """t1 (with ten messages) and t2 are open, t3 is closed, t4 has an explicit null."""
    statuses = {"t1": "open", "t2": "open", "t3": "closed", "t4": None}
    rows = [thread(id, metadata={"status": status}) for id, status in statuses.items()]
    await fill(database, threads=rows, messages=ten_messages())


async def test_g2_nulls_of_threads_count_as_left_out(database: Any) -> None:
    await fill_threads(database)
    selection = "{ threads { id } total page perPage hasMore }"
    nulls = "filter: null, page: null, perPage: null, orderBy: null"
    variables = "query($f: ThreadFilter, $p: Int, $n: PerPage, $o: ThreadOrder)"
    asked = "filter: $f, page: $p, perPage: $n, orderBy: $o"
    async with serving(database) as client:
        left_out = (await client.ask(f"{{ threads {selection} }}")).data
        literal = (await client.ask(f"{{ threads({nulls}) {selection} }}")).data
        absent = (await client.ask(f"{variables} {{ threads({asked}) {selection} }}")).data
        null = (
            await client.ask(f"{variables} {{ threads({asked}) {selection} }}", f=None, p=None, n=None, o=None)
        ).data
    assert literal == absent == null == left_out
    assert (ids(left_out["threads"]["threads"]), left_out["threads"]["perPage"]) == ("t4 t3 t2 t1", 100)


NULLS: list[Row] = [
    dict.fromkeys(("resourceId", "perPage", "page", "include", "filter", "orderBy", "threadConfig")),
    {"filter": {"metadata": None, "dateRange": None}},
    {"filter": {"dateRange": dict.fromkeys(("start", "end", "startExclusive", "endExclusive"))}},
    {"threadConfig": dict.fromkeys(("lastMessages", "semanticRecall", "workingMemory", "threads"))},
    {"filter": {"metadata": {}}},
    {"include": []},
    {"threadConfig": {}},
    {"orderBy": {}},
    {"filter": {}},
]


@pytest.mark.parametrize("nulls", NULLS)
async def test_g2_nulls_of_recall_count_as_left_out(database: Any, nulls: Row) -> None:
    await fill_threads(database)
    async with serving(database) as client:
        assert await recall(client, **nulls) == await recall(client)


@pytest.mark.parametrize(
    "nulls", ["filter: null", "filter: {resourceId: null}", "filter: {metadata: null}", "filter: {}"]
)
async def test_g2_nulls_inside_the_filter_of_threads_count_as_left_out(plain_database: Any, nulls: str) -> None:
    await fill_threads(plain_database)
    async with serving(plain_database) as client:
        found = (await client.ask(f"{{ threads({nulls}) {{ total }} }}")).data
    assert found == {"threads": {"total": 4}}


async def test_g2_nulls_of_an_included_item_count_as_left_out(plain_database: Any) -> None:
    await fill_threads(plain_database)
    item = {"id": "m5", "threadId": None, "withPreviousMessages": None, "withNextMessages": None}
    async with serving(plain_database) as client:
        found = await recall(client, perPage=0, include=[item])
    assert ids(found["messages"]) == "m5"


async def test_g2_nulls_of_nested_lists_and_owners_count_as_left_out(plain_database: Any) -> None:
    await fill_threads(plain_database)
    query = """{ thread(id: "t1", resourceId: null) {
        nulls: messages(perPage: null, page: null, filter: null, orderBy: null) { messages { id } total perPage }
        none: messages { messages { id } total perPage } }
        message(id: "m1", resourceId: null) { id } }"""
    async with serving(plain_database) as client:
        data = (await client.ask(query)).data
    assert data["thread"]["nulls"] == data["thread"]["none"]
    assert (data["thread"]["nulls"]["perPage"], data["message"]) == (10, {"id": "m1"})


async def test_g2_null_inside_metadata_stays_a_value(database: Any) -> None:
    await fill_threads(database)
    query = "query($s: String) { threads(filter: {metadata: {status: $s}}) { threads { id } } }"
    async with serving(database) as client:
        literal = await client.ask("{ threads(filter: {metadata: {status: null}}) { threads { id } } }")
        variable = await client.ask(query, s=None)
    assert ids(literal.data["threads"]["threads"]) == ids(variable.data["threads"]["threads"]) == "t4"


# G2: a variable inside a literal


async def test_g2_a_variable_inside_a_json_literal_is_used(database: Any) -> None:
    """Each time with its own value, though the document is parsed and validated once."""
    await fill_threads(database)
    query = 'query($s: String = "closed") { threads(filter: {metadata: {status: $s}}) { threads { id } total } }'
    async with serving(database) as client:
        found = [(await client.ask(query, s=status)).data["threads"] for status in ("open", "closed", "open", "gone")]
        default = (await client.ask(query)).data["threads"]
    assert [ids(page["threads"]) for page in found] == ["t2 t1", "t3", "t2 t1", ""]
    assert [page["total"] for page in found] == [2, 1, 2, 0]
    assert ids(default["threads"]) == "t3"


@pytest.mark.parametrize("kind", ["String", "Int", "Boolean", "ID"])
async def test_g2_a_variable_without_value_never_becomes_null_or_nothing(plain_database: Any, kind: str) -> None:
    """Left out, the entry would vanish and every thread would match; null would match t4."""
    await fill_threads(plain_database)
    query = f"query($s: {kind}) {{ threads(filter: {{metadata: {{status: $s}}}}) {{ threads {{ id }} }} }}"
    async with serving(plain_database) as client:
        answer = await client.ask(query)
    assert answer.code == "BAD_USER_INPUT"
    assert "$s" in answer.error["message"]


async def test_g2_variables_stand_beside_other_values(plain_database: Any) -> None:
    rows = [
        message("a", metadata={"n": 1, "ok": True, "s": "x"}),
        message("b", metadata={"n": 2, "ok": True, "s": "x"}),
    ]
    await fill(plain_database, messages=rows)
    query = """query($n: Int, $ok: Boolean) {
        recall(threadId: "t1", filter: {metadata: {n: $n, ok: $ok, s: "x"}}) { messages { id } } }"""
    async with serving(plain_database) as client:
        found = [ids((await client.ask(query, n=n, ok=True)).data["recall"]["messages"]) for n in (1, 2, 3)]
        wrong = await client.ask(query, n="1", ok=True)
    assert found == ["a", "b", ""]
    assert wrong.code == "BAD_USER_INPUT"


@pytest.mark.parametrize("value", [["open"], [], {"$ne": ""}, {}])
async def test_g2_a_variable_inside_a_literal_is_checked_like_the_rest(plain_database: Any, value: Any) -> None:
    await fill_threads(plain_database)
    query = "query($v: JSONObject) { threads(filter: {metadata: {status: $v}}) { total } }"
    if isinstance(value, list):
        query = query.replace("JSONObject", "[String]")
    async with serving(plain_database) as client:
        answer = await client.ask(query, v=value)
    assert answer.code == "BAD_USER_INPUT"
    assert "status" in answer.error["message"]


# G2: what each scalar accepts, as literal and as variable

PLACES: dict[str, tuple[str, str]] = {
    "perPage": ("PerPage", "threads(perPage: $v) { perPage total }"),
    "perPage of recall": ("PerPage", 'recall(threadId: "t1", perPage: $v) { perPage total }'),
    "perPage of messages": ("PerPage", 'thread(id: "t1") { messages(perPage: $v) { perPage total } }'),
    "lastMessages": ("PerPage", 'recall(threadId: "t1", threadConfig: {lastMessages: $v}) { perPage total }'),
    "page": ("Int", "threads(page: $v) { page total }"),
    "window": ("Int", 'recall(threadId: "t1", include: [{id: "m1", withNextMessages: $v}]) { hasMore }'),
    "start": ("DateTime", 'recall(threadId: "t1", filter: {dateRange: {start: $v}}) { total }'),
    "flag": ("Boolean", 'recall(threadId: "t1", filter: {dateRange: {startExclusive: $v}}) { total }'),
    "metadata": ("MetadataFilter", "threads(filter: {metadata: $v}) { total }"),
    "metadata of messages": ("MetadataFilter", 'recall(threadId: "t1", filter: {metadata: $v}) { total }'),
    "semanticRecall": ("SemanticRecall", 'recall(threadId: "t1", threadConfig: {semanticRecall: $v}) { total }'),
    "workingMemory": ("JSONObject", 'recall(threadId: "t1", threadConfig: {workingMemory: $v}) { total }'),
    "id": ("ID!", "thread(id: $v) { id }"),
    "resourceId": ("ID", "threads(filter: {resourceId: $v}) { total }"),
    "text": ("String", 'recall(threadId: "t1", vectorSearchString: $v) { total }'),
    "direction": ("SortDirection!", 'recall(threadId: "t1", orderBy: {direction: $v}) { total }'),
    "include": ("[IncludeMessage!]", 'recall(threadId: "t1", perPage: 0, include: $v) { messages { id } }'),
}


def literal(value: Any) -> str:
    """A JSON value in GraphQL's own spelling."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


async def ask_both_ways(client: Client, place: str, value: Any) -> list[Answer]:
    kind, field = PLACES[place]
    return [
        await client.ask(f"{{ {field.replace('$v', literal(value))} }}"),
        await client.ask(f"query($v: {kind}) {{ {field} }}", v=value),
    ]


PER_PAGE = ["perPage", "perPage of recall", "perPage of messages", "lastMessages"]
METADATA = ["metadata", "metadata of messages"]
ACCEPTED: list[tuple[list[str], list[Any]]] = [
    (PER_PAGE, [0, 10, 10.0, 1000, False, None]),
    (["page", "window"], [0, 7, None]),
    (["start"], ["2024-03-10T12:00:00.000Z", "2024-03-10T12:00:00+01:00", None]),
    (["flag"], [True, False, None]),
    (METADATA, [{}, {"k": "v"}, {"k": 1, "l": 1.5, "m": True, "n": None}, {"k": 2**63}, {"_k1": ""}, None]),
    (["semanticRecall"], [True, False, {}, {"topK": 3.0}, {"messageRange": {"before": 1}}, {"scope": "thread"}, None]),
    (["workingMemory"], [{}, {"enabled": True, "template": "# Name", "deep": {"list": [1, [None], {"a": 1.5}]}}, None]),
    (["id", "resourceId"], ["t1", 5, "5", "65f0c0ffee65f0c0ffee65f0"]),
    (["text"], ["", "   ", None]),
    (["include"], [[], [{"id": "m1"}], {"id": "m1"}, [{"id": 1}], None]),
]
REFUSED: list[tuple[list[str], list[Any]]] = [
    (PER_PAGE, ["10", "", "false", True, -1, -1.0, 1.5, [10], [], {}, {"n": 1}]),
    (["page", "window"], ["1", "", True, 1.5, [1], {}, 2**31, -(2**31) - 1, -1]),
    (["start"], ["", "2024-03-10", "2024-03-10T12:00:00", "now", 1710072000000, 1.5, True, [], {}]),
    (["flag"], ["true", "", 1, 0, [], {}]),
    (METADATA, ["x", "", 5, True, [], [{}], {"k": []}, {"k": {}}, {"k": {"a": 1}}, {"k": [None]}, {"__proto__": 1}]),
    (["semanticRecall"], ["true", "", 1, 0, [], [True], {"topk": 1}, {"topK": "3"}, {"scope": "all"}, {"topK": 0}]),
    (["workingMemory"], ["x", "", 5, True, False, [], [{}]]),
    (["id", "resourceId"], [True, False, 1.5, [], {}, ""]),
    (["text"], [5, 1.5, True, [], {}]),
    (["include"], ["m1", 5, True, [None], [[]], [{}], [{"id": None}], [{"id": "m1", "window": 1}]]),
]


def by_place(table: list[tuple[list[str], list[Any]]]) -> list[tuple[str, list[Any]]]:
    return [(place, values) for places, values in table for place in places]


@pytest.mark.parametrize(("place", "values"), by_place(ACCEPTED))
async def test_g2_accepted_alike_as_literal_and_as_variable(plain_database: Any, place: str, values: list[Any]) -> None:
    await fill_threads(plain_database)
    async with serving(plain_database) as client:
        for value in values:
            written, sent = await ask_both_ways(client, place, value)
            assert written.data == sent.data, value


@pytest.mark.parametrize(("place", "values"), by_place(REFUSED))
async def test_g2_refused_alike_as_literal_and_as_variable(plain_database: Any, place: str, values: list[Any]) -> None:
    await fill_threads(plain_database)
    async with serving(plain_database) as client:
        for value in values:
            written, sent = await ask_both_ways(client, place, value)
            assert (code_of(written), code_of(sent)) == ("BAD_USER_INPUT", "BAD_USER_INPUT"), value


def code_of(answer: Answer) -> str:
    """The code of an answer; validation may find more than one thing to say about one value."""
    codes = {error["extensions"]["code"] for error in answer.body["errors"]}
    assert len(codes) == 1
    return str(codes.pop())


@pytest.mark.parametrize("place", PER_PAGE)
async def test_g2_a_whole_float_is_a_whole_number(plain_database: Any, place: str) -> None:
    """And comes back as one: 3, not 3.0."""
    await fill_threads(plain_database)
    async with serving(plain_database) as client:
        for answer in await ask_both_ways(client, place, 3.0):
            assert '"perPage": 3,' in json.dumps(answer.data)


async def test_g2_a_whole_float_as_page(plain_database: Any) -> None:
    """GraphQL's own Int takes it as a variable, but has no such literal."""
    await fill_threads(plain_database)
    async with serving(plain_database) as client:
        written, sent = await ask_both_ways(client, "page", 1.0)
    assert written.code == "BAD_USER_INPUT"
    assert sent.data == {"threads": {"page": 1, "total": 4}}


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ("perPage", "ALL"),
        ("start", "NOW"),
        ("metadata", "open"),
        ("metadata", "{status: open}"),
        ("workingMemory", "on"),
    ],
)
async def test_g2_a_bare_word_is_no_value_of_these(plain_database: Any, place: str, word: str) -> None:
    async with serving(plain_database) as client:
        answer = await client.ask(f"{{ {PLACES[place][1].replace('$v', word)} }}")
    assert answer.code == "BAD_USER_INPUT"


@pytest.mark.parametrize("direction", ["DESC", "ASC"])
async def test_g2_an_enum_is_a_word_as_literal_and_text_as_variable(plain_database: Any, direction: str) -> None:
    kind, field = PLACES["direction"]
    async with serving(plain_database) as client:
        word = await client.ask(f"{{ {field.replace('$v', direction)} }}")
        text = await client.ask(f"query($v: {kind}) {{ {field} }}", v=direction)
        quoted = await client.ask(f"{{ {field.replace('$v', json.dumps(direction))} }}")
        lower = await client.ask(f"query($v: {kind}) {{ {field} }}", v=direction.lower())
    assert word.data == text.data
    assert (quoted.code, lower.code) == ("BAD_USER_INPUT", "BAD_USER_INPUT")


@pytest.mark.parametrize(
    "field", ["threads { nope }", "threads(filtr: {}) { total }", "threads(filter: {owner: 1}) { total }"]
)
async def test_g2_unknown_names_are_told(plain_database: Any, field: str) -> None:
    async with serving(plain_database) as client:
        answer = await client.ask(f"{{ {field} }}")
    assert answer.code == "BAD_USER_INPUT"
    assert any(name in answer.error["message"] for name in ("nope", "filtr", "owner"))


# The arguments of Mastra's call, unchanged


async def test_g2_a_stored_configuration_can_be_passed_unchanged(plain_database: Any) -> None:
    await fill_threads(plain_database)
    config = {
        "lastMessages": 2,
        "semanticRecall": {"topK": 3, "messageRange": {"before": 1, "after": 2}, "scope": "thread", "threshold": 0.5},
        "workingMemory": {"enabled": True, "scope": "resource", "template": "# User\n- Name:"},
        "threads": {"generateTitle": {"model": "any", "instructions": None}},
    }
    async with serving(plain_database) as client:
        found = await recall(client, threadConfig=config)
    assert (ids(found["messages"]), found["total"]) == ("m10 m9", 10)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4", 1001])
@pytest.mark.parametrize("text", [{}, {"vectorSearchString": "x"}], ids=["alone", "searching"])
async def test_p4_top_k_out_of_range_is_refused_by_name(plain_database: Any, size: Any, text: Row) -> None:
    query = """query($config: ThreadConfig, $text: String) {
        recall(threadId: "t1", threadConfig: $config, vectorSearchString: $text) { total } }"""
    config = {"semanticRecall": {"topK": size, "messageRange": 1}}
    async with serving(plain_database, embedder="toy") as client:
        answer = await client.ask(query, config=config, text=text.get("vectorSearchString"))
    assert answer.code == ("LIMIT_EXCEEDED" if size == 1001 else "BAD_USER_INPUT")
    assert "topK" in answer.error["message"]


@pytest.mark.parametrize("size", [-1, True, "10", 1.5])
async def test_p4_last_messages_out_of_range_are_refused_by_name(plain_database: Any, size: Any) -> None:
    async with serving(plain_database) as client:
        answer = await ask_recall(client, threadId="t1", threadConfig={"lastMessages": size})
    assert answer.code == "BAD_USER_INPUT"
    assert "lastMessages" in answer.error["message"]
