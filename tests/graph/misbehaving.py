"""A tiny schema whose objects are not what it promises: what the executors must agree on."""

# Strawberry types its decorators as Any.
# mypy: disable-error-code="untyped-decorator"

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.extensions import SchemaExtension
from strawberry.scalars import JSON
from strawberry.types import ExecutionContext

from graph.execution import PlanningExecutor
from graph.planning import BATCH
from graph.selection import Selection


@strawberry.enum
class Colour(Enum):
    """Two values."""

    RED = "red"
    BLUE = "blue"


@strawberry.type
class Child:
    """An object beneath another."""

    name: str
    size: int | None
    parts: list[str | None] | None


async def fetch(items: Sequence[Any], context: dict[str, Any], selected: Selection) -> list[Any]:
    """What is fetched for all items at once, or what the context says instead."""
    context["batches"] = context.get("batches", 0) + 1
    if context.get("batch") == "fails":
        raise Broken("fetching")
    return [each.fetched for each in items][context.get("batch") == "is short" :]


async def resolve_fetched(root: strawberry.Parent[Any]) -> Any:
    """What is fetched for one item."""
    return root.fetched


@strawberry.type
class Item:
    """An object with a field of every kind that a plan covers, and one that it does not."""

    id: strawberry.ID
    text: str
    note: str | None
    number: int | None
    ratio: float | None
    flag: bool | None
    colour: Colour | None
    anything: JSON | None
    names: list[str] | None
    grid: list[list[int | None]] | None
    child: Child | None
    own: Child
    children: list[Child] | None
    sparse: list[Child | None]
    fetched: Any = strawberry.field(
        resolver=resolve_fetched, graphql_type=Child | None, metadata={BATCH: fetch}, description="Fetched for a list."
    )

    @strawberry.field(graphql_type=str)
    def worked_out(self) -> str:
        """A field with a resolver."""
        return f"worked out of {self.id}"


@strawberry.type
class Query:
    """The same objects in lists of four kinds."""

    @strawberry.field
    def items(self, info: strawberry.Info) -> list[Item]:
        """Neither the list nor an item may be null."""
        return info.context["items"]  # type: ignore[no-any-return]

    @strawberry.field
    def maybe(self, info: strawberry.Info) -> list[Item] | None:
        """The list may be null, an item may not."""
        return info.context["items"]  # type: ignore[no-any-return]

    @strawberry.field
    def sparse(self, info: strawberry.Info) -> list[Item | None] | None:
        """Any item may be null."""
        return info.context["items"]  # type: ignore[no-any-return]

    @strawberry.field
    def nested(self, info: strawberry.Info) -> list[list[Item] | None] | None:
        """The list twice in a list."""
        return [info.context["items"], info.context["items"]]

    @strawberry.field
    async def later(self, info: strawberry.Info) -> list[Item | None] | None:
        """The list when it has been waited for."""
        return info.context["items"]  # type: ignore[no-any-return]


class Thing:
    """Any attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Raising(Thing):
    """An attribute that cannot be read."""

    @property
    def note(self) -> str:
        """Raises."""
        raise LookupError("no note")


class Broken(Exception):
    """An error in the place of a value."""


class Awkward:
    """A value that no scalar takes."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def child(**odd: Any) -> Thing:
    """A child as it should be, but for the attributes given."""
    return Thing(**({"name": "a child", "size": 1, "parts": ["a", None]} | odd))


def attributes() -> dict[str, Any]:
    """The attributes of an item as it should be."""
    return {
        "id": "an id",
        "text": "a text",
        "note": None,
        "number": 7,
        "ratio": 0.5,
        "flag": True,
        "colour": Colour.RED,
        "anything": {"any": ["thing"]},
        "names": ["one", "two"],
        "grid": [[1, None], []],
        "child": child(),
        "own": child(name="its own"),
        "children": [child(), child(size=None)],
        "sparse": [child(), None],
        "fetched": child(name="fetched"),
    }


def item(**odd: Any) -> Thing:
    """An item as it should be, but for the attributes given."""
    return Thing(**(attributes() | odd))


def lacking(*names: str) -> Thing:
    """An item without some of its attributes."""
    return Thing(**{name: value for name, value in attributes().items() if name not in names})


def broken_item() -> Broken:
    """An error that has every attribute of an item."""
    broken = Broken("a broken item")
    broken.__dict__.update(attributes())
    return broken


