"""What was worked out for an object, kept as long as the object is."""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by the identity of an object: nodes of a document compare, and hash, by all that is beneath them."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[object, T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, owner: object, work_out: Callable[[], T]) -> T:
        """The value of this very object, worked out when it is first wanted."""
        key = id(owner)
        found = self._values.get(key)
        if found is None:
            value = work_out()
            gone = weakref.ref(owner, lambda _: self._values.pop(key, None))
            found = self._values[key] = (gone, value)
        return found[1]
