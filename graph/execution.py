"""Completing lists of plain objects by one plan for each selection, column by column, instead of field by field.

graphql-core spends several microseconds on each field of each item: a path, an info object, argument values, checks
for awaitables. None of that is needed for a field that is an attribute of the item and whose type is a scalar, an
enum, or an object or list of such. For a list of objects with only such fields, a plan is made from the selection
once; it reads one attribute of all items, completes that column, and puts the columns together. Everything else
takes the stock path, and so does a whole list in which anything is unusual (a missing attribute, a null that may not
be null, a value that a scalar refuses): errors, their paths and the propagation of nulls are graphql-core's own.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from graphql import (
    GraphQLBoolean,
    GraphQLField,
    GraphQLID,
    GraphQLLeafType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLString,
    Undefined,
    is_leaf_type,
)
from graphql.execution.collect_fields import FieldDetails
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.types.field import StrawberryField

from store.slices import SLICE, in_slices

Column = list[Any]
Completion = Callable[[Sequence[Any]], Column]
"""From one attribute of all items to its values in the answer; raises for what only the stock path may handle."""

Stock = Callable[[], Awaitable[Column] | Column]
FieldDetailsList = list[FieldDetails]


class Unusual(Exception):
    """A value that the plan does not cover."""


class PlanningExecutor(StrawberryGraphQLCoreExecutionContext):
    """Strawberry's executor, with lists of plain objects completed by a plan."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Middleware, such as tracing, wants to see every field.
        self._is_watched = bool(self.middleware_manager and self.middleware_manager.middlewares)
        self._plans: dict[tuple[str, int], tuple[FieldDetailsList, Completion | None]] = {}

    def complete_iterable_value(
        self,
        item_type: GraphQLOutputType,
        field_details_list: FieldDetailsList,
        info: GraphQLResolveInfo[Any],
        path: Path,
        items: Iterable[Any],
        position_context: Any,
    ) -> Awaitable[list[Any]] | list[Any]:
        """Complete a list by its plan, or in the stock way where there is none.

        A long list is completed in slices, between which other requests have their turn.
        """
        complete = self._plan_of(item_type, field_details_list, path)
        arguments = (item_type, field_details_list, info, path, items, position_context)
        in_stock_way: Stock = partial(super().complete_iterable_value, *arguments)
        # What is made while it is read can be read once only, and may fail midway.
        if complete is None or not isinstance(items, (list, tuple)):
            return in_stock_way()
        rows = list(items)
        if len(rows) > SLICE:
            return self._complete_in_slices(rows, complete, in_stock_way)
        try:
            return complete(rows)
        except Exception:
            # Attributes have no side effects: the stock path meets the same fault and tells of it properly.
            return in_stock_way()

    async def _complete_in_slices(self, rows: Column, complete: Completion, in_stock_way: Stock) -> Column:
        try:
            return await in_slices(rows, complete)
        except Exception:
            completed = in_stock_way()
            return completed if isinstance(completed, list) else await completed

    def _plan_of(self, item_type: GraphQLOutputType, details: FieldDetailsList, path: Path) -> Completion | None:
        """The plan of a selection, made once in an execution; None where it holds anything that is not plain."""
        if self._is_watched or is_leaf_type(_nullable(item_type)):
            return None
        key = (str(item_type), id(details))
        if key not in self._plans:
            plan = None if self.get_stream_usage(details, path) else self._plan(item_type, details)
            # The details are kept, so that their identity is not given to others.
            self._plans[key] = (details, plan)
        return self._plans[key][1]

    def _plan(self, type_: GraphQLOutputType, details: FieldDetailsList) -> Completion | None:
        is_required = isinstance(type_, GraphQLNonNull)
        inner_type = _nullable(type_)
        inner = self._plan_inner(inner_type, details)
        if inner is None:
            return None
        completion = _required(inner) if is_required else _optional(inner)
        return _unchanged(inner_type, is_required, completion) if inner_type in _PLAIN else completion

    def _plan_inner(self, type_: GraphQLOutputType, details: FieldDetailsList) -> Completion | None:
        """The completion of a column without nulls."""
        if isinstance(type_, GraphQLList):
            item = self._plan(type_.of_type, details)
            return item and _lists(item)
        if isinstance(type_, GraphQLObjectType):
            return self._plan_object(type_, details)
        return _leaves(type_) if is_leaf_type(type_) else None

    def _plan_object(self, type_: GraphQLObjectType, details: FieldDetailsList) -> Completion | None:
        collected = self.collect_subfields(type_, details)
        if type_.is_type_of or collected.new_defer_usages:
            return None
        columns: dict[str, Completion] = {}
        for name, field_details in collected.grouped_field_set.items():
            column = self._plan_column(type_, field_details)
            if column is None:
                return None
            columns[name] = column
        # Nothing may be left of a selection whose fields are all skipped.
        return _rows(columns) if columns else None

    def _plan_column(self, type_: GraphQLObjectType, details: FieldDetailsList) -> Completion | None:
        """From items to one field of each; None for a field that is not plain."""
        name = details[0].node.name.value
        if name == "__typename":
            return lambda items: [type_.name] * len(items)
        field = self.schema.get_field(type_, name)
        attribute = field and _attribute(field)
        completion = field and attribute and self._plan(field.type, details)
        if not attribute or not completion:
            return None
        read = attrgetter(attribute)
        return lambda items: completion(list(map(read, items)))


