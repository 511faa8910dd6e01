"""The GraphQL endpoint: one ASGI application for GET, POST and WebSocket, over any Strawberry schema."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass

import strawberry
from graphql import GraphQLError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.graphql import OperationType

from graph import response
from graph.errors import ErrorCode
from graph.graphiql import FILES, Example, GraphiQL
from graph.operation import RequireOperationName
from graph.request import RequestError, read_request
from graph.websocket import GraphQLSocket

logger = logging.getLogger(__name__)

ContextFactory = Callable[[HTTPConnection], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """What the endpoint allows.

    `get_queries`: answer queries (never mutations) sent by GET. `graphiql`: show GraphiQL to browsers, with
    `examples` as its first tabs. `max_body_bytes`: the largest accepted POST body. `timeout`: seconds until a
    request is given up. `allowed_origins`: origins of other sites whose pages may open a WebSocket; `"*"` allows
    all.
    """

    get_queries: bool = True
    graphiql: bool = True
    examples: tuple[Example, ...] = ()
    max_body_bytes: int = 1_000_000
    timeout: float | None = None
    allowed_origins: tuple[str, ...] = ()


class GraphQLEndpoint:
    """GraphQL over HTTP and over WebSocket (`graphql-transport-ws`) for one schema.

    `get_context` makes the context of each request, or of each WebSocket connection once its client has
    introduced itself; it gets the Starlette `Request` or `WebSocket` and refuses the caller by raising
    `RequestError`.
    """

    def __init__(
        self,
        schema: strawberry.Schema,
        *,
        get_context: ContextFactory,
        options: EndpointOptions = EndpointOptions(),
    ) -> None:
        # A copy, so that the rule binds this endpoint and not the caller's schema. It stands last, because
        # the validation cache replaces the errors that earlier extensions have found.
        self.schema = copy(schema)
        self.schema.extensions = (*schema.extensions, RequireOperationName)
        self.options = options
        self._get_context = get_context
        self._graphiql = GraphiQL(schema, options.examples) if options.graphiql else None
        self._socket = GraphQLSocket(self.schema, get_context, options.allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one WebSocket connection."""
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        answer = await self.respond(Request(scope, receive))
        await answer(scope, receive, send)

    def routes(self, path: str = "/graphql") -> list[BaseRoute]:
        """The routes under `path`, with and without a slash at the end, GraphiQL's files included."""
        routes: list[BaseRoute] = []
        for spelling in (path, path + "/"):
            routes += [Route(spelling, self), WebSocketRoute(spelling, self)]
        if self._graphiql:
            routes.append(Mount(f"{path}/{FILES}", self._graphiql.files()))
        return routes

    async def respond(self, request: Request) -> Response:
        """Answer one HTTP request; never raises."""
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": self._allowed_methods()})
        media_type = response.negotiate(",".join(request.headers.getlist("accept")), self._offers(request))
        json_type = response.GRAPHQL_RESPONSE if media_type == response.GRAPHQL_RESPONSE else response.JSON
        try:
            self._check_method(request)
            if media_type is None:
                raise RequestError(406, f"The answer is {response.JSON} or {response.GRAPHQL_RESPONSE}.")
            if media_type == response.HTML and self._graphiql:
                return self._graphiql.page(request)
            return await self._execute(request, json_type)
        except RequestError as refusal:
            return response.from_refusal(refusal, json_type)
        except Exception:
            logger.exception("A GraphQL request failed.")
            return response.from_request_errors([response.internal_error()], json_type)

    async def _execute(self, request: Request, media_type: str) -> Response:
        if request.method == "GET" and not self.options.get_queries:
            raise RequestError(405, "Queries are sent by POST.", headers={"Allow": "POST"})
        try:
            async with asyncio.timeout(self.options.timeout):
                context = await self._get_context(request)
                parameters = await read_request(request, self.options.max_body_bytes)
                result = await self.schema.execute(
                    parameters.query,
                    variable_values=parameters.variables,
                    context_value=context,
                    operation_name=parameters.operation_name,
                    operation_extensions=parameters.extensions,
                    allowed_operation_types=_operation_types(request.method),
                )
        except TimeoutError:
            raise _too_slow(self.options.timeout) from None
        except CannotGetOperationTypeError as error:
            return response.from_request_errors([response.no_operation(error)], media_type)
        except InvalidOperationTypeError as error:
            return response.from_request_errors([_not_here(error.operation_type)], media_type)
        return response.from_result(result, media_type)

    def _offers(self, request: Request) -> list[str]:
        pages = [response.HTML] if request.method == "GET" and self._graphiql else []
        return [response.JSON, response.GRAPHQL_RESPONSE, *pages]

    def _check_method(self, request: Request) -> None:
        if request.method not in ("GET", "POST"):
            raise RequestError(405, f"{request.method} is not allowed.", headers={"Allow": self._allowed_methods()})

    def _allowed_methods(self) -> str:
        return "GET, POST, OPTIONS" if self.options.get_queries or self._graphiql else "POST, OPTIONS"


def _too_slow(timeout: float | None) -> RequestError:
    message = f"The request took longer than {timeout:g} seconds (RECALLQL_REQUEST_TIMEOUT)."
    return RequestError(503, message, ErrorCode.LIMIT_EXCEEDED)


def _operation_types(method: str) -> set[OperationType]:
    return {OperationType.QUERY} if method == "GET" else {OperationType.QUERY, OperationType.MUTATION}


def _not_here(operation_type: OperationType) -> GraphQLError:
    if operation_type is OperationType.SUBSCRIPTION:
        return GraphQLError("Subscriptions are served over WebSocket only.")
    # POST takes queries and mutations, so what is left is a mutation sent by GET.
    raise RequestError(405, "Mutations are sent by POST.", headers={"Allow": "POST"})
