"""Loaders of one request: rows beneath a list are read for all its items at once, never one by one."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from strawberry.dataloader import DataLoader

from store.activity import NO_ACTIVITY, Activity
from store.memory import Memory
from store.messages import MessagePage
from store.nested_pages import NestedRequest
from store.paging import Needs
from store.resources import Resource
from store.scope import Scope
from store.threads import Thread

K = TypeVar("K", bound="_Key")
G = TypeVar("G", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class OwnedKey:
    """The id of a row, and whose rows may be seen."""

    id: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class ActivityKey:
    """A thread whose activity is wanted: whether its ends are, and which stored fields of those."""

    id: str
    scope: Scope
    ends: bool
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class PageKey:
    """A thread of which a page of messages is wanted."""

    id: str
    request: NestedRequest


class Loaders:
    """One loader for each kind of row."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.threads: DataLoader[OwnedKey, Thread | None] = DataLoader(self._load_threads)
        self.resources: DataLoader[OwnedKey, Resource | None] = DataLoader(self._load_resources)
        self.activity: DataLoader[ActivityKey, Activity] = DataLoader(self._load_activity)
        self.pages: DataLoader[PageKey, MessagePage] = DataLoader(self._load_pages)

    async def _load_threads(self, keys: list[OwnedKey]) -> list[Thread | Exception | None]:
        async def load(scope: Scope, ids: list[str]) -> Mapping[str, Thread]:
            return await self.memory.threads.get_many(ids, scope)

        return await _in_groups(keys, lambda key: key.scope, load)

    async def _load_resources(self, keys: list[OwnedKey]) -> list[Resource | Exception | None]:
        async def load(scope: Scope, ids: list[str]) -> Mapping[str, Resource]:
            return await self.memory.resources.get_many(ids, scope)

        return await _in_groups(keys, lambda key: key.scope, load)

    async def _load_activity(self, keys: list[ActivityKey]) -> list[Activity | Exception]:
        """One command for a scope: counts and ends of all its threads, with the fields that any of them wants."""
        needs = replace(Needs(), fields=frozenset[str]().union(*(key.fields for key in keys)))
        ends = any(key.ends for key in keys)

        async def load(scope: Scope, ids: list[str]) -> Mapping[str, Activity]:
            return await self.memory.find_activity(ids, scope, ends=ends, needs=needs)

        found = await _in_groups(keys, lambda key: key.scope, load)
        return [NO_ACTIVITY if activity is None else activity for activity in found]

    async def _load_pages(self, keys: list[PageKey]) -> list[MessagePage | Exception | None]:
        async def load(request: NestedRequest, ids: list[str]) -> Mapping[str, MessagePage]:
            return await self.memory.nested_pages.find(ids, request)

        return await _in_groups(keys, lambda key: key.request, load)


class _Key(Protocol):
    @property
    def id(self) -> str: ...


async def _in_groups(
    keys: list[K], by: Callable[[K], G], load: Callable[[G, list[str]], Awaitable[Mapping[str, V]]]
) -> list[V | Exception | None]:
    """What is loaded for each key, all groups side by side. A group that fails fails its own keys and no others."""
    groups: defaultdict[G, list[str]] = defaultdict(list)
    for key in keys:
        groups[by(key)].append(key.id)
    loads = (load(group, ids) for group, ids in groups.items())
    found = dict(zip(groups, await asyncio.gather(*loads, return_exceptions=True), strict=True))
    return [_outcome(found[by(key)], key.id) for key in keys]


def _outcome(found: Mapping[str, V] | BaseException, id: str) -> V | Exception | None:
    if isinstance(found, Exception):
        return found
    if isinstance(found, BaseException):
        raise found
    return found.get(id)
