"""What one request may ask: each limit names itself, its value and its setting, before the database is asked."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from types import TracebackType

import pytest
from graphql import get_introspection_query

from tests.graph.limited import Limited, limited, threads

# Each limit, at its value and one beyond


BOUNDARIES = {
    "depth": (
        {"max_depth": 3},
        "{ threads { threads { id } } }",
        "{ threads { threads { resource { id } } } }",
        ("4 levels", "at most 3", "RECALLQL_MAX_DEPTH"),
    ),
    "depth in fragments": (
        {"max_depth": 3},
        "{ ...F } fragment F on Query { threads { ...G } } fragment G on ThreadPage { threads { id } }",
        "{ ... on Query { threads { ...G } } } fragment G on ThreadPage { threads { resource { id } } }",
        ("4 levels", "RECALLQL_MAX_DEPTH"),
    ),
    "aliases": (
        {"max_aliases": 2},
        "{ a: threads { n: total } threads { total } }",
        "{ a: threads { n: total m: total } }",
        ("3 aliases", "at most 2", "RECALLQL_MAX_ALIASES"),
    ),
    "aliases in fragments, each time they are spread": (
        {"max_aliases": 3},
        "{ a: threads { ...F } } fragment F on ThreadPage { n: total m: total }",
        "{ a: threads { ...F } threads(page: 1) { ...F } } fragment F on ThreadPage { n: total m: total }",
        ("5 aliases", "RECALLQL_MAX_ALIASES"),
    ),
    "a field asked for again": (
        {"max_aliases": 2},
        "{ threads { total total } threads { total } }",
        "{ threads { total total total } threads { total } }",
        ("3 aliases", "at most 2", "RECALLQL_MAX_ALIASES"),
    ),
    "directives": (
        {"max_directives": 2},
        "{ threads @include(if: true) { total @skip(if: false) } }",
        "{ threads @include(if: true) { total @skip(if: false) ... @include(if: true) { hasMore } } }",
        ("3 directives", "at most 2", "RECALLQL_MAX_DIRECTIVES"),
    ),
    "tokens": (
        {"max_tokens": 7},
        "{ threads { total } }",
        "{ threads { total hasMore } threads { total } }",
        ("7 tokens", "RECALLQL_MAX_TOKENS"),
    ),
    "cost": (
        {"max_cost": 50},
        "{ threads(perPage: 40) { threads { id } } }",
        "{ threads(perPage: 60) { threads { id } } }",
        ("cost", "at most 50", "RECALLQL_MAX_COST"),
    ),
}


@pytest.mark.parametrize("name", BOUNDARIES)
async def test_a_limit_names_itself_its_value_and_its_setting(mongodb_uri: str, name: str) -> None:
    settings, allowed, refused, words = BOUNDARIES[name]
    async with limited(mongodb_uri, **settings) as api:
        assert await api.allow(allowed)
        message = await api.refuse(refused)
    assert [word for word in words if word not in message] == []


async def test_several_limits_are_told_at_once(mongodb_uri: str) -> None:
    async with limited(mongodb_uri, max_depth=2, max_aliases=0, max_cost=10) as api:
        told = await api.refuse("{ a: threads { threads { id } } }")
    assert all(name in told for name in ("RECALLQL_MAX_DEPTH", "RECALLQL_MAX_ALIASES", "RECALLQL_MAX_COST"))


async def test_limits_hold_for_queries_by_get(mongodb_uri: str) -> None:
    async with limited(mongodb_uri, max_aliases=0) as api:
        response = await api.client.http.get("/graphql", params={"query": "{ a: threads { total } }"})
    assert response.json()["errors"][0]["extensions"]["code"] == "LIMIT_EXCEEDED"


@pytest.mark.parametrize("settings", [{"max_page_size": 5}, {"max_rows": 5}])
async def test_rows_of_one_answer_are_bounded(mongodb_uri: str, settings: dict[str, int]) -> None:
    rows = "6" if "max_page_size" in settings else "false"
    async with limited(mongodb_uri, **settings) as api:
        answer = await api.client.ask(f'{{ recall(threadId: "t1", perPage: {rows}) {{ messages {{ id }} }} }}')
    assert answer.code == "LIMIT_EXCEEDED"
    assert all(word in answer.error["message"] for word in ("at most 5", f"RECALLQL_{next(iter(settings)).upper()}"))


async def test_the_size_of_a_body_is_bounded(mongodb_uri: str) -> None:
    query = "{ threads { total } }"
    async with limited(mongodb_uri, max_body_bytes=1000) as api:
        assert await api.allow(query, padding="x" * 900)
        answer = await api.client.ask(query, padding="x" * 1000)
    assert (answer.status, answer.code) == (413, "LIMIT_EXCEEDED")
    assert all(word in answer.error["message"] for word in ("1000 bytes", "RECALLQL_MAX_BODY_BYTES"))


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the client gives up."""
    await reader.read()
    writer.close()


