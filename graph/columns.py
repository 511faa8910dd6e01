"""Completing one field of all items of a list at once: a column of values becomes a column of the answer.

A completion raises for whatever only the stock executor may handle: a null where none may be, a value that a scalar
refuses, an error or an awaitable in the place of a value.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import NoneType
from typing import Any, TypeVar

from graphql import (
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLID,
    GraphQLLeafType,
    GraphQLOutputType,
    GraphQLString,
    Undefined,
)

from graph.scalars import COLUMNS

T = TypeVar("T")
Column = list[Any]
Completion = Callable[[Column], Column]
"""Takes a new list, which it may give back."""
Columns = Mapping[str, Column]
Given = Mapping[str, Sequence[Any]]
Reading = Callable[[Any], Any]
"""From an item to one of its values."""

_ABSENT = {NoneType, type(Undefined)}
_PLAIN: dict[GraphQLOutputType, type] = {GraphQLString: str, GraphQLID: str, GraphQLBoolean: bool}
"""Scalars whose coercion leaves a value of this very type as it is."""


class Unusual(Exception):
    """A value that no completion covers."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of all items: how it is read, and completed. Without `read` its values are given, all at once."""

    read: Reading | None
    complete: Completion


class Rows:
    """Objects: their fields, completed one after the other and put together."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        self._put_together = _objects_maker(tuple(fields))

    def read(self, items: Column) -> Columns:
        """The completed fields that are read from the items."""
        _check_kinds(set(map(type, items)))
        return {
            name: field.complete(list(map(field.read, items))) for name, field in self._fields.items() if field.read
        }

    def join(self, columns: Columns, given: Given) -> Column:
        """The objects of the answer, from all fields that were read, and the values of the others."""
        completed = [
            columns[name] if field.read else field.complete(list(given[name])) for name, field in self._fields.items()
        ]
        return self._put_together(completed)


@lru_cache(maxsize=1000)
def _objects_maker(names: tuple[str, ...]) -> Callable[[Sequence[Column]], Column]:
    """From the columns of some fields to objects. Names are GraphQL's: letters, digits, `_`.

    One comprehension of dictionary displays is faster than `dict(zip(names, values))` for each object.
    """
    values = [f"value_{place}" for place in range(len(names))]
    entries = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    source = f"lambda columns: [{{{entries}}} for ({', '.join(values)},) in zip(*columns, strict=True)]"
    maker: Callable[[Sequence[Column]], Column] = eval(source)
    return maker


def lists(item: Completion) -> Completion:
    """Complete the items of all lists together, and part them again."""

    def complete(column: Column) -> Column:
        if not set(map(type, column)) <= {list, tuple}:
            raise Unusual
        completed = iter(item([value for values in column for value in values]))
        return [list(islice(completed, len(values))) for values in column]

    return complete


def optional(inner: Completion) -> Completion:
    """Nulls stay."""

    def complete(column: Column) -> Column:
        if NoneType not in set(map(type, column)):
            return inner(column)
        completed = iter(inner([value for value in column if value is not None]))
        return [None if value is None else next(completed) for value in column]

    return complete


def required(inner: Callable[[Column], T]) -> Callable[[Column], T]:
    """Nulls are not for us."""

    def complete(column: Column) -> T:
        if NoneType in set(map(type, column)):
            raise Unusual
        return inner(column)

    return complete


def unchanged(type_: GraphQLOutputType, is_required: bool, otherwise: Completion) -> Completion:
    """Leave a column alone whose values are all of the plain type of a scalar, as nearly all are."""
    plain = _PLAIN.get(type_)
    if plain is None:
        return otherwise
    allowed = {plain} if is_required else {plain, NoneType}
    return lambda column: column if set(map(type, column)) <= allowed else otherwise(column)


def leaves(type_: GraphQLLeafType) -> Completion:
    """The type's own coercion, which may neither fail nor give nothing."""
    coerce: Callable[[Any], Any] = type_.coerce_output_value
    if isinstance(type_, GraphQLEnumType):
        return _enums(coerce)
    coerce_all = COLUMNS.get(coerce) or (lambda column: list(map(coerce, column)))

    def complete(column: Column) -> Column:
        _check_kinds(set(map(type, column)))
        coerced = coerce_all(column)
        if not _ABSENT.isdisjoint(map(type, coerced)):
            raise Unusual
        return coerced

    return complete


def _enums(coerce: Callable[[Any], Any]) -> Completion:
    """A value is coerced once in a column: of very many there are few different ones."""

    def complete(column: Column) -> Column:
        _check_kinds(set(map(type, column)))
        # By identity, for values of different types may be equal and yet not the same.
        keys = list(map(id, column))
        names = {key: coerce(value) for key, value in dict(zip(keys, column, strict=True)).items()}
        if not _ABSENT.isdisjoint(map(type, names.values())):
            raise Unusual
        return list(map(names.__getitem__, keys))

    return complete


def _check_kinds(kinds: set[type]) -> None:
    """An error in the place of a value is raised, and an awaitable awaited, by the stock executor."""
    if any(map(_is_for_stock, kinds)):
        raise Unusual


@lru_cache(maxsize=1000)
def _is_for_stock(kind: type) -> bool:
    return issubclass(kind, (Exception, Awaitable))
