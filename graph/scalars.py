"""The custom scalars: how each value is written, checked and given out.

Literals and variables follow the same rules. A literal may hold variables: `{status: $status}`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, NewType

import strawberry
from graphql import (
    EnumValueNode,
    ListValueNode,
    ObjectValueNode,
    Undefined,
    ValueNode,
    VariableNode,
    value_from_ast_untyped,
)
from strawberry.types.scalar import ScalarDefinition

from graph.errors import CODES, bad_input
from store.cursors import Cursor
from store.errors import InvalidArgument, StoreError
from store.filters import MetadataFilter
from store.instants import Instant
from store.semantic import SemanticRecall
from store.values import iso_text, iso_texts

PerPage = NewType("PerPage", object)
JSONValue = NewType("JSONValue", object)
JSONObject = NewType("JSONObject", object)
Count = NewType("Count", int)
EndCursor = NewType("EndCursor", object)

Rows = int | Literal[False]
"""`PerPage` in Python: a number of rows, or False for every row."""


def parse_per_page(value: object) -> Rows:
    """A whole number >= 0, or false; 10.0 is 10. Raises GraphQLError."""
    if value is False:
        return False
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise bad_input(f"perPage must be a whole number >= 0, or false for every row, not {_show(value)}.")
    return value


def parse_metadata_filter(value: object) -> MetadataFilter:
    """A flat object of scalars. Raises GraphQLError that names the key."""
    try:
        return MetadataFilter.from_json(value, "metadata")
    except InvalidArgument as error:
        raise bad_input(str(error)) from None


def parse_semantic_recall(value: object) -> SemanticRecall | Literal[False]:
    """True, false, or an object of options; false is "not enabled". Raises GraphQLError that names the key."""
    try:
        return SemanticRecall.from_json(value) or False
    except StoreError as error:
        raise bad_input(str(error), CODES[type(error)]) from None


def parse_date_time(value: object) -> Instant:
    """ISO 8601 with an offset. Raises GraphQLError."""
    if not isinstance(value, str):
        raise bad_input(f"A DateTime is text such as 2024-03-10T12:00:00.000Z, not {_show(value)}.")
    try:
        return Instant.from_text(value)
    except InvalidArgument as error:
        raise bad_input(str(error)) from None


def parse_json_object(value: object) -> dict[str, Any]:
    """Any JSON object. Raises GraphQLError."""
    if not isinstance(value, dict):
        raise bad_input(f"A JSON object is wanted, not {_show(value)}.")
    return value


def parse_count(value: object) -> int:
    """A whole number. Raises GraphQLError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_input(f"A Count is a whole number, not {_show(value)}.")
    return value


def parse_cursor(value: object) -> str:
    """Text; the listing it is for takes it apart. Raises GraphQLError."""
    if not isinstance(value, str):
        raise bad_input(f"A Cursor is text, the endCursor of an earlier answer, not {_show(value)}.")
    return value


def as_it_is(value: object) -> object:
    """How a scalar gives out values that are JSON already."""
    return value


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:40] + "…"


def parse_literal_with(parse: Callable[[object], object], *, bare_words: bool = False) -> Callable[..., object]:
    """How a scalar reads a literal: as `parse` reads a variable.

    Validation has no variables yet; a literal that holds some is then taken as it is and read when the
    field is executed. An enum value (a bare word) is no text, unless `bare_words` are allowed.
    """

    def parse_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> object:
        names = set(_variable_names(node, bare_words))
        if variables is None and names:
            return node
        missing = sorted(name for name in names if name not in (variables or {}))
        if missing:
            raise bad_input(f"The variable ${missing[0]} is used inside a value but has none itself.")
        value = value_from_ast_untyped(node, variables)
        return parse(value) if value is not Undefined else value

    return parse_literal


def _variable_names(node: ValueNode, bare_words: bool) -> list[str]:
    if isinstance(node, VariableNode):
        return [node.name.value]
    if isinstance(node, EnumValueNode) and not bare_words:
        raise bad_input(f'{node.value} is a bare word; write text in quotes: "{node.value}".')
    if isinstance(node, ObjectValueNode):
        return [name for field in node.fields for name in _variable_names(field.value, bare_words)]
    if isinstance(node, ListValueNode):
        return [name for item in node.values for name in _variable_names(item, bare_words)]
    return []


def _scalar(
    name: str,
    description: str,
    parse: Callable[[Any], object],
    serialize: Callable[[Any], object] = as_it_is,
) -> ScalarDefinition:
    return strawberry.scalar(
        name=name,
        description=description,
        serialize=serialize,
        parse_value=parse,
        parse_literal=parse_literal_with(parse, bare_words=name == "SemanticRecall"),
    )


_DATE_TIME = """
A point in time as ISO 8601 text. In arguments an offset is needed, `2024-03-10T12:00:00Z` or
`2024-03-10T12:00:00.000+01:00`; without one it would mean another instant in every zone, and is refused.
Fractions of any length are kept exactly. In answers always UTC with milliseconds: `2024-03-10T12:00:00.000Z`.
"""
_METADATA = """
A flat object: `{status: "open", priority: 2, vip: true, region: null}`. Every entry must match (AND), by exact type
and value: `1` is `1.0` but never `"1"` or `true`; `null` matches an explicit null only, not a missing key; an array
never matches its element. Keys are letters, digits and `_` (at most 128); objects, arrays and operators are refused.
"""
_SEMANTIC = """
Semantic recall: `true`, `false`, or options, each of which may be left out:
`{topK: 4, messageRange: 2, scope: "resource", threshold: 0.7, filter: {project: "a"}}`.
`topK`: how many messages to find (1 to 1000). `messageRange`: neighbours on both sides of each, or
`{before: 2, after: 2}`. `scope`: among the messages of the `"resource"`, or of the `"thread"` alone.
`threshold`: the least score, from 0 to 1. `filter`: only in threads whose metadata hold these entries.
"""
_PER_PAGE = """
Rows of a page: a whole number >= 0, or `false` for every row without pages (then `page` must be 0).
`0` gives no rows but still the `total`.
"""
_JSON = """
Any JSON value. What BSON has and JSON lacks is spelt so: ObjectId, Decimal128 and dates (ISO 8601) as text, binary
as base64 text, NaN and infinities as null.
"""

_CURSOR = """
A place in a list: the `endCursor` of one answer is the `after` of the next. Its text means nothing else, and is valid
for one kind of list (threads or messages) in one order.
"""

SCALARS: dict[object, ScalarDefinition] = {
    PerPage: _scalar("PerPage", _PER_PAGE.strip(), parse_per_page),
    MetadataFilter: _scalar("MetadataFilter", _METADATA.strip(), parse_metadata_filter),
    SemanticRecall: _scalar("SemanticRecall", _SEMANTIC.strip(), parse_semantic_recall),
    datetime: _scalar("DateTime", _DATE_TIME.strip(), parse_date_time, iso_text),
    JSONValue: _scalar("JSON", _JSON.strip(), lambda value: value),
    JSONObject: _scalar("JSONObject", "A JSON object; see JSON for the spelling of values.", parse_json_object),
    EndCursor: _scalar("Cursor", _CURSOR.strip(), parse_cursor, Cursor.to_text),
    Count: _scalar("Count", "A whole number of up to 64 bits.", parse_count),
}

COLUMNS: dict[Callable[..., object], Callable[[list[Any]], list[Any]]] = {
    as_it_is: lambda column: column,
    iso_text: iso_texts,
}
"""How scalars give out many values at once, where that is faster than one by one."""
