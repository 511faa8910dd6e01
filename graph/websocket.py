"""GraphQL over WebSocket (`graphql-transport-ws`), by Strawberry's own handler with three changes.

Each operation has a context of its own, from the same factory as over HTTP, so that nothing one operation has
loaded is shown to a later one. Credentials sent in `connection_init` count as headers, because a browser cannot
set headers on a WebSocket. Answers are encoded like those over HTTP.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import strawberry
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler, Operation
from strawberry.subscriptions.protocols.graphql_transport_ws.types import ConnectionInitMessage, Message
from strawberry.types.execution import PreExecutionError

from graph.errors import MASKED_MESSAGE
from graph.request import RequestError, from_parameters
from graph.response import encode, internal_error, request_error, unwritable

logger = logging.getLogger(__name__)

CREDENTIALS = frozenset({"authorization", "x-api-key"})


@dataclass
class Introduction:
    """How a client has presented itself; `connection_params` is the payload of its `connection_init`."""

    websocket: WebSocket
    connection_params: Mapping[str, object] = field(default_factory=dict)


class _Handler(BaseGraphQLTransportWSHandler[Any, None]):
    view: "GraphQLSocket"

    async def handle_message(self, message: Message) -> None:
        try:
            checked = check_message(message)
        except RequestError as refusal:
            await self.handle_invalid_message(refusal.message)
        else:
            await super().handle_message(checked)

    async def handle_connection_init(self, message: ConnectionInitMessage) -> None:
        try:
            await super().handle_connection_init(message)
        except RequestError as refusal:
            # The protocol of WebSockets allows a reason of at most 123 bytes.
            reason = refusal.message.encode()[:123].decode(errors="ignore")
            await self.websocket.close(4000 + refusal.status, reason)
        except Exception:
            logger.exception("A WebSocket connection failed.")
            await self.websocket.close(4500, MASKED_MESSAGE)

    async def run_operation(self, operation: Operation[Any, None]) -> None:
        try:
            context = await self.view.on_ws_operation(self.context)
        except RequestError as refusal:
            await operation.send_initial_errors([refusal.as_graphql_error()])
        except Exception:
            logger.exception("A GraphQL operation failed.")
            await operation.send_initial_errors([internal_error()])
        else:
            # Strawberry has one context for the whole connection, so the operation gets a handler of its own.
            handler = copy(self)
            handler.context = context
            await super(_Handler, handler).run_operation(operation)

    async def _handle_pre_execution_error(self, operation: Operation[Any, None], result: PreExecutionError) -> None:
        # Strawberry would close the whole connection for a syntax error.
        await operation.send_initial_errors([request_error(error) for error in result.errors or []])


class GraphQLSocket(GraphQL[Any, None]):
    """The WebSocket side of an endpoint."""

    graphql_transport_ws_handler_class = _Handler

    def __init__(
        self,
        schema: strawberry.Schema,
        get_context: Callable[[HTTPConnection], Awaitable[object]],
        allowed_origins: Sequence[str] = (),
    ) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            allowed_origins=allowed_origins,
        )
        self._make_context = get_context

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> Introduction:
        """Begin to get to know the client."""
        assert isinstance(request, WebSocket)
        return Introduction(request)

    async def on_ws_connect(self, context: Introduction) -> dict[str, object]:
        """Refuse a client at once whose operations would be refused."""
        await self.on_ws_operation(context)
        return {}

    async def on_ws_operation(self, introduction: Introduction) -> object:
        """The context of one operation."""
        return await self._make_context(introduced(introduction))

    def decode_json(self, data: str | bytes) -> object:
        """Read a message as strictly as a body."""
        return orjson.loads(data)

    def encode_json(self, data: object) -> str:
        """Write a message like an answer, as text, which the protocol asks for."""
        try:
            return encode(data).decode()
        except (TypeError, ValueError, RecursionError):
            logger.exception("The result of a GraphQL operation cannot be written as JSON.")
            return encode({**cast("dict[str, object]", data), "payload": unwritable()}).decode()


def check_message(message: object) -> Message:
    """The message, its operation checked like one that came over HTTP. Raises `RequestError`."""
    if not isinstance(message, dict) or not isinstance(message.get("id", ""), str):
        raise RequestError(400, "A message must be a JSON object, and its 'id' a string.")
    if message.get("type") != "subscribe":
        return cast("Message", message)
    payload = message.get("payload")
    if not isinstance(payload, dict):
        raise RequestError(400, "The payload of 'subscribe' must be an object.")
    request = from_parameters(payload)
    operation = {
        "query": request.query,
        "variables": request.variables,
        "operationName": request.operation_name,
    }
    return cast("Message", {**message, "payload": operation})


def introduced(introduction: Introduction) -> WebSocket:
    """The WebSocket with the credentials of `connection_init` as headers; the handshake's own win."""
    websocket = introduction.websocket
    headers = [
        (name.lower().encode(), text.encode())
        for name, text in introduction.connection_params.items()
        if name.lower() in CREDENTIALS and name.lower() not in websocket.headers and isinstance(text, str)
    ]
    scope = {**websocket.scope, "headers": [*websocket.scope["headers"], *headers]}
    return WebSocket(scope, websocket._receive, websocket._send)
