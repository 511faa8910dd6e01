"""How recall by meaning is asked for, in every documented form, and how its answer is told."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from pydantic import ValidationError

from graph.settings import Settings
from tests.graph.semantic import KnownTexts, Place, Row, ask, found, options, search, serving_embedder, talk
from tests.graph.test_commands import Commands, listening
from tests.store.vectors.test_engines import VECTORS, row
from tests.zoo import Client, ids, message, serving, ten_messages, thread

# m1 is the nearest, then m2, ...; x1 of another thread lies between m2 and m3.
COSINES = {f"m{number}": 1 - number / 20 for number in range(1, 11)}


async def fill(database: Any) -> Place:
    """Threads t1 (m1 to m10, each nearer to "east" than the next) and t2 (x1 to x5, of which x3 comes third)."""
    place = Place(database, "exact")
    await place.fill(
        threads=[thread("t1"), thread("t2", metadata={"project": "a"})],
        messages=[*ten_messages(), *(message(f"x{number}", "t2", 20 + number) for number in range(1, 6))],
        vectors=[*(row(id, cosine) for id, cosine in COSINES.items()), row("x3", 0.88, thread="t2")],
    )
    return place


@pytest.fixture
async def client(plain_database: Any) -> AsyncIterator[Client]:
    """The application over these threads, with the exact engine."""
    async with (await fill(plain_database)).serving() as client:
        yield client


# Every documented form


FORMS: list[tuple[object, str, str]] = [
    (True, "m1 m2 x3 m3", "m1 m2 m3 m4 m5 x1 x2 x3 x4 x5"),
    ({}, "m1 m2 x3 m3", "m1 m2 m3 m4 m5 x1 x2 x3 x4 x5"),
    ({"topK": 1}, "m1", "m1 m2 m3"),
    ({"topK": 1.0}, "m1", "m1 m2 m3"),
    ({"topK": 3, "messageRange": 1}, "m1 m2 x3", "m1 m2 m3 x2 x3 x4"),
    ({"topK": 3, "messageRange": 0}, "m1 m2 x3", "m1 m2 x3"),
    ({"topK": 3, "messageRange": {"before": 0, "after": 2}}, "m1 m2 x3", "m1 m2 m3 m4 x3 x4 x5"),
    ({"topK": 3, "messageRange": {"before": 1}}, "m1 m2 x3", "m1 m2 m3 m4 x2 x3 x4 x5"),
    ({"topK": 3, "messageRange": 0, "scope": "thread"}, "m1 m2 m3", "m1 m2 m3"),
    ({"topK": 3, "messageRange": 0, "scope": "resource"}, "m1 m2 x3", "m1 m2 x3"),
    ({"messageRange": 0, "threshold": 0.94}, "m1 m2 x3", "m1 m2 x3"),
    ({"messageRange": 0, "filter": {"project": "a"}}, "x3", "x3"),
    ({"topK": None, "messageRange": None, "scope": None, "threshold": None, "filter": None}, "m1 m2 x3 m3", ""),
    ({"topK": 3, "messageRange": 0, "scope": "thread", "threshold": 0.94, "filter": {}}, "m1 m2", "m1 m2"),
]


def literal(value: object) -> str:
    """A value as it is spelt in a query: keys bare, and `scope` a bare word, as people write it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    return value if value in ("thread", "resource") else json.dumps(value)


async def matched(client: Client, literal: str, variables: str = "", **given: Any) -> tuple[str, str]:
    """Matches and transcript for a `semanticRecall` that is spelt within the query."""
    query = f"""query Search{variables} {{
      recall(threadId: "t1", vectorSearchString: "east", perPage: 0, threadConfig: {{semanticRecall: {literal}}}) {{
        transcript {{ id }} matches {{ message {{ id }} }} }} }}"""
    result = (await client.ask(query, **given)).data["recall"]
    return found(result), ids(result["transcript"])


