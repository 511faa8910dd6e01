"""The schema: described in full, as the contract has it, and as the committed file prints it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    build_schema,
    find_breaking_changes,
    is_introspection_type,
    is_specified_scalar_type,
    print_ast,
)

from graph.schema import print_schema
from tests.zoo import DATA

COMMITTED = Path(__file__).parents[2] / "schema.graphql"


@pytest.fixture(scope="module")
def schema() -> GraphQLSchema:
    """The schema of the code, the way a client reads it."""
    return build_schema(print_schema())


@pytest.fixture(scope="module")
def contract() -> GraphQLSchema:
    """What clients may rely on."""
    return build_schema((DATA / "contract.graphql").read_text(encoding="utf-8"))


def own_types(schema: GraphQLSchema) -> list[GraphQLNamedType]:
    """The types that are not GraphQL's own."""
    types = schema.type_map.values()
    return [kind for kind in types if not is_introspection_type(kind) and not is_specified_scalar_type(kind)]


def parts(schema: GraphQLSchema) -> Iterator[tuple[str, Any]]:
    """Every type, field, argument, input field and enum value, by its coordinate."""
    for kind in own_types(schema):
        yield kind.name, kind
        if isinstance(kind, GraphQLEnumType):
            yield from ((f"{kind.name}.{name}", value) for name, value in kind.values.items())
        if isinstance(kind, (GraphQLObjectType, GraphQLInputObjectType)):
            fields: Mapping[str, Any] = kind.fields
            for name, field in fields.items():
                yield f"{kind.name}.{name}", field
                arguments = getattr(field, "args", {})
                yield from ((f"{kind.name}.{name}({word})", argument) for word, argument in arguments.items())


ADDED = {
    "Cursor": "GraphQLScalarType",
    "Query.threads(after)": "Cursor",
    "Query.recall(after)": "Cursor",
    "ThreadPage.endCursor": "Cursor",
    "MessagePage.endCursor": "Cursor",
    "RecallResult.endCursor": "Cursor",
}
"""What page numbers cannot do: continuing a list that changes."""


def outline(schema: GraphQLSchema) -> dict[str, str]:
    """Coordinate to kind or type, and default: all that a client's query depends on."""
    return {coordinate: _shape(part) for coordinate, part in parts(schema)}


def _shape(part: Any) -> str:
    default = getattr(part.ast_node, "default_value", None)
    return str(getattr(part, "type", type(part).__name__)) + (f" = {print_ast(default)}" if default else "")


def test_everything_is_described(schema: GraphQLSchema) -> None:
    assert not [coordinate for coordinate, part in parts(schema) if not (part.description or "").strip()]


def test_no_query_that_the_contract_allows_is_broken(schema: GraphQLSchema, contract: GraphQLSchema) -> None:
    assert not [change.description for change in find_breaking_changes(contract, schema)]


def test_the_schema_is_the_contract_and_no_more(schema: GraphQLSchema, contract: GraphQLSchema) -> None:
    assert outline(schema) == outline(contract) | ADDED
    assert outline(contract)["Query.threads(perPage)"] == "PerPage = 100", "defaults are compared too"


def test_there_is_nothing_to_write_with(schema: GraphQLSchema) -> None:
    assert (schema.mutation_type, schema.subscription_type) == (None, None)


def test_the_committed_file_is_the_schema_of_the_code() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == print_schema()
