"""The schema, assembled from its parts; `schema.graphql` is its printed form."""

import strawberry
from graphql import GraphQLError
from strawberry.extensions import DisableIntrospection, SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from graph.errors import ErrorCodes
from graph.execution import PlanningExecutor
from graph.limits import LimitSize, LimitTime, LimitTokens, QueryLimits
from graph.metrics import Metrics, Observe
from graph.operation import CachedParsing, CachedValidation
from graph.query import Query
from graph.scalars import SCALARS
from store.errors import InvalidArgument

CACHED_DOCUMENTS = 200


class Schema(strawberry.Schema):
    """Strawberry's schema, quiet: a client's mistake is no line in the log; `ErrorCodes` logs our own."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log nothing."""


def create_schema(
    limits: QueryLimits = QueryLimits(),
    metrics: Metrics | None = None,
    *,
    tracing: bool = False,
    planning: bool = True,
    introspection: bool = True,
) -> Schema:
    """The whole schema, with parsed and validated documents cached, limits enforced, and operations counted.

    `tracing` adds spans of OpenTelemetry; it needs the extra `opentelemetry`. Without `planning` every field is
    completed by the stock executor, to compare with. Without `introspection` the schema tells nothing of itself,
    and errors suggest no names.
    """
    counted = metrics or Metrics()
    return Schema(
        query=Query,
        config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=not introspection),
        execution_context_class=PlanningExecutor if planning else None,
        extensions=[
            *_tracing(tracing),
            lambda: Observe(counted),
            ErrorCodes,
            lambda: LimitTime(limits.max_seconds),
            lambda: LimitTokens(limits.max_tokens),
            lambda: CachedParsing(maxsize=CACHED_DOCUMENTS),
            lambda: LimitSize(limits),
            *([] if introspection else [DisableIntrospection]),
            CachedValidation,
        ],
    )


def _tracing(wanted: bool) -> list[type[SchemaExtension]]:
    if not wanted:
        return []
    try:
        # An extra: imported only where it is asked for.
        from strawberry.extensions.tracing import OpenTelemetryExtension
    except ImportError as error:
        raise InvalidArgument("RECALLQL_OPENTELEMETRY needs: pip install 'recallql[opentelemetry]'.") from error
    return [OpenTelemetryExtension]


def print_schema() -> str:
    """The schema as text, in the form of the file `schema.graphql`."""
    return create_schema().as_str().strip() + "\n"
