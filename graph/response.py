"""A GraphQL result as it leaves over HTTP: the media type, the status, the bytes.

The rules are those of the GraphQL-over-HTTP specification, in the form that the audits of `graphql-http`
check: `application/json` always answers a well-formed request with 200, `application/graphql-response+json`
answers a request error with 4xx or 5xx, and neither has a `data` entry then.
"""

import asyncio
import json
import logging
import math
import secrets
from collections.abc import Mapping, Sequence

import orjson
from graphql import GraphQLError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from strawberry.schema.exceptions import CannotGetOperationTypeError
from strawberry.types import ExecutionResult

from graph.errors import MASKED_MESSAGE, ErrorCode
from graph.request import RequestError
from store.values import JSONText

JSON = "application/json"
GRAPHQL_RESPONSE = "application/graphql-response+json"
HTML = "text/html"

logger = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "private, no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff"}


def negotiate(accept: str, offers: Sequence[str]) -> str | None:
    """The offered media type that the `Accept` header ranks highest, None when it accepts none of them.

    Equal quality: the type that is named more exactly, then the one named first, then the one offered first.
    An empty header accepts everything.
    """
    ranges = [_parse_range(text) for text in accept.lower().split(",") if text.strip()] or [("*/*", 1.0)]
    best = max(offers, key=lambda offer: _rank(offer, ranges))
    return best if _rank(best, ranges)[0] > 0 else None


def from_result(result: ExecutionResult, media_type: str) -> "SlicedResponse":
    """Answer with the result of `Schema.execute`.

    Errors raised before any field ran are request errors: no `data` entry, `extensions.code` set. Field
    errors are left as the schema made them.
    """
    errors = result.errors or []
    if result.data is None and errors and all(error.path is None for error in errors):
        return from_request_errors(errors, media_type)
    payload: dict[str, object] = {"data": result.data}
    if errors:
        payload["errors"] = [error.formatted for error in errors]
    if result.extensions:
        payload["extensions"] = result.extensions
    return respond(payload, media_type)


def from_request_errors(errors: Sequence[GraphQLError], media_type: str) -> "SlicedResponse":
    """Answer a well-formed request that was not executed: document, operation or variables are at fault."""
    coded = [request_error(error) for error in errors]
    internal = any((error.extensions or {}).get("code") == ErrorCode.INTERNAL for error in coded)
    status = 200 if media_type == JSON else 500 if internal else 400
    return respond({"errors": [error.formatted for error in coded]}, media_type, status)


def request_error(error: GraphQLError) -> GraphQLError:
    """The error with a code. What is no fault of the client's becomes the neutral error."""
    cause = error.original_error
    if isinstance(cause, CannotGetOperationTypeError):
        return no_operation(cause)
    if cause is not None and not isinstance(cause, GraphQLError) and not error.locations:
        # Only an exception that escaped has a cause and no place in the document.
        logger.error("A GraphQL request failed.", exc_info=cause)
        return internal_error()
    extensions = {"code": ErrorCode.BAD_USER_INPUT.value, **(error.extensions or {})}
    return GraphQLError(error.message, error.nodes, error.source, error.positions, extensions=extensions)


def no_operation(cause: CannotGetOperationTypeError) -> GraphQLError:
    """The request error for a document that lacks the operation to run."""
    name = cause.operation_name
    message = "The document contains no operation." if name is None else f"Unknown operation named '{name}'."
    return GraphQLError(message, extensions={"code": ErrorCode.BAD_USER_INPUT.value})


def from_refusal(refusal: RequestError, media_type: str) -> Response:
    """Answer a request that is refused before GraphQL saw it."""
    error = refusal.as_graphql_error().formatted
    return respond({"errors": [error]}, media_type, refusal.status, refusal.headers)


def internal_error() -> GraphQLError:
    """The one neutral error for a fault of ours; whoever makes it logs what happened."""
    return GraphQLError(MASKED_MESSAGE, extensions={"code": ErrorCode.INTERNAL.value})


def respond(
    payload: object, media_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> "SlicedResponse":
    """Encode `payload`. What cannot be written as JSON at all becomes a logged, neutral error."""
    try:
        pieces = encode_in_pieces(payload)
    except (TypeError, ValueError, RecursionError):
        logger.exception("The result of a GraphQL operation cannot be written as JSON.")
        pieces = [encode(unwritable())]
    content_type = {"Content-Type": f"{media_type}; charset=utf-8"}
    return SlicedResponse(pieces, status, {**_HEADERS, **content_type, **(headers or {})})


class SlicedResponse(Response):
    """A response that sends a large body in slices, so that compressing it leaves others their turn.

    The pieces of a large body are never joined: to fetch so much memory at once takes as long as to write it.
    """

    slice_bytes = 64 * 1024

    def __init__(self, pieces: Sequence[bytes], status: int, headers: Mapping[str, str]) -> None:
        self.pieces = pieces
        size = sum(map(len, pieces))
        self._is_large = size > self.slice_bytes
        body = b"" if self._is_large else b"".join(pieces)
        super().__init__(body, status, {**headers, "Content-Length": str(size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        if not self._is_large:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self.pieces:
            for start in range(0, len(piece), self.slice_bytes):
                part = piece[start : start + self.slice_bytes]
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def unwritable() -> dict[str, object]:
    """What stands in for a result that cannot be written as JSON."""
    return {"data": None, "errors": [internal_error().formatted]}


def encode(payload: object) -> bytes:
    """JSON in UTF-8; NaN and infinities become null, and `JSONText` stays as it is.

    Whole numbers above 64 bits, lone surrogates and very deep values are beyond orjson; they take the slower
    encoder of the standard library. Raises TypeError, ValueError or RecursionError for what is not JSON at
    all.
    """
    try:
        return orjson.dumps(payload, _written)
    except orjson.JSONEncodeError:
        return json.dumps(_without_nan(payload), allow_nan=False, separators=(",", ":")).encode()


def encode_in_pieces(payload: object) -> list[bytes]:
    """Like `encode`, in pieces: those of a long `JSONText` are not joined."""
    long: list[JSONText] = []
    mark = b'"%b"' % secrets.token_hex(16).encode()

    def written(value: object) -> orjson.Fragment:
        if isinstance(value, JSONText) and len(value.pieces) > 1:
            long.append(value)
            return orjson.Fragment(mark)
        return _written(value)

    try:
        between = orjson.dumps(payload, written).split(mark)
    except orjson.JSONEncodeError:
        return [encode(payload)]
    pieces = between[:1]
    for text, after in zip(long, between[1:], strict=True):
        pieces += [*map(_to_bytes, text.pieces), after]
    return pieces


def _written(value: object) -> orjson.Fragment:
    if isinstance(value, JSONText):
        return orjson.Fragment(value.pieces[0] if len(value.pieces) == 1 else b"".join(map(_to_bytes, value.pieces)))
    raise TypeError


def _to_bytes(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def _without_nan(value: object) -> object:
    if isinstance(value, JSONText):
        return json.loads(b"".join(map(_to_bytes, value.pieces)))
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parse_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in text.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            return name, _quality(parameter[2:])
    return name, 1.0


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0


def _rank(offer: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int, int]:
    """Quality, exactness and (negated) place of the most exact range that covers `offer`."""
    patterns = ("*/*", offer.split("/")[0] + "/*", offer)
    covering = [
        (patterns.index(name), -place, quality) for place, (name, quality) in enumerate(ranges) if name in patterns
    ]
    exactness, place, quality = max(covering, default=(0, 0, 0.0))
    return quality, exactness, place
