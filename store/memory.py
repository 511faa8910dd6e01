"""The memory of agents in one database: the door to everything the store reads."""

from collections.abc import Iterable
from dataclasses import replace

import pymongo

from store.activity import Activity, find_activity
from store.collections import MESSAGES, RESOURCES, THREADS
from store.driver import Database, explained_errors, together
from store.embedded import EMBEDDED_SET
from store.locating import Locator
from store.messages import Message, Messages
from store.nested_pages import NestedPages
from store.paging import Limits, Needs
from store.recall import Recall, RecallNeeds, recall
from store.recall_request import RecallRequest
from store.resources import Resource, Resources
from store.scope import Scope, check_id
from store.search import Search
from store.source import Source
from store.threads import Threads


class Memory:
    """Threads, messages and resources of one database, of PyMongo's or Motor's asynchronous driver.

    `timeout` (seconds) bounds every exchange with the server.
    """

    def __init__(
        self, database: Database, *, limits: Limits = Limits(), timeout: float = 5.0, search: Search | None = None
    ) -> None:
        self.database = database
        self.timeout = timeout
        self.limits = limits
        threads = Source(
            database, THREADS, timeout=timeout, date_fields=("createdAt", "updatedAt"), metadata_field="metadata"
        )
        messages = Source(database, MESSAGES, timeout=timeout, date_fields=("createdAt",))
        resources = Source(database, RESOURCES, timeout=timeout, date_fields=())
        self.sources = (threads, messages, resources)
        self.threads = Threads(threads, limits)
        self.messages = Messages(messages, limits)
        self.resources = Resources(resources)
        self.locator = Locator(self.messages, self.threads, search)
        self.nested_pages = NestedPages(threads, self.messages, limits)

    async def survey(self) -> None:
        """Learn how the collections are kept (collation, times as text); done at start and now and then.

        Raises Unavailable.
        """
        names = {"name": {"$in": [source.name for source in self.sources]}}
        with explained_errors(), pymongo.timeout(self.timeout):
            reply = await self.database.command("listCollections", filter=names)
            hello = await self.database.command("hello")
        for source in self.sources:
            source.joins_ranges = hello.get("setName") != EMBEDDED_SET
        options = {entry["name"]: entry.get("options", {}) for entry in reply["cursor"]["firstBatch"]}
        await together(*(source.survey(options.get(source.name, {})) for source in self.sources))
        if self.locator.search is not None:
            await self.locator.search.refresh()

    async def recall(self, request: RecallRequest, needs: RecallNeeds = RecallNeeds()) -> Recall:
        """A page of a thread with its included and found messages; see `store.recall.recall`."""
        return await recall(self.messages, self.threads, self.locator, request, needs)

    async def find_activity(
        self, thread_ids: Iterable[str], scope: Scope, *, ends: bool, needs: Needs
    ) -> dict[str, Activity]:
        """Message counts and both ends of many threads; see `store.activity.find_activity`."""
        return await find_activity(self.messages.source, thread_ids, scope, ends=ends, needs=needs)

    async def get_message(self, message_id: str, scope: Scope, needs: Needs = Needs()) -> Message | None:
        """One message; None when it does not exist, or it or its thread belongs to another resource."""
        message = await self.messages.get(message_id, scope, _with_owner(needs, scope))
        if message is None or scope.resource_id is None:
            return message
        owner = await self.threads.get_owner(message.thread_id)
        belongs_to = message.resource_id if owner is None else owner
        return message if scope.admits(belongs_to) else None

    async def get_resource(self, resource_id: str, scope: Scope) -> Resource | None:
        """One resource; None when nothing is kept about it or it lies outside the scope."""
        found = await self.resources.get_many([check_id(resource_id, "id")], scope)
        return found.get(resource_id)


def _with_owner(needs: Needs, scope: Scope) -> Needs:
    if needs.fields is None or scope.resource_id is None:
        return needs
    return replace(needs, fields=needs.fields | {"resourceId"})
