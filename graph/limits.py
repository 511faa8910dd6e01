"""Limits on what one request may ask, checked on the document before the database is asked anything.

Fragments count where they are spread, introspection not at all: its work is done in memory and GraphiQL needs it.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
    get_operation_ast,
    is_list_type,
    is_object_type,
    value_from_ast_untyped,
)
from graphql.type import GraphQLObjectType, GraphQLOutputType, get_nullable_type
from strawberry.extensions import SchemaExtension

from graph.errors import ErrorCode
from store.semantic import MAX_TOP_K, SemanticRecall
from store.windows import MAX_WINDOW

SEARCH_COST = 100
"""What an embedding and a vector search cost, in rows."""

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The most that a query may hold, and how long it may take.

    `unpaged_rows` is what `perPage: false` counts as; `last_messages` and `semantic_recall` are the server's settings
    for recalls that do not say.
    """

    max_depth: int = 15
    max_aliases: int = 50
    max_directives: int = 50
    max_tokens: int = 3000
    max_cost: int = 50_000
    unpaged_rows: int = 1000
    max_seconds: float = 30.0
    last_messages: int = 10
    semantic_recall: SemanticRecall = SemanticRecall()


class Size(NamedTuple):
    """What a selection amounts to: levels, aliases, directives, and rows that may be answered (`cost`).

    A field that is asked for again in the same place counts as an alias: validation compares all such with each other.
    """

    depth: int = 0
    aliases: int = 0
    directives: int = 0
    cost: int = 0

    def beside(self, other: "Size") -> "Size":
        """Two selections beside each other."""
        return Size(
            max(self.depth, other.depth),
            self.aliases + other.aliases,
            self.directives + other.directives,
            self.cost + other.cost,
        )


_META, _LEAF = Size(), Size(depth=1)


class LimitTokens(SchemaExtension):
    """Stop reading a document after the most tokens; stands before whatever reads it."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def on_parse(self) -> Iterator[None]:
        """Tell the parser."""
        self.execution_context.parse_options["max_tokens"] = self.max_tokens
        yield


class LimitTime(SchemaExtension):
    """Give up an operation that takes too long, over HTTP and WebSocket alike."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def on_execute(self) -> AsyncIterator[None]:
        """Bound the execution; the error names the limit, its value and its setting."""
        try:
            async with asyncio.timeout(self.seconds):
                yield
        except TimeoutError:
            raise GraphQLError(
                f"The request took longer than {self.seconds:g} seconds (RECALLQL_REQUEST_TIMEOUT).",
                extensions={"code": ErrorCode.LIMIT_EXCEEDED.value},
            ) from None


class LimitSize(SchemaExtension):
    """Refuse a document that passes a limit; the error names the limit, its value and its setting.

    Stands before validation, which can take long for what is refused here.
    """

    def __init__(self, limits: QueryLimits) -> None:
        self.limits = limits

    def on_validate(self) -> Iterator[None]:
        """Measure the operation that is to run; a document that does not tell which is refused later."""
        context = self.execution_context
        document = context.graphql_document
        if document is not None:
            operation = get_operation_ast(document, context._provided_operation_name)
            given = context.variables or {}
            if operation is not None:
                measuring = Measuring(context.schema._schema, document, operation, given, self.limits)
                context.pre_execution_errors = measuring.check() or None
        yield


