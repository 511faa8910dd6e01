"""What a query costs: as many rows as it asks for, lists beneath lists multiplied."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.graph.limited import Limited, limited, recall, threads

MESSAGES = "messages(perPage: NUMBER) { messages { id } }"
BENEATH = f"thread {{ {MESSAGES} }}"
SEARCH = 'vectorSearchString: "x", perPage: 1, threadConfig: {semanticRecall: {topK: 10, messageRange: NUMBER}}'
WINDOWS = "withPreviousMessages: NUMBER, withNextMessages: NUMBER"
TEN_ITEMS = "include: [" + ", ".join([f'{{id: "m1", {WINDOWS}}}'] * 10) + "]"


@pytest.fixture
async def five_hundred(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Limited]:
    """At most 500 rows."""
    async with limited(mongodb_uri, max_cost=500, embedder="toy") as api:
        yield api


COSTS = {
    "a literal": (threads("perPage: NUMBER"), 400, 600),
    "a literal of a recall": (recall("perPage: NUMBER"), 400, 600),
    "every row": (threads("perPage: NUMBER"), 400, "false"),
    "every row of a recall": (recall("perPage: NUMBER"), 400, "false"),
    "the default of a list above": (threads("page: 0", MESSAGES), 2, 6),
    "the default of a list beneath": (threads("perPage: NUMBER", "messages { messages { id } }"), 20, 60),
    "the default of a recall": (recall("page: 0", BENEATH), 20, 60),
    "null above": (threads("perPage: null", MESSAGES), 2, 6),
    "lists beneath lists": (threads("perPage: NUMBER", MESSAGES), 10, 30),
    "lists beneath the thread of a message": (recall("perPage: NUMBER", BENEATH), 10, 30),
    "lists beneath an end of a thread": (threads("perPage: NUMBER", f"lastMessage {{ {BENEATH} }}"), 10, 30),
    "both lists of a recall": (recall("perPage: NUMBER").replace("}", "} transcript { id }", 1), 200, 300),
    "lists beneath included messages": (recall(TEN_ITEMS.replace("NUMBER", "0"), BENEATH), 10, 60),
    "windows of included messages": (recall(TEN_ITEMS), 3, 60),
    "windows of one included message": (recall(f'include: [{{id: "m1", {WINDOWS}}}]'), 30, 300),
    "one included message without brackets": (recall(f'include: {{id: "m1", {WINDOWS}}}'), 30, 300),
    "last messages": (recall("threadConfig: {lastMessages: NUMBER}"), 400, 600),
    "matches": (recall(SEARCH.replace("NUMBER", "0").replace("10", "NUMBER")), 10, 600),
    "windows of matches": (recall(SEARCH), 2, 60),
    "windows of matches on one side": (recall(SEARCH.replace("NUMBER", "{after: NUMBER}")), 2, 90),
    "aliases": (f"{threads('perPage: NUMBER')} a: {threads('perPage: NUMBER')}", 200, 300),
    "an inline fragment": (f"... on Query {{ {threads('perPage: NUMBER')} }}", 400, 600),
    "a bare inline fragment": (f"... @include(if: true) {{ {threads('perPage: NUMBER')} }}", 400, 600),
    "a fragment": (f"...F }} fragment F on Query {{ {threads('perPage: NUMBER')}", 400, 600),
}
"""Queries with a number that keeps them below 500 rows, and one that does not."""


@pytest.mark.parametrize("name", COSTS)
async def test_a_cost_knows_how_many_rows_are_asked_for(five_hundred: Limited, name: str) -> None:
    query, few, many = COSTS[name]
    assert await five_hundred.allow(f"{{ {query} }}".replace("NUMBER", str(few)))
    assert "RECALLQL_MAX_COST" in await five_hundred.refuse(f"{{ {query} }}".replace("NUMBER", str(many)))


@pytest.mark.parametrize(
    ("settings", "allowed", "refused"),
    [
        ({"last_messages": 40}, "perPage: 5", "page: 0"),
        ({"last_messages": "false"}, "page: 0", "perPage: 60"),
        (
            {"semantic_recall": '{"topK": 20, "messageRange": 3}', "max_cost": 200},
            'vectorSearchString: "x", threadConfig: {semanticRecall: true}',
            'vectorSearchString: "x"',
        ),
    ],
)
async def test_a_cost_knows_the_settings_for_recalls_that_do_not_say(
    mongodb_uri: str, settings: dict[str, Any], allowed: str, refused: str
) -> None:
    own = {"max_cost": 20, "embedder": "toy"} | settings
    async with limited(mongodb_uri, **own) as api:
        assert await api.allow(f"{{ {recall(allowed)} }}")
        assert "RECALLQL_MAX_COST" in await api.refuse(f"{{ {recall(refused)} }}")


async def test_a_cost_knows_fragments_wherever_they_are_spread(five_hundred: Limited) -> None:
    query = "{ threads(perPage: %d) { ...F } } fragment F on ThreadPage { threads { ...G } } "
    beneath = f"fragment G on Thread {{ {MESSAGES.replace('NUMBER', '20')} }}"
    assert await five_hundred.allow(query % 10 + beneath)
    await five_hundred.refuse(query % 30 + beneath)
    twice = query.replace("{ ...F }", "{ ...F } a: threads(perPage: 30) { ...F }", 1)
    await five_hundred.refuse(twice % 10 + beneath)


async def test_a_cost_knows_variables_and_their_defaults(five_hundred: Limited) -> None:
    for declared in ("$n: PerPage", "$n: PerPage = 3", "$n: PerPage = 600"):
        query = f"query({declared}) {{ {threads('perPage: $n')} }}"
        assert await five_hundred.allow(query, n=400)
        await five_hundred.refuse(query, n=600)
        await five_hundred.refuse(query, n=600.0)
        await five_hundred.refuse(query, n=False)
    await five_hundred.refuse(f"query($n: PerPage = 600) {{ {threads('perPage: $n')} }}")
    await five_hundred.refuse(f"query($n: PerPage = false) {{ {threads('perPage: $n')} }}")
    assert await five_hundred.allow(f"query($n: PerPage) {{ {threads('perPage: $n')} }}")


async def test_a_cost_knows_variables_within_values(five_hundred: Limited) -> None:
    include = {"id": "m1", "withPreviousMessages": 300, "withNextMessages": 300}
    await five_hundred.refuse(f"query($i: [IncludeMessage!]) {{ {recall('include: $i')} }}", i=[include])
    await five_hundred.refuse(f"query($i: IncludeMessage!) {{ {recall('include: [$i]')} }}", i=include)
    window = '{id: "m1", withPreviousMessages: $n}'
    await five_hundred.refuse(f"query($n: Int) {{ {recall(f'include: [{window}]')} }}", n=600)
    await five_hundred.refuse(f"query($c: ThreadConfig) {{ {recall('threadConfig: $c')} }}", c={"lastMessages": 600})
    found = {"semanticRecall": {"topK": 200, "messageRange": 2}}
    searching = f"query($c: ThreadConfig, $v: String) {{ {recall('vectorSearchString: $v, threadConfig: $c')} }}"
    await five_hundred.refuse(searching, c=found, v="x")
    assert await five_hundred.allow(searching, c=found, v=None)


async def test_a_cost_knows_a_variable_that_stands_for_a_list_of_one(five_hundred: Limited) -> None:
    include = {"id": "m1", "withPreviousMessages": 300, "withNextMessages": 300}
    await five_hundred.refuse(f"query($i: [IncludeMessage!]) {{ {recall('include: $i')} }}", i=include)


async def test_each_operation_is_measured_with_defaults_of_its_own(five_hundred: Limited) -> None:
    for body in (threads("perPage: $n"), "...F"):
        query = f"query A($n: PerPage = 1) {{ {body} }} query B($n: PerPage = false) {{ {body} }}"
        if body == "...F":
            query += f" fragment F on Query {{ {threads('perPage: $n')} }}"
        five_hundred.commands.reset()
        answer = await five_hundred.client.send({"query": query, "operationName": "B"})
        assert answer.code == "LIMIT_EXCEEDED"
        assert five_hundred.commands.names == []


HUGE = ["1e400", "-1e400", "9" * 400, "9" * 5000, "1e308", "-1"]


@pytest.mark.parametrize("number", HUGE, ids=[text[:6] for text in HUGE])
async def test_a_number_out_of_all_bounds_is_the_client_s_mistake(five_hundred: Limited, number: str) -> None:
    five_hundred.commands.reset()
    answer = await five_hundred.client.ask(f"{{ {threads(f'perPage: {number}')} }}")
    codes = {error["extensions"]["code"] for error in answer.body["errors"]}
    assert codes <= {"LIMIT_EXCEEDED", "BAD_USER_INPUT"}
    assert five_hundred.commands.names == []


async def test_a_cost_of_thousands_of_digits_can_be_told(five_hundred: Limited) -> None:
    beneath, number = "id", "9" * 300
    for _ in range(20):
        beneath = f"messages(perPage: {number}) {{ messages {{ thread {{ {beneath} }} }} }}"
    assert "RECALLQL_MAX_COST" in await five_hundred.refuse(f"{{ {threads('perPage: 1', beneath)} }}")
