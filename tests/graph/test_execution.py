"""Lists completed by a plan, held against the stock executor: the same data, errors and nulls, whatever is asked."""

import asyncio
import gc
import json
import secrets
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
import strawberry
from graphql import get_introspection_query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from graph.context import Context, Defaults
from graph.execution import PLANS, PlanningExecutor
from graph.limits import QueryLimits
from graph.loaders import Loaders
from graph.metrics import Metrics
from graph.operation import CachedParsing
from graph.response import JSON, from_result
from graph.schema import Schema, create_schema
from store.embedders.toy import ToyEmbedder
from store.memory import Memory
from store.semantic_search import SemanticSearch
from store.slices import SLICE
from tests.graph.documents import CONDITIONS, documents
from tests.graph.misbehaving import (
    LISTS,
    ODD_ITEMS,
    ODD_VALUES,
    Counting,
    Watching,
    broken_item,
    item,
    later,
    make_schema,
)
from tests.graph.odd_rows import ARGUMENTS, VARIABLES, fill_with_odd_rows

T = TypeVar("T")
Make = Callable[[], Any]
"""Makes what a list resolver of the tiny schema returns; anew for each executor, as generators are used up."""

pytestmark = [
    # The driver leaves a socket to the garbage collector when a command is cancelled while it connects.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    # graphql-core cancels the fields beside one that fails, some of them before their resolvers have begun.
    pytest.mark.filterwarnings("ignore:coroutine '(Executor|GraphQLCoreConverter)\\.:RuntimeWarning"),
]

thorough = settings(deadline=None, suppress_health_check=list(HealthCheck))

# --- Objects that misbehave -------------------------------------------------------------------------------------

PLANNED, STOCK = make_schema(PlanningExecutor), make_schema(None)
TYPES = PLANNED._schema
LISTED = ("items", "maybe", "sparse", "nested", "later")
PLAIN = """{ __typename id text note number ratio flag colour anything names grid
    child { name size parts } own { name size parts } children { name size } sparse { name } fetched { name size } }"""
EVERYTHING = PLAIN.replace("__typename", "")


async def ask(schema: strawberry.Schema, document: str, make: Make, **variables: Any) -> bytes:
    """The body of the answer, as it leaves over HTTP: the order of its fields counts as well."""
    used = {name: value for name, value in variables.items() if f"${name}:" in document}
    result = await schema.execute(document, variable_values=used, context_value={"items": make()})
    assert all(error.path for error in result.errors or ()), "the document is valid"
    return b"".join(from_result(result, JSON).pieces)


async def agreed(document: str, make: Make, **variables: Any) -> bytes:
    """The answer of both executors, which is the same."""
    planned, stock = [await ask(schema, document, make, **variables) for schema in (PLANNED, STOCK)]
    assert explained(planned) == explained(stock), document
    return planned


def explained(answer: bytes) -> tuple[str, set[tuple[Any, ...]]]:
    """The data, and each null that errors explain, with the error itself where it is the null's own.

    Of several fields that fail beneath one null, which one is told of depends on which failed first.
    """
    body = json.loads(answer)
    nulls = set()
    for error in body.get("errors", ()):
        place = null_at(body["data"], error["path"])
        nulls.add((place, json.dumps(error) if len(place) == len(error["path"]) else None))
    return json.dumps(body["data"]), nulls


def null_at(data: Any, path: list[str | int]) -> tuple[str | int, ...]:
    """The place on this path where there is nothing."""
    for depth, key in enumerate(path):
        if data is None:
            return tuple(path[:depth])
        data = data[key]
    assert data is None
    return tuple(path)


def made(plan: str | dict[str, int]) -> Any:
    """An odd item by its name, or one with odd values by their numbers."""
    if isinstance(plan, str):
        return ODD_ITEMS[plan]()
    return item(**{name: ODD_VALUES[name][number % len(ODD_VALUES[name])]() for name, number in plan.items()})


def among_others(make: Make) -> Make:
    """A list in which something odd stands between two items as they should be."""
    return lambda: [item(), make(), item()]


@pytest.mark.parametrize("name", ODD_VALUES)
async def test_an_odd_value_of_one_item(name: str) -> None:
    answers = [
        await agreed(f"{{ {listed} {EVERYTHING} }}", among_others(partial(made, {name: number})))
        for number in range(len(ODD_VALUES[name]))
        for listed in LISTED
    ]
    assert any(b'"errors"' in answer for answer in answers)
    assert any(b'"errors"' not in answer for answer in answers)


