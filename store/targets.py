"""Messages that were found by their ids, with the keys of their neighbours."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from store.driver import Document, Pipeline
from store.messages import Message
from store.scope import Scope

FEW_ROWS = 200
"""Rows that are brought along with their places, though a few of them may not be wanted, or be known already."""


@dataclass(frozen=True, slots=True)
class Window:
    """The keys of a target and of its neighbours, nearest first."""

    key: object
    before: list[object]
    after: list[object]

    @property
    def keys(self) -> list[object]:
        """All of them."""
        return [self.key, *self.before, *self.after]


@dataclass(frozen=True, slots=True)
class Target:
    """A message that was found by its id: itself without what was not asked for, its thread, its neighbours' keys."""

    message: Message
    owner: str | None
    """The owner of the thread; where there is no such thread, the owner kept with the message."""
    thread_metadata: object
    before: list[object]
    after: list[object]
    rows: Sequence[Document] = ()
    """The target and its neighbours as documents, where stored fields of all of them were asked for."""

    @classmethod
    def from_rows(
        cls, rows: Sequence[Document], before: int, threads: list[Document], scope: Scope, *, are_shown: bool
    ) -> "Target":
        """A target from its own row, so many rows before and the rest after it, nearest first, and its thread's."""
        message = Message.from_document(rows[0], scope)
        thread: Document | None = threads[0] if threads else None
        owner = message.resource_id if thread is None else thread.get("resourceId")
        keys = [row["_id"] for row in rows[1:]]
        return cls(
            message, owner, thread and thread.get("metadata"), keys[:before], keys[before:], rows if are_shown else ()
        )

    def window(self, before: int, after: int) -> Window:
        """The window of these sizes, at most as wide as was asked of `find_targets`."""
        return Window(self.message.key, self.before[:before], self.after[:after])


@dataclass(frozen=True, slots=True)
class TargetQuery:
    """Which messages to find: for each id how many neighbours to bring, and the stored fields wanted of the targets."""

    sizes: Mapping[str, tuple[int, int]]
    fields: frozenset[str] = frozenset()
    thread_ids: Mapping[str, str] = field(default_factory=dict)
    """The threads of the targets, as far as they are known."""
    shown: frozenset[str] = frozenset()
    """The stored fields wanted of the targets and their neighbours beside what places them."""

    @classmethod
    def of(
        cls,
        sizes: Iterable[tuple[str, int, int]],
        threads: Iterable[tuple[str, str | None]],
        fields: frozenset[str] = frozenset(),
    ) -> "TargetQuery":
        """Unite windows around the same target, and the threads that targets are said to lie in, where all agree."""
        said: defaultdict[str, set[str | None]] = defaultdict(set)
        for id, thread_id in threads:
            said[id].add(thread_id)
        known = {id: thread_id for id, (thread_id, *others) in said.items() if thread_id is not None and not others}
        return cls(widest(sizes), fields, known)

    @property
    def has_windows(self) -> bool:
        """Whether any neighbours are wanted."""
        return any(before or after for before, after in self.sizes.values())

    def showing(self, shown: frozenset[str]) -> "TargetQuery":
        """The same query, with these stored fields where the rows are few: then they need no command of their own."""
        rows = sum(before + 1 + after for before, after in self.sizes.values())
        return replace(self, shown=shown) if rows <= FEW_ROWS else self


def widest(sizes: Iterable[tuple[str, int, int]]) -> dict[str, tuple[int, int]]:
    """One window for each id: windows around the same target unite to the widest on either side."""
    united: dict[str, tuple[int, int]] = {}
    for id, before, after in sizes:
        known = united.get(id, (0, 0))
        united[id] = (max(before, known[0]), max(after, known[1]))
    return united


def thread_stage(threads: str, local_field: str) -> dict[str, Any]:
    """The look-up of the thread that a row names: its owner and its metadata."""
    thread: Pipeline = [{"$sort": {"_id": 1}}, {"$limit": 1}, {"$project": {"_id": 0, "resourceId": 1, "metadata": 1}}]
    return {
        "$lookup": {
            "from": threads,
            "localField": local_field,
            "foreignField": "id",
            "pipeline": thread,
            "as": "thread",
        }
    }
