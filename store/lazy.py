"""An attribute that is worked out when it is first read."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Like `functools.cached_property`, without the lock that costs Python 3.11 more than most of our attributes.

    Two threads may work the value out twice; it is the same value.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "lazy[T] | T":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value


def forget(instances: Sequence[object]) -> None:
    """Drop what lazy attributes have worked out; what is read again is worked out again."""
    names = {kind: _lazy_names(kind) for kind in set(map(type, instances))}
    for instance in instances:
        for name in names[type(instance)]:
            instance.__dict__.pop(name, None)


def _lazy_names(kind: type) -> list[str]:
    attributes = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return [name for name, value in attributes.items() if isinstance(value, lazy)]
