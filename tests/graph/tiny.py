"""A tiny schema and its application: what the tests of the transport are run against."""

# Strawberry types its decorators as Any.
# mypy: disable-error-code="untyped-decorator"

from collections.abc import AsyncIterator
from typing import Any, NewType

import httpx
import strawberry
from graphql import GraphQLError
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from strawberry.scalars import JSON
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from graph.endpoint import EndpointOptions, GraphQLEndpoint
from graph.errors import ErrorCode
from graph.operation import CachedParsing, CachedValidation
from graph.request import RequestError

Even = NewType("Even", int)

ODDITIES: dict[str, object] = {
    "nan": {"x": float("nan"), "y": [float("inf")]},
    "huge": 2**70,
    "largest": 2**64 - 1,
    "surrogate": "\ud800",
    "unencodable": {1, 2},
}


def parse_even(value: object) -> int:
    """Refuse whatever is not an even number, the way a custom scalar does."""
    if not isinstance(value, int) or value % 2:
        raise ValueError("not an even number")
    return value


@strawberry.type
class Query:
    """Enough fields to see how an answer is made."""

    @strawberry.field(description="A greeting.")
    def hello(self, name: str = "world") -> str:
        return f"Hello, {name}!"

    @strawberry.field(description="The value that was sent.")
    def echo(self, value: JSON) -> JSON:
        return value

    @strawberry.field(description="Half of an even number.")
    def half(self, of: Even) -> int:
        return of // 2

    @strawberry.field(description="A field that fails.")
    def fails(self) -> str | None:
        raise RuntimeError("It failed.")

    @strawberry.field(description="A field that fails and may not be null.")
    def breaks(self) -> str:
        raise RuntimeError("It broke.")

    @strawberry.field(description="A value that JSON has no plain spelling for.")
    def odd(self, name: str) -> JSON:
        return JSON(ODDITIES[name])

    @strawberry.field(description="The token of the caller.")
    def caller(self, info: strawberry.Info[dict[str, str], None]) -> str:
        return info.context["caller"]

    @strawberry.field(description="How often this context was asked.")
    def asked(self, info: strawberry.Info[dict[str, Any], None]) -> int:
        info.context["asked"] = info.context.get("asked", 0) + 1
        return int(info.context["asked"])

    @strawberry.field(description="How often `count` has run.")
    def counted(self) -> int:
        return Mutation.runs


@strawberry.type
class Mutation:
    """One change, to see when it happens."""

    runs: strawberry.Private[int] = 0

    @strawberry.mutation(description="Add one.")
    def count(self) -> int:
        Mutation.runs += 1
        return Mutation.runs


@strawberry.type
class Subscription:
    """A stream with an end."""

    @strawberry.subscription(description="Count down to one.")
    async def countdown(self, start: int = 3) -> AsyncIterator[int]:
        for number in range(start, 0, -1):
            yield number


class QuietSchema(strawberry.Schema):
    """A schema that leaves the log to the transport."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log nothing."""


seen: set[str] = set()


async def get_context(connection: HTTPConnection) -> dict[str, str]:
    """Name the caller by the token; three tokens stand for what can go wrong."""
    token = connection.headers.get("authorization", "nobody")
    if token == "unknown" or (token == "once" and token in seen):
        raise RequestError(401, "Unknown token.", ErrorCode.UNAUTHENTICATED, {"WWW-Authenticate": "Bearer"})
    seen.add(token)
    if token == "broken":
        raise LookupError("a secret")
    return {"caller": token}


def make_schema() -> strawberry.Schema:
    """The schema, with the caches that a real one has."""
    return QuietSchema(
        Query,
        Mutation,
        Subscription,
        extensions=[CachedParsing, CachedValidation],
        config=StrawberryConfig(scalar_map={Even: strawberry.scalar(name="Even", parse_value=parse_even)}),
    )


def make_app(options: EndpointOptions | None = None, path: str = "/graphql") -> Starlette:
    """An application that serves the schema and nothing else."""
    endpoint = GraphQLEndpoint(make_schema(), get_context=get_context, options=options or EndpointOptions())
    return Starlette(routes=endpoint.routes(path))


def make_client(options: EndpointOptions | None = None) -> httpx.AsyncClient:
    """A client that calls the application in memory; a fault that escapes is raised in the test."""
    transport = httpx.ASGITransport(make_app(options))
    return httpx.AsyncClient(transport=transport, base_url="http://recallql.test")


def serve_app() -> Starlette:
    """The application for a server in a process of its own."""
    return make_app()
