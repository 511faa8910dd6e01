"""A GraphQL request as it arrives over HTTP: read strictly, refused in plain words.

Everything here happens before GraphQL sees a document. A refusal is a `RequestError`, which carries the HTTP
status the GraphQL-over-HTTP specification asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from urllib.parse import parse_qsl

import orjson
from graphql import GraphQLError
from starlette.requests import ClientDisconnect, Request

from graph.errors import ErrorCode


class RequestError(Exception):
    """A request that is refused before execution.

    Raise it from a context factory as well, for example with status 401 and a `WWW-Authenticate` header.
    `message` is shown to the client, `code` becomes `extensions.code`.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: ErrorCode = ErrorCode.BAD_USER_INPUT,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers or {}

    def as_graphql_error(self) -> GraphQLError:
        """What the client sees."""
        return GraphQLError(self.message, extensions={"code": self.code.value})


@dataclass(frozen=True, slots=True)
class GraphQLRequest:
    """The four parameters of a well-formed GraphQL request."""

    query: str
    variables: dict[str, object] | None = None
    operation_name: str | None = None
    extensions: dict[str, object] | None = None


async def read_request(request: Request, max_body_bytes: int) -> GraphQLRequest:
    """The GraphQL request in the query string of a GET or in the JSON body of a POST.

    Raises `RequestError`: 400 for what is not a well-formed request, 413 for a body above `max_body_bytes`
    (which is not read to its end), 415 for a body that is not JSON in UTF-8.
    """
    if request.method == "GET":
        return from_query_string(request.scope["query_string"])
    check_content_type(request.headers.get("content-type", ""))
    return from_body(await read_body(request, max_body_bytes))


def from_query_string(query_string: bytes) -> GraphQLRequest:
    """The request in a URL; `variables` and `extensions` are JSON text. Raises `RequestError` (400)."""
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise RequestError(400, "The query string is not valid URL-encoded UTF-8.") from error
    parameters: dict[str, object] = {}
    for name, text in pairs:
        if name in parameters:
            raise RequestError(400, f"The parameter '{name}' is given twice.")
        parameters[name] = _from_json(name, text) if name in ("variables", "extensions") else text
    return from_parameters(parameters)


def from_body(body: bytes) -> GraphQLRequest:
    """The request in a JSON body. Raises `RequestError` (400)."""
    if not body:
        raise RequestError(400, "The request has no body; send a JSON object with the member 'query'.")
    try:
        parameters = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"The body is not valid JSON: {error}.") from error
    if isinstance(parameters, list):
        raise RequestError(400, "Batches are not supported; send one JSON object.")
    if not isinstance(parameters, dict):
        raise RequestError(400, "The body must be a JSON object with the member 'query'.")
    return from_parameters(parameters)


def from_parameters(parameters: Mapping[str, object]) -> GraphQLRequest:
    """Check the type of each parameter; other names are left alone, as the specification reserves them.

    An empty `operationName` counts as left out, because several clients send one for an unnamed operation.
    """
    query = parameters.get("query")
    if query is None or query == "":
        raise RequestError(400, "The parameter 'query' is missing.")
    if not isinstance(query, str):
        raise RequestError(400, "The parameter 'query' must be a string.")
    name = parameters.get("operationName")
    if not isinstance(name, str | None):
        raise RequestError(400, "The parameter 'operationName' must be a string or null.")
    return GraphQLRequest(
        query=query,
        variables=_object_or_none(parameters, "variables"),
        operation_name=name or None,
        extensions=_object_or_none(parameters, "extensions"),
    )


def check_content_type(content_type: str) -> None:
    """Accept JSON in UTF-8 alone.

    Forms and plain text are refused because a page of any other site can send those without asking first.
    Raises `RequestError` (415).
    """
    header = Message()
    header["content-type"] = content_type
    # Message falls back to text/plain for what it cannot read, which is refused like any other type.
    if header.get_content_type() != "application/json":
        raise RequestError(415, "The body must be sent with 'Content-Type: application/json'.")
    charset = header.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8"):
        raise RequestError(415, "The body must be encoded in UTF-8.")


async def read_body(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes. Raises `RequestError`: 413, or 400 when the client leaves half-way."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise _too_large(limit)
    except ClientDisconnect as error:
        raise RequestError(400, "The connection was closed before the body was complete.") from error
    return bytes(body)


def _too_large(limit: int) -> RequestError:
    # Without closing, the server would have to read and drop the rest to use the connection again.
    message = f"The body is larger than {limit} bytes (RECALLQL_MAX_BODY_BYTES)."
    return RequestError(413, message, ErrorCode.LIMIT_EXCEEDED, {"Connection": "close"})


def _from_json(name: str, text: str) -> object:
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"The parameter '{name}' is not valid JSON: {error}.") from error


def _object_or_none(parameters: Mapping[str, object], name: str) -> dict[str, object] | None:
    value = parameters.get(name)
    if isinstance(value, dict | None):
        return value
    raise RequestError(400, f"The parameter '{name}' must be an object or null.")
