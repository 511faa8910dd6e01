"""Target messages and their neighbours: any number of targets and windows in one command."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from bson import MaxKey, MinKey

from store.driver import Document, Pipeline
from store.errors import InvalidArgument, LimitExceeded
from store.scope import Scope, check_id
from store.source import Source
from store.targets import Target, TargetQuery, thread_stage
from store.thread_keys import find_in_threads

MAX_ITEMS = 100
MAX_WINDOW = 1000


@dataclass(frozen=True, slots=True)
class IncludeItem:
    """A message to include, the thread it must lie in, and how many neighbours to bring along."""

    id: str
    thread_id: str
    before: int = 0
    after: int = 0

    def check(self) -> None:
        """Raises InvalidArgument or LimitExceeded naming the argument."""
        check_id(self.id, "include.id")
        check_id(self.thread_id, "include.threadId")
        check_window(self.before, "include.withPreviousMessages")
        check_window(self.after, "include.withNextMessages")


def check_window(size: int, argument: str) -> None:
    """Raises InvalidArgument or LimitExceeded for a window that is negative or too wide."""
    if size < 0:
        raise InvalidArgument(f"{argument} must be a whole number >= 0, not {size}.")
    if size > MAX_WINDOW:
        raise LimitExceeded(f"{argument} is {size}, but a window holds at most {MAX_WINDOW} messages.")


def check_items(items: Collection[IncludeItem]) -> None:
    """Raises LimitExceeded when there are too many items, and what `IncludeItem.check` raises."""
    if len(items) > MAX_ITEMS:
        raise LimitExceeded(f"include holds {len(items)} items, but at most {MAX_ITEMS} are allowed.")
    for item in items:
        item.check()


async def find_targets(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> list[Target]:
    """Find messages by their ids, with the keys of their neighbours, in one command.

    Ids that do not exist are left out, and so are messages of other owners than the scope's.
    """
    if not query.sizes:
        return []
    is_slow = query.has_windows and not messages.joins_ranges and query.sizes.keys() == query.thread_ids.keys()
    read = find_in_threads if is_slow and not query.fields else find_by_look_up
    return [target for target in await read(messages, threads, query, scope) if scope.admits(target.owner)]


async def find_by_look_up(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> list[Target]:
    """The targets with their neighbours, which the server looks up by an index."""

    async def read() -> list[Document]:
        rows = await messages.rows(to_pipeline(messages, threads, query, scope), batch_size=len(query.sizes) + 1)
        messages.note(neighbour for row in rows for neighbour in [*_side(row, BEFORE), *_side(row, AFTER)])
        return rows

    return [_to_target(row, scope, bool(query.shown)) for row in await messages.with_repair(read)]


def to_pipeline(messages: Source, threads: Source, query: TargetQuery, scope: Scope) -> Pipeline:
    """The targets with the owners of their threads, and for each size of window one look-up of neighbours."""
    wanted = {"_id", "id", "thread_id", "resourceId", "createdAt", *query.fields, *query.shown}
    return [
        {"$match": {"id": {"$in": sorted(query.sizes)}}},
        *scope.to_message_stages(),
        *messages.repair_stage(),
        {"$project": dict.fromkeys(sorted(wanted), 1)},
        thread_stage(threads.name, "thread_id"),
        *_neighbours(messages, query, scope, BEFORE),
        *_neighbours(messages, query, scope, AFTER),
    ]


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


def _neighbours(messages: Source, query: TargetQuery, scope: Scope, side: Side) -> Pipeline:
    """One look-up for each size that occurs: a limit is fixed in a pipeline, and no row is read for nothing."""
    ids_of: defaultdict[int, list[str]] = defaultdict(list)
    for id, (before, after) in sorted(query.sizes.items()):
        ids_of[before if side is BEFORE else after].append(id)
    ids_of.pop(0, None)
    return [_neighbours_stage(messages, query, scope, side, size, ids) for size, ids in sorted(ids_of.items())]


def _neighbours_stage(
    messages: Source, query: TargetQuery, scope: Scope, side: Side, size: int, ids: list[str]
) -> dict[str, Any]:
    start = {"$cond": [{"$in": ["$id", {"$literal": ids}]}, "$createdAt", side.nowhere]}
    pipeline: Pipeline = [
        *scope.to_message_stages(),
        *messages.repair_stage(),
        {"$match": {"$expr": _lies_beyond(side)}},
        {"$sort": {"createdAt": side.direction, "_id": side.direction}},
        {"$limit": size},
        {"$project": dict.fromkeys(sorted({"_id", "createdAt", *query.shown}), 1)},
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


def _to_target(row: Document, scope: Scope, are_shown: bool) -> Target:
    before, after = _side(row, BEFORE), _side(row, AFTER)
    return Target.from_rows([row, *before, *after], len(before), row["thread"], scope, are_shown=are_shown)


def _side(row: Document, side: Side) -> list[Document]:
    """The neighbours on one side: only the look-up of the target's own size found any."""
    return [neighbour for name, rows in row.items() if name.startswith(f"{side.name}_") for neighbour in rows]
