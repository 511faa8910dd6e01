"""What happened in threads: how many messages, the first and the last, for a whole page of threads at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from store.driver import Document, Pipeline
from store.messages import Message, project, wanted_fields
from store.paging import Needs
from store.scope import Scope
from store.source import Source


@dataclass(frozen=True, slots=True)
class Activity:
    """The messages of one thread in short."""

    message_count: int = 0
    first_message: Message | None = None
    last_message: Message | None = None


NO_ACTIVITY = Activity()


async def find_activity(
    messages: Source, thread_ids: Iterable[str], scope: Scope, *, ends: bool, needs: Needs
) -> dict[str, Activity]:
    """The activity of many threads, in one command; threads without messages are left out.

    The index `{thread_id, createdAt, _id}` counts and finds both ends (`ends`), which are then
    looked up by key.
    """
    ids = sorted(set(thread_ids))

    async def read() -> list[Document]:
        pipeline = to_pipeline(messages, ids, scope, ends=ends, needs=needs)
        return await messages.rows(pipeline, batch_size=len(ids) + 1)

    rows = await messages.with_repair(read)
    return {row["_id"]: _to_activity(row, scope) for row in rows}


def to_pipeline(messages: Source, thread_ids: list[str], scope: Scope, *, ends: bool, needs: Needs) -> Pipeline:
    """The stages: the threads' messages in order, one group a thread, and the documents at both ends.

    The least `createdAt` of a group is text where any of it is, so that the source notices.
    """
    counted: dict[str, Any] = {
        "_id": "$thread_id",
        "count": {"$sum": 1},
        "createdAt": {"$min": "$createdAt"},
    }
    grouped = [
        {"$match": {"thread_id": {"$in": thread_ids}}},
        *scope.to_message_stages(),
        *messages.repair_stage(),
    ]
    if not ends:
        return [*grouped, {"$group": counted}]
    counted |= {"first": {"$first": "$_id"}, "last": {"$last": "$_id"}}
    return [
        *grouped,
        {"$sort": {"thread_id": 1, "createdAt": 1, "_id": 1}},
        {"$group": counted},
        _by_key(messages, "first", needs),
        _by_key(messages, "last", needs),
    ]


def _by_key(messages: Source, name: str, needs: Needs) -> dict[str, Any]:
    return {
        "$lookup": {
            "from": messages.name,
            "localField": name,
            "foreignField": "_id",
            "pipeline": [*messages.repair_stage(), *project(wanted_fields(needs))],
            "as": name,
        }
    }


def _to_activity(row: Document, scope: Scope) -> Activity:
    first, last = ([Message.from_document(found, scope) for found in row.get(end, [])] for end in ("first", "last"))
    return Activity(int(row["count"]), first[0] if first else None, last[0] if last else None)