async def test_the_time_of_a_request_is_bounded(mongodb_uri: str) -> None:
    query = '{ recall(threadId: "t1", vectorSearchString: "x") { matches { rank } } }'
    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"
    embedding = {"embedder": "openai", "embedder_url": url, "embedder_model": "x", "semantic_recall": "true"}
    async with silent, limited(mongodb_uri, request_timeout=0.3, **embedding) as api:
        answer = await api.client.ask(query)
        assert await api.allow("{ threads { total } }")
    assert (answer.status, answer.code) == (503, "LIMIT_EXCEEDED")
    assert all(word in answer.error["message"] for word in ("0.3 seconds", "RECALLQL_REQUEST_TIMEOUT"))


# One cheap request, very much work


@pytest.fixture
async def defaults(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Limited]:
    """The limits as they are without any setting."""
    async with limited(mongodb_uri) as api:
        yield api


async def test_two_hundred_aliases_of_everything_are_refused(defaults: Limited) -> None:
    aliases = " ".join(f"a{number}: {threads('perPage: false')}" for number in range(200))
    assert "RECALLQL_MAX_ALIASES" in await defaults.refuse(f"{{ {aliases} }}")


async def test_a_million_threads_are_refused(defaults: Limited) -> None:
    await defaults.refuse(f"{{ {threads('perPage: 1000000')} }}")


async def test_sixty_levels_are_refused(defaults: Limited) -> None:
    beneath = "id"
    for _ in range(20):
        beneath = f"messages(perPage: 1) {{ messages {{ thread {{ {beneath} }} }} }}"
    assert "RECALLQL_MAX_DEPTH" in await defaults.refuse(f"{{ {threads('perPage: 1', beneath)} }}")


@pytest.mark.parametrize("opening", ["{ threads ", "... on Query { ", "threads(filter: {metadata: {a: ["])
async def test_absurd_nesting_is_refused(defaults: Limited, opening: str) -> None:
    defaults.commands.reset()
    answer = await defaults.client.ask("{ " + opening * 900)
    assert answer.code in ("LIMIT_EXCEEDED", "BAD_USER_INPUT")
    assert defaults.commands.names == []


def doubling(type_: str, levels: int, last: str) -> str:
    """Fragments F0, F1, ..., each of which spreads the next one twice."""
    steps = [f"fragment F{n} on {type_} {{ ...F{n + 1} ...F{n + 1} }}" for n in range(levels)]
    return " ".join([*steps, f"fragment F{levels} on {type_} {{ {last} }}"])


async def test_fragments_that_double_the_rows_at_each_step_are_refused(defaults: Limited) -> None:
    assert "RECALLQL_MAX_COST" in await defaults.refuse("{ ...F0 } " + doubling("Query", 100, threads("perPage: 1")))


async def test_fragments_that_double_the_aliases_at_each_step_are_refused(defaults: Limited) -> None:
    query = "{ threads { ...F0 } } " + doubling("ThreadPage", 100, "n: total")
    assert "RECALLQL_MAX_ALIASES" in await defaults.refuse(query)


