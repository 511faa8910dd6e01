"""What every resolver finds in `info.context`: the memory, the caller's scope, and the loaders of this request."""

from dataclasses import dataclass
from typing import Any, Literal

from strawberry.types import Info

from graph.loaders import Loaders
from graph.metrics import Metrics
from store.memory import Memory
from store.scope import EVERYBODY, Scope
from store.semantic import SemanticRecall


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the server's settings say where a request says nothing."""

    last_messages: int | Literal[False] = 10
    """Page size of a recall; False: no history."""
    semantic_recall: SemanticRecall | None = None
    """How a text is searched for; None: not at all."""


@dataclass(frozen=True, slots=True)
class Context:
    """One request: nothing in it outlives the answer."""

    memory: Memory
    metrics: Metrics
    loaders: Loaders
    defaults: Defaults
    caller: Scope = EVERYBODY
    takes_json_text: bool = False
    """Whether values of the answer may be `JSONText`, because it is written by `graph.response.encode`."""

    def scope(self, resource_id: object) -> Scope | None:
        """The rows to read when a request names this owner (anything but text is no name): never more than
        the caller may see.

        None when the caller may see nothing of the owner that the request names.
        """
        if not isinstance(resource_id, str):
            return self.caller
        return Scope(resource_id) if self.caller.admits(resource_id) else None

    @property
    def is_limited(self) -> bool:
        """Whether the caller may see one resource only; all else then does not exist for it."""
        return self.caller.resource_id is not None


RequestInfo = Info[Context, Any]
