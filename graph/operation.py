"""How a document is read, and which of its operations runs."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from graphql import GraphQLError, OperationDefinitionNode
from strawberry.extensions import ParserCache, SchemaExtension
from strawberry.schema.schema import validate_document
from strawberry.types import ExecutionContext

from graph.kept import Kept

VALIDATED = "recallql validated"
"""The key of the errors of documents among a schema's extensions."""


class RequireOperationName(SchemaExtension):
    """Refuse a document with several operations when the request names none.

    Strawberry would run the first one; the GraphQL specification (GetOperation) asks for a request error.
    """

    def on_validate(self) -> Iterator[None]:
        """Add the error to those that validation has found so far."""
        context = self.execution_context
        document = context.graphql_document
        # The public `operation_name` falls back to the first operation, which is what must not happen here.
        is_named = context._provided_operation_name is not None
        operations = [
            definition
            for definition in (document.definitions if document else ())
            if isinstance(definition, OperationDefinitionNode)
        ]
        if len(operations) > 1 and not is_named:
            message = "The document contains several operations; name the one to run in 'operationName'."
            context.pre_execution_errors = [
                *(context.pre_execution_errors or []),
                GraphQLError(message, operations),
            ]
        yield


class CachedParsing(ParserCache):
    """Strawberry's cache of parsed documents, with syntax errors left to the parsing step itself.

    An error raised by the cache would end a WebSocket operation without a word to the client.
    """

    def on_parse(self) -> Iterator[None]:
        """Take the document from the cache, or put it there."""
        with suppress(GraphQLError):
            yield from super().on_parse()
            return
        yield


class CachedValidation(SchemaExtension):
    """Validates a document once, as long as it is kept by whoever parsed it; leaves alone what was refused before."""

    def on_validate(self) -> Iterator[None]:
        """Take the errors of this very document, or find them."""
        context = self.execution_context
        document = context.graphql_document
        if document is not None and not context.pre_execution_errors:
            kept: Kept[list[GraphQLError]] = context.schema._schema.extensions.setdefault(VALIDATED, Kept())
            context.pre_execution_errors = kept.of(document, partial(_errors, context))
        yield


def _errors(context: ExecutionContext) -> list[GraphQLError]:
    assert context.graphql_document is not None
    errors = validate_document(context.schema._schema, context.graphql_document, context.validation_rules)
    for error in errors:
        _forget_frames(error)
    return errors


def _forget_frames(error: BaseException | None) -> None:
    """Cached errors would keep alive all that was on the stack when they were raised."""
    while error is not None:
        error.__traceback__ = error.__context__ = error.__cause__ = None
        error = getattr(error, "original_error", None)