@pytest.mark.parametrize("name", ODD_ITEMS)
async def test_an_odd_item(name: str) -> None:
    for listed in LISTED:
        answer = await agreed(f"{{ {listed} {EVERYTHING} }}", among_others(ODD_ITEMS[name]))
        assert b'"errors"' in answer or (name == "nothing" and listed in ("sparse", "later"))


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_of_another_kind(name: str) -> None:
    for listed in LISTED:
        for items in ([], [item()], [item(), item(text=None), None]):
            await agreed(f"{{ {listed} {{ id text }} }}", partial(LISTS[name], items))


async def test_an_error_in_the_place_of_an_item_is_raised_even_if_it_looks_like_one() -> None:
    assert b"a broken item" in await agreed("{ sparse { id text } }", lambda: [item(), broken_item()])


@pytest.mark.parametrize("promised", ["items", "anything", "child"])
async def test_a_promise_is_waited_for(promised: str) -> None:
    def make() -> list[Any]:
        return [later(item())] if promised == "items" else [item(**{promised: later(None)})]

    assert b'"errors"' not in await agreed("{ items { id anything child { name } } }", make)


@pytest.mark.parametrize(
    "selected", ["id @skip(if: true)", "... @include(if: false) { id }", "child { name @skip(if: true) }"]
)
async def test_objects_of_which_nothing_is_selected_in_the_end(selected: str) -> None:
    for listed in LISTED:
        await agreed(f"{{ {listed} {{ {selected} }} }}", lambda: [item(), item(child=None)])


ODD_ATTRIBUTES = st.dictionaries(st.sampled_from(sorted(ODD_VALUES)), st.integers(0, 4), max_size=2)
ANY_ITEM: st.SearchStrategy[Any] = st.sampled_from(sorted(ODD_ITEMS)) | ODD_ATTRIBUTES | st.just({})


@given(document=documents(TYPES, {}, {}, depth=3), plans=st.lists(ANY_ITEM, max_size=4))
@settings(thorough, max_examples=100)
def test_any_query_of_odd_items(document: str, plans: list[Any]) -> None:
    asyncio.run(agreed(document, lambda: list(map(made, plans)), yes=True, no=False))


# --- Long lists, watched lists, and that there is a plan at all -------------------------------------------------


def long(**odd: Any) -> list[Any]:
    """A list that is completed in slices, with an odd item in the last one."""
    return [*(item() for _ in range(SLICE + 3)), item(**odd), item()]


@pytest.mark.parametrize("odd", [{}, {"text": None}, {"number": "7"}, {"children": [None]}])
@pytest.mark.parametrize("listed", LISTED)
async def test_a_long_list(listed: str, odd: dict[str, Any]) -> None:
    await agreed(f"{{ {listed} {{ id text number children {{ name }} }} }}", lambda: long(**odd))


async def test_the_others_have_their_turn_while_a_long_list_is_completed() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    await ask(PLANNED, "{ items { id } }", lambda: [item()] * (5 * SLICE))
    other.cancel()
    assert turns >= 5


async def executed(document: str, items: list[Any]) -> int:
    """How many fields are executed one by one."""
    context: dict[str, Any] = {"items": items}
    result = await make_schema(Counting).execute(document, context_value=context)
    assert result.data
    return int(context["executed"])


async def test_no_field_of_a_plain_list_is_executed_by_itself() -> None:
    document = f"{{ maybe {EVERYTHING} }}"
    assert await executed(document, [item() for _ in range(100)]) == 1
    assert await executed(document, [item() for _ in range(3 * SLICE)]) == 1
    assert await executed(document, [item(), item(note={})]) > 30


async def test_a_field_with_a_resolver_takes_its_whole_list_the_stock_way() -> None:
    assert await executed("{ maybe { id workedOut } }", [item()] * 10) == 21


@pytest.mark.parametrize("batch", ["as it should be", "fails", "is short"])
@pytest.mark.parametrize("listed", LISTED)
async def test_a_batch_gives_what_its_field_gives_one_by_one(listed: str, batch: str) -> None:
    answers = []
    for executor in (PlanningExecutor, None):
        context: dict[str, Any] = {"items": [item(), item(fetched=None), item()], "batch": batch}
        document = f"{{ {listed} {{ id again: fetched {{ size }} fetched {{ name }} }} }}"
        result = await make_schema(executor).execute(document, context_value=context)
        answers.append(b"".join(from_result(result, JSON).pieces))
    assert answers[0] == answers[1]
    assert answers[0].count(b'"name":"fetched"') >= 2


async def test_a_batch_fetches_once_for_all_items_of_a_list() -> None:
    for size in (0, 1, 3, 3 * SLICE):
        context: dict[str, Any] = {"items": [item() for _ in range(size)]}
        await make_schema(Counting).execute("{ items { id fetched { name } } }", context_value=context)
        assert (context.get("batches", 0), context["executed"]) == (1 if size else 0, 1)


