"""Included messages and their neighbours: any number of targets and windows in two commands."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bson import MaxKey, MinKey

from store.driver import Document, Pipeline
from store.errors import InvalidArgument, LimitExceeded
from store.scope import Scope, check_id
from store.source import Source
from store.values import to_text

MAX_ITEMS = 100
MAX_WINDOW = 1000


@dataclass(frozen=True, slots=True)
class IncludeItem:
    """A message to include, the thread it must lie in, and how many neighbours to bring along."""

    id: str
    thread_id: str
    before: int = 0
    after: int = 0

    def check(self) -> "IncludeItem":
        """Return the item itself; raises InvalidArgument or LimitExceeded naming the argument."""
        check_id(self.id, "include.id")
        check_id(self.thread_id, "include.threadId")
        for name, size in (("withPreviousMessages", self.before), ("withNextMessages", self.after)):
            check_window(size, f"include.{name}")
        return self


def check_window(size: int, argument: str) -> None:
    """Raises InvalidArgument or LimitExceeded for a window that is negative or too wide."""
    if size < 0:
        raise InvalidArgument(f"{argument} must be a whole number >= 0, not {size}.")
    if size > MAX_WINDOW:
        raise LimitExceeded(f"{argument} is {size}, but a window holds at most {MAX_WINDOW} messages.")


def check_items(items: Iterable[IncludeItem]) -> list[IncludeItem]:
    """The checked items as a list; raises LimitExceeded when there are too many."""
    checked = [item.check() for item in items]
    if len(checked) > MAX_ITEMS:
        raise LimitExceeded(f"include holds {len(checked)} items, but at most {MAX_ITEMS} are allowed.")
    return checked


@dataclass(frozen=True, slots=True)
class Window:
    """A target that was found: its key, and the keys of its neighbours, nearest first."""

    id: str
    thread_id: str
    key: object
    before: list[object]
    after: list[object]

    @property
    def keys(self) -> list[object]:
        """The keys of the target and of all its neighbours."""
        return [self.key, *self.before, *self.after]


async def find_windows(messages: Source, threads: Source, items: Iterable[IncludeItem], scope: Scope) -> list[Window]:
    """Find the targets of `items` and the keys of their neighbours, in one command.

    Unknown targets, those in another thread than the item names, and those of other owners are left out.
    """
    wanted = _union(items)
    if not wanted:
        return []

    async def read() -> list[Document]:
        return await messages.rows(to_pipeline(messages, threads, wanted.values(), scope), batch_size=len(wanted) + 1)

    rows = await messages.with_repair(read)
    return [_to_window(row, wanted) for row in rows if _is_admitted(row, scope)]


def _union(items: Iterable[IncludeItem]) -> dict[tuple[str, str], IncludeItem]:
    """One item for each message of a thread: windows around one target unite to the widest."""
    union: dict[tuple[str, str], IncludeItem] = {}
    for item in items:
        key = (item.thread_id, item.id)
        known = union.get(key, item)
        union[key] = IncludeItem(item.id, item.thread_id, max(item.before, known.before), max(item.after, known.after))
    return union


def to_pipeline(messages: Source, threads: Source, wanted: Iterable[IncludeItem], scope: Scope) -> Pipeline:
    """The targets with the owners of their threads, and for each size of window one look-up of neighbours."""
    items = list(wanted)
    owners: Pipeline = [] if scope.resource_id is None else [_owners_stage(threads.name)]
    return [
        {"$match": {"id": {"$in": sorted({item.id for item in items})}}},
        {"$match": {"$or": _in_their_threads(items)} | scope.to_message_condition()},
        *messages.repair_stage(),
        {"$project": {"_id": 1, "id": 1, "thread_id": 1, "resourceId": 1, "createdAt": 1}},
        *owners,
        *_neighbours(messages, items, scope, BEFORE),
        *_neighbours(messages, items, scope, AFTER),
    ]


def _in_their_threads(items: list[IncludeItem]) -> list[dict[str, Any]]:
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        ids[item.thread_id].append(item.id)
    return [{"thread_id": thread_id, "id": {"$in": sorted(names)}} for thread_id, names in sorted(ids.items())]


def _owners_stage(threads: str) -> dict[str, Any]:
    owner: Pipeline = [{"$limit": 1}, {"$project": {"_id": 0, "resourceId": 1}}]
    return {
        "$lookup": {
            "from": threads,
            "localField": "thread_id",
            "foreignField": "id",
            "pipeline": owner,
            "as": "owners",
        }
    }


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a window: the comparison that leads away from the target, and the order of nearness."""

    name: str
    at_or_beyond: str
    beyond: str
    direction: int
    nowhere: object


BEFORE = Side("before", "$lte", "$lt", -1, MinKey())
AFTER = Side("after", "$gte", "$gt", 1, MaxKey())


def _neighbours(messages: Source, items: list[IncludeItem], scope: Scope, side: Side) -> Pipeline:
    """One look-up for each size that occurs: a limit is fixed in a pipeline, and no row is read for nothing."""
    sizes: defaultdict[int, set[str]] = defaultdict(set)
    for item in items:
        sizes[item.before if side is BEFORE else item.after].add(item.id)
    sizes.pop(0, None)
    return [_neighbours_stage(messages, scope, side, size, sorted(ids)) for size, ids in sorted(sizes.items())]


def _neighbours_stage(messages: Source, scope: Scope, side: Side, size: int, ids: list[str]) -> dict[str, Any]:
    start = {"$cond": [{"$in": ["$id", ids]}, "$createdAt", side.nowhere]}
    condition = scope.to_message_condition()
    owned: Pipeline = [{"$match": condition}] if condition else []
    pipeline: Pipeline = [
        *owned,
        *messages.repair_stage(),
        {"$match": {"$expr": _lies_beyond(side)}},
        {"$sort": {"createdAt": side.direction, "_id": side.direction}},
        {"$limit": size},
        {"$project": {"_id": 1, "createdAt": 1}},
    ]
    return {
        "$lookup": {
            "from": messages.name,
            "localField": "thread_id",
            "foreignField": "thread_id",
            "let": {"at": start, "key": "$_id"},
            "pipeline": pipeline,
            "as": f"{side.name}_{size}",
        }
    }


def _lies_beyond(side: Side) -> dict[str, Any]:
    """In the total order strictly beyond the target; the first comparison gives an index its bound."""
    return {
        "$and": [
            {side.at_or_beyond: ["$createdAt", "$$at"]},
            {"$or": [{side.beyond: ["$createdAt", "$$at"]}, {side.beyond: ["$_id", "$$key"]}]},
        ]
    }


def _is_admitted(row: Document, scope: Scope) -> bool:
    if scope.resource_id is None:
        return True
    owners = [to_text(thread.get("resourceId")) for thread in row["owners"]]
    return scope.admits(owners[0] if owners else row.get("resourceId"))


def _to_window(row: Document, wanted: Mapping[tuple[str, str], IncludeItem]) -> Window:
    item = wanted[(row["thread_id"], row["id"])]
    before = [key for name, keys in row.items() if name.startswith("before") for key in keys]
    after = [key for name, keys in row.items() if name.startswith("after") for key in keys]
    return Window(item.id, item.thread_id, row["_id"], _keys(before, item.before), _keys(after, item.after))


def _sides(row: Document) -> list[list[Document]]:
    return [rows for name, rows in row.items() if name.startswith(("before", "after"))]


def _keys(rows: list[Document], size: int) -> list[object]:
    return [row["_id"] for row in rows[:size]]
