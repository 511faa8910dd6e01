"""Errors as clients see them: a stable code in `extensions.code`, and a neutral message for what is our fault."""

import logging
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from graphql import GraphQLError, GraphQLSyntaxError
from strawberry.extensions import SchemaExtension

from store import errors as store_errors

log = logging.getLogger("recallql.graph")


class ErrorCode(StrEnum):
    """Every code that `extensions.code` can hold; documented in the README."""

    BAD_USER_INPUT = "BAD_USER_INPUT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    EMBEDDING_MISMATCH = "EMBEDDING_MISMATCH"
    EMBEDDER_FAILED = "EMBEDDER_FAILED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


CODES: dict[type[BaseException], ErrorCode] = {
    store_errors.InvalidArgument: ErrorCode.BAD_USER_INPUT,
    store_errors.Forbidden: ErrorCode.FORBIDDEN,
    store_errors.NotFound: ErrorCode.NOT_FOUND,
    store_errors.LimitExceeded: ErrorCode.LIMIT_EXCEEDED,
    store_errors.EmbeddingMismatch: ErrorCode.EMBEDDING_MISMATCH,
    store_errors.EmbedderFailed: ErrorCode.EMBEDDER_FAILED,
    store_errors.Unavailable: ErrorCode.UNAVAILABLE,
}
"""The code of each error that a read of the store raises on purpose; other errors are ours, and masked."""

_TOO_LONG = re.compile(r"more tha[nt] \d+ tokens")

MASKED_MESSAGE = "Internal error."


def bad_input(message: str, code: ErrorCode = ErrorCode.BAD_USER_INPUT) -> GraphQLError:
    """An error of the client's making; its message names the argument and the rule."""
    return GraphQLError(message, extensions={"code": code.value})


class ErrorCodes(SchemaExtension):
    """Give every error of a result its code, and mask what was not raised on purpose."""

    def on_operation(self) -> Iterator[None]:
        """Rewrite the errors once the operation is done."""
        yield
        result = self.execution_context.result
        if result is not None and result.errors:
            _log_outage(result.errors)
            result.errors = [to_client(error) for error in result.errors]


def to_client(error: GraphQLError) -> GraphQLError:
    """The error as it leaves: with a code, and without a word of the inside.

    Errors without an original, or without a path (no field was run yet), are about the request itself, and are
    shown.
    """
    if isinstance(error, GraphQLSyntaxError) and _TOO_LONG.search(error.message):
        return _with_code(error, ErrorCode.LIMIT_EXCEEDED, f"{error.message} (RECALLQL_MAX_TOKENS)")
    cause = _cause(error)
    if isinstance(cause, RecursionError):
        return _with_code(error, ErrorCode.LIMIT_EXCEEDED, "The query is nested too deeply (RECALLQL_MAX_DEPTH).")
    if cause is None or error.path is None:
        return _with_code(error, ErrorCode.BAD_USER_INPUT, error.message)
    code = CODES.get(type(cause))
    if code is not None:
        return _with_code(error, code, str(cause))
    log.error("A field failed: %s", error.path, exc_info=cause)
    return _with_code(error, ErrorCode.INTERNAL, MASKED_MESSAGE)


def _cause(error: GraphQLError) -> BaseException | None:
    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    return cause


def _with_code(error: GraphQLError, code: ErrorCode, message: str) -> GraphQLError:
    extensions = {"code": code.value, **(error.extensions or {})}
    return GraphQLError(message, error.nodes, error.source, error.positions, error.path, extensions=extensions)


def _log_outage(errors: Sequence[GraphQLError]) -> None:
    """One line for an operation, however many of its fields an outage failed."""
    outages = [cause for error in errors if isinstance(cause := _cause(error), store_errors.Unavailable)]
    if outages:
        log.warning("The database failed %s field(s): %s", len(outages), outages[0].__cause__ or outages[0])
