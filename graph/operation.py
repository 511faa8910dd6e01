"""How a document is read, and which of its operations runs."""

from collections.abc import Iterator
from contextlib import suppress

from graphql import GraphQLError, OperationDefinitionNode
from strawberry.extensions import ParserCache, SchemaExtension, ValidationCache


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


class CachedValidation(ValidationCache):
    """Strawberry's cache of validated documents, which leaves alone what was refused before."""

    def on_validate(self) -> Iterator[None]:
        """Validate the document unless there are errors already."""
        if self.execution_context.pre_execution_errors:
            yield
            return
        validating = super().on_validate()
        next(validating)
        for error in self.execution_context.pre_execution_errors or ():
            _forget_frames(error)
        yield
        next(validating, None)


def _forget_frames(error: BaseException | None) -> None:
    """Cached errors would keep alive all that was on the stack when they were raised."""
    while error is not None:
        error.__traceback__ = error.__context__ = error.__cause__ = None
        error = getattr(error, "original_error", None)