async def test_a_plan_is_made_once_for_a_document_and_anew_where_a_directive_may_change_it() -> None:
    schema = make_schema(PlanningExecutor, CachedParsing)
    document = "query($yes: Boolean!) { items { id note @include(if: $yes) } }"
    shown = [await schema.execute(document, {"yes": yes}, {"items": [item()]}) for yes in (True, False, True)]
    assert [list(result.data["items"][0]) for result in shown if result.data] == [
        ["id", "note"],
        ["id"],
        ["id", "note"],
    ]


async def test_plans_are_forgotten_with_the_document_that_they_were_made_from() -> None:
    schema = make_schema(PlanningExecutor, partial(CachedParsing, maxsize=3))  # type: ignore[arg-type]
    for number in range(10):
        await schema.execute(f"{{ items {{ name{number}: id }} }}", context_value={"items": [item()]})
    gc.collect()
    assert 1 <= len(schema._schema.extensions[PLANS]) <= 4


async def test_middleware_sees_every_field() -> None:
    seen = []
    for executor in (PlanningExecutor, None):
        context: dict[str, Any] = {"items": [item(), item()]}
        await make_schema(executor, Watching).execute("{ items { id child { name } } }", context_value=context)
        seen.append(context["seen"])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1 + 2 * 3


# --- The whole schema over a database ---------------------------------------------------------------------------

UNLIMITED = QueryLimits(max_depth=99, max_aliases=9999, max_directives=9999, max_tokens=99_999, max_cost=10**9)
OURS = {planning: create_schema(UNLIMITED, planning=planning) for planning in (True, False)}
GIVEN = {name: value for name, (_, value) in (VARIABLES | CONDITIONS).items() if value is not None}


class World:
    """One database, filled once, asked through both executors on one event loop."""

    def __init__(self, uri: str) -> None:
        self.runner = asyncio.Runner()
        self.client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
        self.database = self.client[f"recallql_test_{secrets.token_hex(6)}"]
        self.search = SemanticSearch(self.database, ToyEmbedder())
        self.memory = Memory(self.database, search=self.search)

    async def fill(self) -> None:
        """Insert every row, and look at them as the application does at its start."""
        await fill_with_odd_rows(self.database)
        await self.memory.survey()
        # Only the first search for a text costs tokens; the second executor would answer with none.
        await self.search.embedder.embed(["a broken teapot"])

    def close(self) -> None:
        """Drop the database."""
        self.run(self.search.aclose())
        self.run(self.client.drop_database(self.database.name))
        self.run(self.client.close())
        self.runner.close()
        gc.collect()

    def run(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """The result of an awaitable, on the one loop of this world."""
        return self.runner.run(awaitable)

    def answer(self, schema: Schema, document: str) -> bytes:
        """The body of the answer, as it leaves over HTTP."""
        context = Context(self.memory, Metrics(), Loaders(self.memory), Defaults())
        used = {name: value for name, value in GIVEN.items() if f"${name}:" in document}
        result = self.run(schema.execute(document, variable_values=used, context_value=context))
        assert all(error.path for error in result.errors or ()), "the document is valid"
        return b"".join(from_result(result, JSON).pieces)


@pytest.fixture(scope="module")
def world(mongodb_uri: str) -> Iterator[World]:
    """One client and one event loop for every example of this module."""
    world = World(mongodb_uri)
    try:
        world.run(world.fill())
        yield world
    finally:
        world.close()


@given(document=documents(OURS[True]._schema, ARGUMENTS, {name: type_ for name, (type_, _) in VARIABLES.items()}))
@settings(thorough, max_examples=60)
def test_any_query_over_a_database(world: World, document: str) -> None:
    assert explained(world.answer(OURS[True], document)) == explained(world.answer(OURS[False], document))


MESSAGE = "{ id threadId resourceId role type createdAt content metadata text uiMessage origin }"


@pytest.mark.parametrize("thread_id", ["odd", "times", "long", "thread-parcel", "thread-incident"])
def test_every_field_of_every_message(world: World, thread_id: str) -> None:
    document = f'{{ recall(threadId: "{thread_id}", perPage: false) {{ messages {MESSAGE} transcript {MESSAGE} }} }}'
    answer = world.answer(OURS[True], document)
    assert answer == world.answer(OURS[False], document)
    assert answer.count(b'"createdAt"') >= 14


def test_introspection(world: World) -> None:
    answer = world.answer(OURS[True], get_introspection_query())
    assert answer == world.answer(OURS[False], get_introspection_query())
    assert b"RecallMatch" in answer
