"""Whose rows a read may see."""

from dataclasses import dataclass
from typing import Any

from store.driver import Pipeline
from store.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Scope:
    """One resource (the owner of threads), or everybody's rows when `resource_id` is None.

    Every read of the store takes a scope, and every nested read keeps the scope of its parent.
    """

    resource_id: str | None = None

    def to_condition(self) -> dict[str, Any]:
        """On threads: rows of the owner."""
        return {} if self.resource_id is None else {"resourceId": self.resource_id}

    def to_stages(self) -> Pipeline:
        """On rows found by their ids: those of the owner. A stage of its own, so that the id chooses the index."""
        return [{"$match": self.to_condition()}] if self.resource_id is not None else []

    def to_message_stages(self) -> Pipeline:
        """On messages found by their ids or their thread: a row without owner belongs to the thread's."""
        if self.resource_id is None:
            return []
        return [{"$match": {"resourceId": {"$in": [self.resource_id, None]}}}]

    def admits(self, resource_id: str | None) -> bool:
        """Whether rows of this owner may be seen."""
        return self.resource_id is None or self.resource_id == resource_id


EVERYBODY = Scope()


def check_id(value: str, argument: str) -> str:
    """An id as it is compared: exactly, as text. Raises InvalidArgument for blank ids, which never mean "all"."""
    if not value.strip():
        raise InvalidArgument(f"{argument} must not be empty or blank.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{argument} is not valid Unicode text.") from None
    return value


def check_scope(scope: Scope, argument: str) -> None:
    """Raises InvalidArgument when the owner that a request names is blank."""
    if scope.resource_id is not None:
        check_id(scope.resource_id, argument)