async def test_every_form_as_a_variable_and_as_a_literal(client: Client) -> None:
    for form, matches, transcript in FORMS:
        result = await search(client, threadConfig={"semanticRecall": form})
        assert found(result) == matches, form
        assert not transcript or ids(result["transcript"]) == transcript, form
        assert await matched(client, literal(form)) == (matches, ids(result["transcript"])), form


async def test_a_literal_may_hold_text_and_variables(client: Client) -> None:
    assert await matched(client, '{topK: 1, messageRange: 0, scope: "thread"}') == ("m1", "m1")
    spelt = "{topK: $k, messageRange: {before: 0, after: $after}, scope: $scope, filter: {project: $project}}"
    variables = "($k: Int, $after: Int, $scope: String, $project: String)"
    assert await matched(client, spelt, variables, k=1, after=1, scope="resource", project="a") == ("x3", "x3 x4")


async def test_false_is_not_enabled(client: Client) -> None:
    for config in (None, {}, {"semanticRecall": None}, {"semanticRecall": False}, {"lastMessages": 5}):
        answer = await ask(client, threadConfig=config)
        assert answer.code == "BAD_USER_INPUT", config
        assert "semantic recall" in answer.error["message"]
        assert "RECALLQL_SEMANTIC_RECALL" in answer.error["message"]


REFUSED: list[tuple[object, str, str]] = [
    ({"topk": 3}, "BAD_USER_INPUT", "'topk'"),
    ({"topK": 3, "indexName": "x"}, "BAD_USER_INPUT", "'indexName'"),
    ({"messageRange": {"around": 1}}, "BAD_USER_INPUT", "'around'"),
    ({"topK": 0}, "BAD_USER_INPUT", "topK"),
    ({"topK": -1}, "BAD_USER_INPUT", "topK"),
    ({"topK": 1.5}, "BAD_USER_INPUT", "topK"),
    ({"topK": "3"}, "BAD_USER_INPUT", "topK"),
    ({"topK": True}, "BAD_USER_INPUT", "topK"),
    ({"topK": 1001}, "LIMIT_EXCEEDED", "1000"),
    ({"messageRange": -1}, "BAD_USER_INPUT", "messageRange"),
    ({"messageRange": True}, "BAD_USER_INPUT", "messageRange"),
    ({"messageRange": [1, 2]}, "BAD_USER_INPUT", "messageRange"),
    ({"messageRange": {"before": -1}}, "BAD_USER_INPUT", "messageRange.before"),
    ({"messageRange": 1001}, "LIMIT_EXCEEDED", "1000"),
    ({"messageRange": {"after": 1001}}, "LIMIT_EXCEEDED", "messageRange.after"),
    ({"scope": "user"}, "BAD_USER_INPUT", "scope"),
    ({"scope": "Thread"}, "BAD_USER_INPUT", "scope"),
    ({"scope": 1}, "BAD_USER_INPUT", "scope"),
    ({"threshold": 1.01}, "BAD_USER_INPUT", "threshold"),
    ({"threshold": -0.1}, "BAD_USER_INPUT", "threshold"),
    ({"threshold": "0.5"}, "BAD_USER_INPUT", "threshold"),
    ({"threshold": True}, "BAD_USER_INPUT", "threshold"),
    ({"filter": {"project": ["a"]}}, "BAD_USER_INPUT", "project"),
    ({"filter": {"a.b": 1}}, "BAD_USER_INPUT", "a.b"),
    ({"filter": {"$where": "1"}}, "BAD_USER_INPUT", "$where"),
    ({"filter": {"project": {"$ne": ""}}}, "BAD_USER_INPUT", "project"),
    ({"filter": []}, "BAD_USER_INPUT", "filter"),
    ("yes", "BAD_USER_INPUT", "semanticRecall"),
    (1, "BAD_USER_INPUT", "semanticRecall"),
    ([], "BAD_USER_INPUT", "semanticRecall"),
]


