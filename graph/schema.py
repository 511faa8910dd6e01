"""The schema, assembled from its parts; `schema.graphql` is its printed form."""

import strawberry
from graphql import GraphQLError
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from graph.errors import ErrorCodes
from graph.query import Query
from graph.scalars import SCALARS

CACHED_DOCUMENTS = 200


class Schema(strawberry.Schema):
    """Strawberry's schema, quiet: a client's mistake is no line in the log; `ErrorCodes` logs our own."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log nothing."""


def create_schema() -> Schema:
    """The whole schema, with parsed and validated documents cached."""
    return Schema(
        query=Query,
        config=StrawberryConfig(scalar_map=SCALARS),
        extensions=[
            ErrorCodes,
            lambda: ParserCache(maxsize=CACHED_DOCUMENTS),
            lambda: ValidationCache(maxsize=CACHED_DOCUMENTS),
        ],
    )


def print_schema() -> str:
    """The schema as text, in the form of the file `schema.graphql`."""
    return create_schema().as_str().strip() + "\n"