def _attribute(field: GraphQLField) -> str | None:
    """The attribute behind a plain field; None for a field with a resolver or arguments."""
    definition = field.extensions.get("strawberry-definition")
    if isinstance(definition, StrawberryField) and definition.is_basic_field and not field.args:
        return definition.python_name
    return None


def _nullable(type_: GraphQLOutputType) -> GraphQLOutputType:
    return type_.of_type if isinstance(type_, GraphQLNonNull) else type_


def _check_kinds(values: Sequence[Any]) -> None:
    """An error in the place of a value is raised, and an awaitable awaited, by the stock path."""
    if any(issubclass(kind, (Exception, Awaitable)) for kind in set(map(type, values))):
        raise Unusual


def _rows(columns: dict[str, Completion]) -> Completion:
    names = list(columns)

    def complete(items: Sequence[Any]) -> Column:
        _check_kinds(items)
        completed = [column(items) for column in columns.values()]
        return [dict(zip(names, values, strict=True)) for values in zip(*completed, strict=True)]

    return complete


def _lists(item: Completion) -> Completion:
    """Complete the items of all lists together, and part them again."""

    def complete(lists: Sequence[Any]) -> Column:
        if not set(map(type, lists)) <= {list, tuple}:
            raise Unusual
        completed = iter(item([value for values in lists for value in values]))
        return [list(islice(completed, len(values))) for values in lists]

    return complete


def _optional(inner: Completion) -> Completion:
    def complete(column: Sequence[Any]) -> Column:
        completed = iter(inner([value for value in column if value is not None]))
        return [None if value is None else next(completed) for value in column]

    return complete


def _required(inner: Completion) -> Completion:
    def complete(column: Sequence[Any]) -> Column:
        if any(value is None for value in column):
            raise Unusual
        return inner(column)

    return complete


_PLAIN: dict[GraphQLOutputType, type] = {GraphQLString: str, GraphQLID: str, GraphQLBoolean: bool}
"""Scalars whose coercion leaves a value of this very type as it is."""


def _unchanged(type_: GraphQLOutputType, is_required: bool, otherwise: Completion) -> Completion:
    """Leave a column alone whose values are all of the plain type, as nearly all are."""
    allowed = {_PLAIN[type_]} if is_required else {_PLAIN[type_], type(None)}
    return lambda column: list(column) if set(map(type, column)) <= allowed else otherwise(column)


def _leaves(type_: GraphQLLeafType) -> Completion:
    """The type's own coercion, which may neither fail nor give nothing."""
    coerce: Callable[[Any], Any] = type_.coerce_output_value

    def complete(column: Sequence[Any]) -> Column:
        _check_kinds(column)
        coerced = list(map(coerce, column))
        if any(value is None or value is Undefined for value in coerced):
            raise Unusual
        return coerced

    return complete
