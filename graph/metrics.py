"""Metrics for Prometheus, one registry for each application: nothing is shared, nothing is global."""

import asyncio
import time
from collections.abc import Iterator

from graphql import DocumentNode, FieldNode, OperationDefinitionNode
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from strawberry.extensions import SchemaExtension

from graph.errors import ErrorCode
from store.recall import Recall

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
OK = "OK"
INVALID = "invalid"


class Metrics:
    """What is counted, and how it is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("recallql_requests", "GraphQL requests.", ("operation", "code"), registry=self.registry)
        self.responses = Counter(
            "recallql_http_responses",
            "HTTP responses, by status: also of requests that were refused before an operation began.",
            ("status",),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "recallql_request_seconds",
            "Time to answer a GraphQL request.",
            ("operation",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.command_seconds = Histogram(
            "recallql_database_command_seconds",
            "Time that commands to the database took; their number is the count.",
            ("command", "outcome"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.recalls = Counter(
            "recallql_semantic_recalls", "Semantic recalls, by engine.", ("engine",), registry=self.registry
        )
        self.matches = Counter(
            "recallql_semantic_matches", "Messages found by semantic recall.", ("engine",), registry=self.registry
        )
        self.cache_bytes = Gauge(
            "recallql_vector_cache_bytes", "Memory held by vectors of the exact engine.", registry=self.registry
        )

    def observe_command(self, command: str, seconds: float, succeeded: bool) -> None:
        """A command to the database has ended."""
        self.command_seconds.labels(command, "ok" if succeeded else "failed").observe(seconds)

    def observe_response(self, status: int) -> None:
        """An HTTP request has been answered."""
        self.responses.labels(str(status)).inc()

    def observe_recall(self, found: Recall) -> None:
        """A recall has been answered; only semantic ones are counted."""
        if found.engine is not None:
            self.recalls.labels(found.engine.value).inc()
            self.matches.labels(found.engine.value).inc(len(found.matches))

    async def respond(self, request: Request) -> Response:
        """All metrics, as Prometheus reads them."""
        return Response(generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Observe(SchemaExtension):
    """Count and time each operation."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics

    def on_operation(self) -> Iterator[None]:
        """Measure from the reading of the document to its result."""
        started = time.perf_counter()
        try:
            yield
        except asyncio.CancelledError:
            self._count(started, ErrorCode.LIMIT_EXCEEDED)
            raise
        self._count(started, None)

    def _count(self, started: float, ended_by: ErrorCode | None) -> None:
        context = self.execution_context
        operation = operation_label(context.graphql_document, context._provided_operation_name)
        errors = (context.result.errors if context.result else None) or []
        code = (errors[0].extensions or {}).get("code", OK) if errors else ended_by or OK
        if errors and context.pre_execution_errors and code != OK and errors[0].path is None:
            operation = INVALID
        self.metrics.requests.labels(operation, code).inc()
        self.metrics.request_seconds.labels(operation).observe(time.perf_counter() - started)


def operation_label(document: DocumentNode | None, name: str | None) -> str:
    """The first field of the operation: a name of the schema's, and so one of few."""
    for node in document.definitions if document else ():
        if isinstance(node, OperationDefinitionNode) and name in (None, node.name and node.name.value):
            field = node.selection_set.selections[0]
            return field.name.value if isinstance(field, FieldNode) else "fragment"
    return INVALID
