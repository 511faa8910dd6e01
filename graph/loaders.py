"""Loaders of one request: rows beneath a list are read for all its items at once, never one by one."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from strawberry.dataloader import DataLoader

from store.activity import NO_ACTIVITY, Activity
from store.memory import Memory
from store.messages import MessagePage
from store.nested_pages import NestedRequest
from store.paging import Needs
from store.resources import Resource
from store.scope import Scope
from store.threads import Thread

K = TypeVar("K", bound=Hashable)


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

    async def _load_threads(self, keys: list[OwnedKey]) -> list[Thread | None]:
        found = {
            scope: await self.memory.threads.get_many(_ids(group), scope)
            for scope, group in _grouped(keys, lambda key: key.scope).items()
        }
        return [found[key.scope].get(key.id) for key in keys]

    async def _load_resources(self, keys: list[OwnedKey]) -> list[Resource | None]:
        found = {
            scope: await self.memory.resources.get_many(_ids(group), scope)
            for scope, group in _grouped(keys, lambda key: key.scope).items()
        }
        return [found[key.scope].get(key.id) for key in keys]

    async def _load_activity(self, keys: list[ActivityKey]) -> list[Activity]:
        """One command for a scope: counts and ends of all its threads, with the fields that any of them wants."""
        found = {}
        for scope, group in _grouped(keys, lambda key: key.scope).items():
            fields: frozenset[str] = frozenset().union(*(key.fields for key in group))
            found[scope] = await self.memory.find_activity(
                _ids(group), scope, ends=any(key.ends for key in group), needs=replace(Needs(), fields=fields)
            )
        return [found[key.scope].get(key.id, NO_ACTIVITY) for key in keys]

    async def _load_pages(self, keys: list[PageKey]) -> list[MessagePage]:
        found = {
            request: await self.memory.nested_pages.find(_ids(group), request)
            for request, group in _grouped(keys, lambda key: key.request).items()
        }
        return [found[key.request][key.id] for key in keys]


def _grouped(keys: Iterable[K], by: Callable[[K], Any]) -> dict[Any, list[K]]:
    groups: defaultdict[Any, list[K]] = defaultdict(list)
    for key in keys:
        groups[by(key)].append(key)
    return groups


def _ids(keys: Iterable[Any]) -> list[str]:
    return [key.id for key in keys]