@dataclass(slots=True)
class Measuring:
    """Measures one operation of a document, each fragment once; what is not valid in it counts nothing."""

    schema: GraphQLSchema
    document: DocumentNode
    operation: OperationDefinitionNode
    variables: Arguments
    limits: QueryLimits
    _fragments: dict[str, tuple[Size, Size]] = field(default_factory=dict)
    _selections: dict[str, SelectionSetNode] = field(default_factory=dict)

    def check(self) -> list[GraphQLError]:
        """An error for each limit that the operation passes."""
        size, limits = self.measure(), self.limits
        found = (
            (f"is {size.depth} levels deep", size.depth, limits.max_depth, "DEPTH"),
            (f"holds {size.aliases} aliases", size.aliases, limits.max_aliases, "ALIASES"),
            (f"holds {size.directives} directives", size.directives, limits.max_directives, "DIRECTIVES"),
            (f"asks for {_told(size.cost)} rows (its cost)", size.cost, limits.max_cost, "COST"),
        )
        return [
            GraphQLError(
                f"The query {words}, but at most {most} are allowed (RECALLQL_MAX_{name}).",
                self.operation,
                extensions={"code": ErrorCode.LIMIT_EXCEEDED.value},
            )
            for words, actual, most, name in found
            if actual > most
        ]

    def measure(self) -> Size:
        """The size of the operation."""
        defaults = {
            definition.variable.name.value: value_from_ast_untyped(definition.default_value)
            for definition in self.operation.variable_definitions or ()
            if definition.default_value is not None
        }
        self.variables = {**defaults, **self.variables}
        fragments = (node for node in self.document.definitions if isinstance(node, FragmentDefinitionNode))
        self._selections = {node.name.value: node.selection_set for node in fragments}
        own = Size(directives=len(self.operation.directives or ()))
        root = self.schema.get_root_type(self.operation.operation)
        return own.beside(self._selection(self.operation.selection_set, root, 1))

    def _selection(self, selected: SelectionSetNode | None, parent: object, rows: int) -> Size:
        size, keys = Size(), set[str]()
        for node in selected.selections if selected else ():
            own = Size(aliases=_repeats(node, keys), directives=len(node.directives or ()))
            size = size.beside(own).beside(self._node(node, parent, rows))
        return size

    def _node(self, node: object, parent: object, rows: int) -> Size:
        if isinstance(node, FieldNode):
            return self._field(node, parent, rows)
        if isinstance(node, InlineFragmentNode):
            return self._selection(node.selection_set, parent, rows)
        assert isinstance(node, FragmentSpreadNode)
        without, with_one = self._fragment(node.name.value, parent)
        # The cost is linear in the rows, so that a fragment is measured once however many rows it is spread on.
        return with_one._replace(cost=without.cost + rows * (with_one.cost - without.cost))

    def _fragment(self, name: str, parent: object) -> tuple[Size, Size]:
        """The sizes of a fragment on no row and on one."""
        if name not in self._fragments:
            # Stands in while the fragment is measured: one that spreads itself ends here, and validation refuses it.
            self._fragments[name] = (Size(), Size())
            selected = self._selections.get(name)
            sizes = (self._selection(selected, parent, 0), self._selection(selected, parent, 1))
            self._fragments[name] = sizes
        return self._fragments[name]

    def _field(self, node: FieldNode, parent: object, rows: int) -> Size:
        name = node.name.value
        if node.selection_set is None and node.alias is None:
            return _META if name.startswith("__") else _LEAF
        if name.startswith("__"):
            beneath = self._selection(node.selection_set, None, 1)
            return Size(0, beneath.aliases + (node.alias is not None), beneath.directives, 0)
        known = parent.fields.get(name) if isinstance(parent, GraphQLObjectType) else None
        output = known.type if known else None
        type_ = get_named_type(output)
        parent_name = getattr(parent, "name", "")
        beneath = self._selection(node.selection_set, type_, self._rows_beneath(node, parent_name))
        times = rows if output is not None and _is_list(output) else 1
        cost = times * (1 + beneath.cost) if is_object_type(type_) else 0
        return Size(beneath.depth + 1, beneath.aliases + (node.alias is not None), beneath.directives, cost)

    def _rows_beneath(self, node: FieldNode, parent: str) -> int:
        """Rows of the lists beneath a field: as many as its arguments ask for."""
        count = _ROWS.get((parent, node.name.value))
        if count is None:
            return 1
        arguments = {
            argument.name.value: value_from_ast_untyped(argument.value, dict(self.variables))
            for argument in node.arguments or ()
        }
        return count(arguments, self.limits)


def _repeats(node: object, keys: set[str]) -> bool:
    """Whether a field has no alias and was asked for before, under one of the keys; adds its own."""
    if not isinstance(node, FieldNode) or node.alias is not None:
        return False
    name = node.name.value
    if name in keys:
        return True
    keys.add(name)
    return False


def _is_list(output: GraphQLOutputType) -> bool:
    return is_list_type(get_nullable_type(output))


def _told(number: int) -> str:
    """A number in digits, unless nobody would read so many."""
    return str(number) if number < 10**18 else "more than 10^18"


def _count(value: object, default: int, most: int) -> int:
    """The number that an argument gives; past `most` the store refuses, and names the argument."""
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else None
    return default if isinstance(value, bool) or not isinstance(value, int) else min(max(value, 0), most)


def _page_rows(value: object, default: int, unpaged: int) -> int:
    return unpaged if value is False else _count(value, default, unpaged)


def _threads(arguments: Arguments, limits: QueryLimits) -> int:
    return _page_rows(arguments.get("perPage"), 100, limits.unpaged_rows)


def _messages(arguments: Arguments, limits: QueryLimits) -> int:
    return _page_rows(arguments.get("perPage"), 10, limits.unpaged_rows)


def _recall(arguments: Arguments, limits: QueryLimits) -> int:
    """The page, the included messages and their windows, and what a semantic search may add."""
    config, items, unpaged = arguments.get("threadConfig"), arguments.get("include"), limits.unpaged_rows
    last = config.get("lastMessages") if isinstance(config, dict) else None
    page = _page_rows(arguments.get("perPage"), _count(last, limits.last_messages, unpaged), unpaged)
    is_searched = bool(arguments.get("vectorSearchString"))
    listed = items if isinstance(items, list) else [items] if isinstance(items, dict) else []
    included = sum(_window(item, 2 if is_searched else 0) for item in listed)
    return page + included + (_found(config, limits.semantic_recall) if is_searched else 0)


def _window(item: object, default: int) -> int:
    sides = ("withPreviousMessages", "withNextMessages")
    return 1 + sum(_count(item.get(side), default, MAX_WINDOW) for side in sides) if isinstance(item, dict) else 1


def _found(config: object, default: SemanticRecall) -> int:
    options = config.get("semanticRecall") if isinstance(config, dict) else None
    if options is None:
        return SEARCH_COST + default.top_k * (1 + default.before + default.after)
    asked = options if isinstance(options, dict) else {}
    around = asked.get("messageRange")
    sides = (around.get("before"), around.get("after")) if isinstance(around, dict) else (around, around)
    return SEARCH_COST + _count(asked.get("topK"), 4, MAX_TOP_K) * (1 + sum(_count(x, 2, MAX_WINDOW) for x in sides))


_ROWS: dict[tuple[str, str], Callable[[Arguments, QueryLimits], int]] = {
    ("Query", "threads"): _threads,
    ("Query", "recall"): _recall,
    ("Thread", "messages"): _messages,
}
"""The fields whose arguments decide how many rows are beneath them."""