ASKING = """
import asyncio, sys
from tests.zoo import serving

async def ask(uri, query):
    async with serving(mongodb_uri=uri) as client:
        print((await client.ask(query)).data)

asyncio.run(ask(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("way_in", "type_"),
    [
        ("threads { ...F0 }", "ThreadPage"),
        ('recall(threadId: "nowhere") { ...F0 }', "RecallResult"),
        ("threads { threads { messages { ...F0 } } }", "MessagePage"),
    ],
)
def test_fragments_that_double_nothing_but_themselves_cost_no_time(mongodb_uri: str, way_in: str, type_: str) -> None:
    query = f"{{ {way_in} }} " + doubling(type_, 60, "total")
    # In a process of its own, because 2 to the power of 60 steps would never end.
    command = [sys.executable, "-c", ASKING, mongodb_uri, query]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert asked.stdout.startswith("{'")


@pytest.mark.parametrize(
    "query",
    [
        "{ ...A } fragment A on Query { ...A }",
        "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A threads { total } }",
        "{ threads { threads { ...A } } } fragment A on Thread { id lastMessage { thread { ...A } } }",
        "{ threads { threads { ...A } } } fragment A on Thread { messages { messages { thread { ...A } } } }",
    ],
)
async def test_fragments_in_a_circle_are_refused(defaults: Limited, query: str) -> None:
    defaults.commands.reset()
    answer = await defaults.client.ask(query)
    codes = {error["extensions"]["code"] for error in answer.body["errors"]}
    assert codes <= {"BAD_USER_INPUT", "LIMIT_EXCEEDED"}
    assert defaults.commands.names == []


async def test_introspection_passes_as_tools_send_it(defaults: Limited) -> None:
    query = get_introspection_query(
        descriptions=True,
        specified_by_url=True,
        directive_is_repeatable=True,
        schema_description=True,
        input_value_deprecation=True,
    )
    data = await defaults.allow(query)
    assert "ThreadPage" in {type_["name"] for type_ in data["__schema"]["types"]}


ALIASES = range(200)
INTROSPECTION = {
    "of the schema": " ".join(f"a{n}: __schema {{ types {{ fields {{ name }} }} }}" for n in ALIASES),
    "beneath it": "__schema { " + " ".join(f"a{n}: types {{ fields {{ name }} }}" for n in ALIASES) + " }",
    "of a type": " ".join(f'a{n}: __type(name: "Query") {{ fields {{ name }} }}' for n in ALIASES),
}


@pytest.mark.parametrize("name", INTROSPECTION)
async def test_two_hundred_aliases_of_introspection_are_refused(defaults: Limited, name: str) -> None:
    assert "RECALLQL_MAX_ALIASES" in await defaults.refuse(f"{{ {INTROSPECTION[name]} }}")


async def test_introspection_that_multiplies_itself_is_refused(defaults: Limited) -> None:
    beneath = "name"
    for _ in range(6):
        beneath = f"fields {{ type {{ {beneath} }} }}"
    answer = await defaults.client.ask(f"{{ __schema {{ types {{ {beneath} }} }} }}")
    assert {error["extensions"]["code"] for error in answer.body["errors"]} <= {"LIMIT_EXCEEDED", "BAD_USER_INPUT"}


DASHBOARD = """
query Dashboard($owner: ID = "res-a") {
  recent: threads(filter: {resourceId: $owner}, perPage: 20, orderBy: {field: updatedAt}) { ...Page }
  oldest: threads(filter: {resourceId: $owner}, perPage: 5, orderBy: {direction: ASC}) { ...Page }
  open: recall(threadId: "t1", resourceId: $owner, perPage: 50) {
    transcript { id role text createdAt thread { lastMessage { thread { lastMessage { thread { id } } } } } }
    total hasMore
  }
}
fragment Page on ThreadPage {
  threads { id title updatedAt messageCount lastMessage { text role } messages(perPage: 10) { messages { id text } } }
  total hasMore
}
"""


async def test_an_ordinary_dashboard_passes(defaults: Limited) -> None:
    data = await defaults.allow(DASHBOARD)
    assert [row["messageCount"] for row in data["recent"]["threads"]] == [10]
    assert data["open"]["total"] == 10


async def test_every_row_of_one_thread_passes(defaults: Limited) -> None:
    data = await defaults.allow('{ recall(threadId: "t1", perPage: false) { messages { id text } total } }')
    assert data["recall"]["total"] == 10


def tracebacks() -> int:
    """How many tracebacks, each of which keeps whole frames alive, somebody still holds."""
    gc.collect()
    return sum(isinstance(held, TracebackType) for held in gc.get_objects())


async def test_nothing_of_what_is_refused_is_kept(defaults: Limited) -> None:
    refused = ("{ threads(perPage: -%d) { total } }", '{ recall(threadId: "%d", filter: {metadata: []}) { total } }')
    before = tracebacks()
    for number in range(1, 100):
        assert (await defaults.client.ask(refused[number % 2] % number)).code == "BAD_USER_INPUT"
    assert tracebacks() < before + 50