async def later(value: object) -> object:
    """A promise of a value."""
    return value


async def _stream(*values: object) -> AsyncIterator[object]:
    for value in values:
        yield value


def _until_it_breaks(*values: object) -> Iterator[object]:
    yield from values
    raise LookupError("no more items")


ODD_VALUES: dict[str, list[Callable[[], Any]]] = {
    "id": [lambda: None, lambda: 5, lambda: 5.5, lambda: True, lambda: b"id", lambda: Broken("id"), Awkward],
    "text": [lambda: None, lambda: 5, lambda: True, list, lambda: "\ud800", lambda: Broken("text"), Awkward],
    "note": [lambda: "a note", lambda: 5, dict, lambda: GraphQLError("note", extensions={"code": "NOT_FOUND"})],
    "number": [lambda: None, lambda: "7", lambda: 2**40, lambda: 7.0, lambda: 7.5, lambda: True, lambda: float("nan")],
    "ratio": [lambda: None, lambda: "0.5", lambda: float("inf"), lambda: 1, lambda: True, object],
    "flag": [lambda: None, lambda: "yes", object, lambda: 0, lambda: float("nan"), lambda: Broken("flag")],
    "colour": [lambda: None, lambda: "red", lambda: "RED", lambda: "GREEN", list, lambda: Child],
    "anything": [lambda: None, lambda: Broken("anything"), lambda: float("nan")],
    "names": [
        lambda: None,
        lambda: "ab",
        lambda: ("a", "b"),
        lambda: (name for name in "ab"),
        lambda: ["a", None],
        lambda: [1, {}],
        lambda: 5,
    ],
    "grid": [
        lambda: None,
        lambda: [None],
        lambda: ((1,), [2]),
        lambda: [[1, "x"]],
        lambda: [range(2)],
        lambda: [1],
        lambda: [iter([1])],
    ],
    "child": [lambda: None, lambda: 5, lambda: child(name=None), lambda: child(parts=[Broken("part")])],
    "own": [lambda: None, lambda: Thing(name="no size"), lambda: child(size="1"), lambda: Broken("own"), dict],
    "children": [
        lambda: None,
        lambda: [None],
        lambda: (child(), child(name=None)),
        lambda: iter([child()]),
        dict,
        lambda: child(),
    ],
    "sparse": [
        lambda: None,
        lambda: [None, child(name=None)],
        lambda: [5],
        lambda: [Broken("child")],
        lambda: {child()},
    ],
    "fetched": [lambda: None, lambda: 5, lambda: child(name=None), lambda: Broken("fetched")],
}
"""Values that an attribute should not have, each made anew; some of them are taken all the same."""

ODD_ITEMS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "text": lambda: "an item",
    "a dict": lambda: attributes(),
    "an exception": lambda: Broken("an item"),
    "without text": lambda: lacking("text"),
    "without note and own": lambda: lacking("note", "own"),
    "a property that raises": lambda: Raising(
        **{name: value for name, value in attributes().items() if name != "note"}
    ),
}

LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda items: (each for each in items),
    "stream": lambda items: _stream(*items),
    "dict of items": lambda items: dict(enumerate(items)).values(),
    "generator that breaks": lambda items: _until_it_breaks(*items),
    "text": lambda items: "items",
    "number": lambda items: 5,
    "nothing": lambda items: None,
    "exception": lambda items: Broken("items"),
}
"""What a resolver of a list returns, made of the items."""


class Quiet(strawberry.Schema):
    """A schema that logs no errors."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log nothing."""


class Counting(PlanningExecutor):
    """Counts the fields that are executed in the stock way."""

    def execute_field(self, *arguments: Any) -> Any:
        """Count it."""
        self.context_value["executed"] = self.context_value.get("executed", 0) + 1
        return super().execute_field(*arguments)


class Watching(SchemaExtension):
    """Sees every field, as tracing does."""

    def resolve(self, _next: Callable[..., Any], root: Any, info: Any, *args: str, **kwargs: Any) -> Any:
        """Note the path."""
        info.context.setdefault("seen", []).append(tuple(info.path.as_list()))
        return _next(root, info, *args, **kwargs)


def make_schema(executor: type[Any] | None, *extensions: type[SchemaExtension]) -> strawberry.Schema:
    """The tiny schema with an executor; None is the stock one."""
    return Quiet(Query, execution_context_class=executor, extensions=list(extensions))