async def test_a_mistake_is_refused_by_name_before_anything_is_asked(mongodb_uri: str) -> None:
    async with (
        listening(mongodb_uri, "recallql_semantic_refused") as (database, commands),
        Place(database, "exact").serving() as client,
    ):
        await search(client)
        commands.reset()
        for form, code, word in REFUSED:
            answer = await ask(client, threadConfig={"semanticRecall": form})
            assert (answer.code, word in answer.error["message"]) == (code, True), (form, answer.body)
        assert cost(commands) == []


async def test_a_mistake_in_a_literal_is_refused(client: Client) -> None:
    for spelt in ("{topk: 3}", "{topK: 0}", "{scope: user}", "{threshold: high}", "maybe", '"thread"'):
        query = f'{{ recall(threadId: "t1", threadConfig: {{semanticRecall: {spelt}}}) {{ total }} }}'
        assert (await client.ask(query)).code == "BAD_USER_INPUT", spelt


# What the server's settings say


async def test_the_server_s_setting_enables_it(plain_database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await fill(plain_database)
    monkeypatch.setenv("RECALLQL_SEMANTIC_RECALL", '{"topK": 1, "messageRange": {"before": 0, "after": 1}}')
    async with place.serving() as client:
        for config in (None, {}, {"semanticRecall": None}, {"lastMessages": 3}):
            assert found(await search(client, threadConfig=config)) == "m1"
            assert ids((await search(client, threadConfig=config))["transcript"]) == "m1 m2"
        assert found(await search(client, threadConfig=options(topK=2))) == "m1 m2"
        assert (await ask(client, threadConfig={"semanticRecall": False})).code == "BAD_USER_INPUT"


async def test_the_server_s_setting_may_be_plain_true(plain_database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await fill(plain_database)
    monkeypatch.setenv("RECALLQL_SEMANTIC_RECALL", "true")
    async with place.serving() as client:
        assert found(await search(client, threadConfig=None)) == "m1 m2 x3 m3"
    monkeypatch.setenv("RECALLQL_SEMANTIC_RECALL", "false")
    async with place.serving() as client:
        assert (await ask(client, threadConfig=None)).code == "BAD_USER_INPUT"


@pytest.mark.parametrize("text", ["yes", '{"topk": 1}', '{"topK": 0}', "[1]", "{"])
def test_a_mistake_in_the_setting_keeps_the_server_from_starting(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECALLQL_SEMANTIC_RECALL", text)
    with pytest.raises(ValidationError, match="semantic_recall"):
        Settings()


async def test_without_an_embedder_an_error_says_so(plain_database: Any) -> None:
    await fill(plain_database)
    async with serving(plain_database) as client:
        answer = await ask(client)
        page = await search(client, vectorSearchString="", perPage=1)
    assert "RECALLQL_EMBEDDER" in answer.error["message"]
    assert (answer.code, ids(page["messages"])) == ("EMBEDDER_FAILED", "m10")


# How it fits with the other arguments


ITEMS: list[tuple[str | None, Row, str]] = [
    ("east", {}, "m5 m6 m7 m8 m9"),
    ("east", {"withPreviousMessages": 0}, "m7 m8 m9"),
    ("east", {"withNextMessages": 0}, "m5 m6 m7"),
    ("east", {"withPreviousMessages": None, "withNextMessages": 1}, "m5 m6 m7 m8"),
    ("east", {"withPreviousMessages": 3, "withNextMessages": 0}, "m4 m5 m6 m7"),
    ("", {}, "m7"),
    (None, {"withNextMessages": 1}, "m7 m8"),
]


async def test_included_messages_bring_two_and_two_when_a_text_is_searched_for(client: Client) -> None:
    config = options(topK=1, scope="thread", threshold=1)
    for text, item, expected in ITEMS:
        result = await search(client, vectorSearchString=text, include=[{"id": "m7", **item}], threadConfig=config)
        assert ids(result["transcript"]) == expected, (text, item)


async def test_history_may_be_left_out(client: Client) -> None:
    config = options(topK=1, messageRange=1) | {"lastMessages": False}
    result = await search(client, perPage=None, threadConfig=config)
    assert (ids(result["transcript"]), result["total"], result["perPage"]) == ("m1 m2", 10, 0)


async def test_every_message_says_why_it_is_there(client: Client) -> None:
    """PAGE before INCLUDED before MATCH before CONTEXT, each message once."""
    config = options(topK=3, messageRange={"before": 0, "after": 1})
    include = [{"id": "m2", "withNextMessages": 2, "withPreviousMessages": 0}, {"id": "m9"}]
    result = await search(client, perPage=3, include=include, threadConfig=config)
    origins = {row["id"]: row["origin"] for row in result["messages"]}
    assert origins == {
        **dict.fromkeys(["m10", "m9", "m8"], "PAGE"),
        "m2": "INCLUDED",
        **dict.fromkeys(["m1", "x3"], "MATCH"),
        **dict.fromkeys(["m3", "m4", "m7", "x4"], "CONTEXT"),
    }
    assert len(result["messages"]) == len(origins)


async def test_matches_are_ranked_with_their_neighbours_oldest_first(client: Client) -> None:
    result = await search(client, perPage=10, threadConfig={"semanticRecall": {"topK": 3}})
    told = [
        (match["rank"], match["message"]["id"], ids(match["before"]), ids(match["after"]))
        for match in result["matches"]
    ]
    assert told == [(1, "m1", "", "m2 m3"), (2, "m2", "m1", "m3 m4"), (3, "x3", "x1 x2", "x4 x5")]
    assert [match["score"] for match in result["matches"]] == [0.975, 0.95, 0.94]
    assert result["matches"][2]["message"]["text"] == "text of x3"


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
async def test_what_is_found_joins_the_one_order(client: Client, direction: str) -> None:
    order = {"field": "createdAt", "direction": direction}
    result = await search(client, perPage=2, orderBy=order, threadConfig=options(topK=3))
    expected = "m1 m2 x3" if direction == "ASC" else "x3 m10 m9 m2 m1"
    assert ids(result["messages"]) == expected
    assert ids(result["transcript"]).split() == sorted(expected.split(), key=lambda id: (id[0], int(id[1:])))
    assert (result["total"], result["hasMore"]) == (10, True)


@pytest.mark.parametrize(("top_k", "has_more"), [(9, False), (7, True)])
async def test_the_list_ends_when_page_and_matches_hold_all_of_it(client: Client, top_k: int, has_more: bool) -> None:
    config = options(topK=top_k, scope="thread")
    result = await search(client, perPage=1, threadConfig=config)
    assert (result["total"], result["hasMore"]) == (10, has_more)


async def test_matches_alone_may_be_selected(client: Client) -> None:
    query = """{ recall(threadId: "t1", vectorSearchString: "east", threadConfig: {semanticRecall: {topK: 1}}) {
        %s } }"""
    selections: dict[str, Row] = {
        "matches { message { text } after { id } }": {"message": {"text": "text of m1"}},
        "matches { score rank }": {"score": 0.975, "rank": 1},
    }
    for selected, expected in selections.items():
        (match,) = (await client.ask(query % selected)).data["recall"]["matches"]
        assert expected.items() <= match.items()
    told = (await client.ask(query % "engine usage { tokens }")).data["recall"]
    assert told["engine"] == "EXACT"


# What it costs


async def test_usage_tells_the_tokens_of_this_very_call(client: Client) -> None:
    first, again = [await search(client, vectorSearchString="east and west") for _ in range(2)]
    assert (first["usage"], again["usage"]) == ({"tokens": 3}, {"tokens": 0})
    assert (await search(client, vectorSearchString=None))["usage"] is None


async def test_usage_is_null_where_the_embedder_does_not_count(plain_database: Any) -> None:
    await fill(plain_database)
    async with serving_embedder(plain_database, KnownTexts({"sunrise": (1.0, 0.0, 0.0, 0.0)})) as client:
        result = await search(client, vectorSearchString="sunrise")
    assert (found(result), result["usage"], result["engine"]) == ("m1 m2 x3 m3", None, "EXACT")


async def test_the_engine_is_told(plain_place: Place) -> None:
    await talk(plain_place, {"m1": 0.9})
    async with plain_place.serving() as client:
        result = await search(client)
        unasked = await search(client, vectorSearchString=None)
    assert (result["engine"], unasked["engine"]) == (plain_place.engine.upper(), None)


def cost(commands: Commands) -> list[str]:
    """The commands that were sent, and the collection of each; not those that follow changes."""
    asked = [event for event in commands.sent if event.command.get("collection") != VECTORS]
    asked = [event for event in asked if "$changeStream" not in str(event.command.get("pipeline"))]
    return sorted(f"{event.command_name} {event.command[event.command_name]}" for event in asked)


PAGE = ["aggregate mastra_messages", "aggregate mastra_messages"]
OWNER = ["aggregate mastra_threads"]
FOUND = ["aggregate mastra_messages"]
"""Matches and windows; where they are many, one more."""


async def settled(client: Client) -> None:
    """Wait until the exact engine is told of changes: what it knew before is then forgotten once."""
    cache = client.app.state.memory.locator.search.cache
    for _ in range(1000):
        if cache.is_told:
            return
        await anyio.sleep(0.01)
    raise AssertionError("the changes are not followed")


@pytest.mark.parametrize(("top_k", "items", "commands_each"), [(1, 0, 1), (10, 20, 1), (40, 20, 2)])
async def test_matches_and_windows_cost_two_commands_at_most(
    uri: str, engine: str, top_k: int, items: int, commands_each: int
) -> None:
    """Beside the page and the owner. The exact engine, once it knows an owner's vectors, asks for none of them."""
    async with listening(uri, "recallql_semantic_commands") as (database, commands):
        place = Place(database, engine)
        await talk(place, {f"m{number}": 1 - number / 100 for number in range(1, 51)}, length=50)
        include = [{"id": f"m{number + 1}", "withPreviousMessages": number % 3} for number in range(items)]
        config = {"semanticRecall": {"topK": top_k, "messageRange": 2}}
        async with place.serving(vector_cache_seconds=3600) as client:
            await settled(client)
            await search(client)
            commands.reset()
            owned = await search(client, resourceId="res-a", perPage=10, include=include, threadConfig=config)
            costs = [cost(commands)]
            commands.reset()
            await search(client, vectorSearchString="east again", perPage=10, include=include, threadConfig=config)
            costs.append(cost(commands))
    vectors = [f"aggregate {VECTORS}"] if engine == "atlas" else []
    assert len(owned["matches"]) == top_k
    assert costs == [sorted(PAGE + OWNER + FOUND * commands_each + vectors)] * 2


async def test_matches_alone_cost_the_owner_and_one(mongodb_uri: str) -> None:
    query = """query($k: Int) { recall(threadId: "t1", vectorSearchString: "east",
        threadConfig: {semanticRecall: {topK: $k}}) { matches { message { id text } before { id } } } }"""
    async with listening(mongodb_uri, "recallql_semantic_alone") as (database, commands):
        place = await fill(database)
        async with place.serving() as client:
            await settled(client)
            await client.ask(query, k=1)
            commands.reset()
            await client.ask(query, k=5)
            told = cost(commands)
            commands.reset()
            await client.ask(query.replace("matches { message { id text } before { id } }", "total"), k=5)
            counted = cost(commands)
    assert told == sorted(OWNER + FOUND)
    assert counted == PAGE[:1]
