"""Locating the messages that a recall adds to its page: those named by `include`, and those found by meaning."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from store.content import read_stored
from store.driver import Document
from store.errors import EmbedderFailed
from store.messages import MessageFilter, Messages
from store.recall_request import RecallRequest
from store.scope import Scope
from store.search import Found, Search
from store.semantic import SemanticRecall
from store.targets import Target, TargetQuery, Window
from store.threads import Threads
from store.vectors.engine import EngineName
from store.vectors.similarity import Match
from store.windows import IncludeItem, find_targets

SPARE_CANDIDATES = 2
"""Taken beyond `topK` in the first round, so that a few dead vectors cost no further command."""


@dataclass(frozen=True, slots=True)
class LocatedMatch:
    """A message that was found by meaning, with its window."""

    window: Window
    score: float


@dataclass(frozen=True, slots=True)
class Located:
    """What was located, as keys; `tokens` and `engine` say what a search cost and who answered it."""

    included: list[Window] = field(default_factory=list)
    matches: list[LocatedMatch] = field(default_factory=list)
    tokens: int | None = None
    engine: EngineName | None = None
    rows: Mapping[object, Document] = field(default_factory=dict)
    """Some of the messages, and others, as documents by their keys: what was found along with the places."""

    @property
    def keys(self) -> set[object]:
        """The keys of all messages to add, neighbours included."""
        windows = [*self.included, *(match.window for match in self.matches)]
        return {key for window in windows for key in window.keys}

    @property
    def included_keys(self) -> set[object]:
        """The keys of the messages named by `include`."""
        return {window.key for window in self.included}

    @property
    def match_keys(self) -> set[object]:
        """The keys of the messages found by meaning."""
        return {match.window.key for match in self.matches}


class Locator:
    """Finds the targets of a recall and the keys of their neighbours."""

    def __init__(self, messages: Messages, threads: Threads, search: Search | None) -> None:
        self.messages = messages
        self.threads = threads
        self.search = search

    async def locate_items(self, items: Iterable[IncludeItem], scope: Scope, shown: frozenset[str]) -> Located:
        """The included messages, in one command. Those unknown, foreign or in another thread are left out.

        `shown`: the stored fields that will be looked at; few rows bring them along.
        """
        wanted = list(items)
        targets = await self._find(TargetQuery.of(_sizes(wanted), _threads(wanted)).showing(shown), scope)
        return Located(included=_windows(wanted, targets), rows=_rows(targets))

    async def locate_all(
        self, request: RecallRequest, text: str, semantic: SemanticRecall, shown: frozenset[str]
    ) -> Located:
        """The included messages and those found by meaning, in one command where few vectors are dead.

        `shown`: the stored fields that will be looked at; few rows bring them along.

        Raises EmbedderFailed, EmbeddingMismatch, Unavailable.
        """
        wanted = list(request.include)
        owner = request.scope.resource_id or await self.threads.get_owner(request.thread_id)
        if owner is None:
            return await self.locate_items(wanted, request.scope, shown)
        found = await self._search(text, owner, request.thread_id, semantic)
        picking = Picking(semantic, Scope(owner), request.matching, request.thread_id, shown)
        included = await self._pick(picking, found, wanted, request.scope)
        return Located(_windows(wanted, included), picking.matches(), found.tokens, found.engine, picking.rows)

    async def _search(self, text: str, owner: str, thread_id: str, semantic: SemanticRecall) -> Found:
        if self.search is None:
            raise EmbedderFailed("Semantic recall needs an embedder, and none is configured (RECALLQL_EMBEDDER).")
        return await self.search.find(
            text, owner, thread_id if semantic.scope == "thread" else None, semantic.threshold
        )

    async def _pick(self, picking: "Picking", found: Found, items: list[IncludeItem], scope: Scope) -> list[Target]:
        """Take candidates until enough of them are alive and admitted; the targets found hold the included items.

        The first round brings the included items along, and the windows of the candidates. Later ones, which dead
        vectors, filters or ties make necessary, look at messages alone; their windows come in the end.
        """
        count = picking.semantic.top_k + SPARE_CANDIDATES
        candidates = await found.candidates.take(count)
        targets: list[Target] | None = None
        if self.messages.source.joins_ranges or not picking.fields:
            sizes = [*_sizes(items), *picking.sizes(match.message_id for match in candidates)]
            threads = [*_threads(items), *((match.message_id, match.thread_id) for match in candidates)]
            query = TargetQuery.of(sizes, threads, picking.fields).showing(picking.shown)
            targets = await self._find(query, scope)
            picking.add(candidates, targets)
        else:
            await self._add_alone(picking, candidates, scope)
        while len(candidates) == count and picking.is_undecided:
            count *= 2
            candidates = await found.candidates.take(count)
            await self._add_alone(picking, candidates, scope)
        return await self._complete(picking, items, targets, scope)

    async def _add_alone(self, picking: "Picking", candidates: list[Match], scope: Scope) -> None:
        """Look at candidates without their neighbours."""
        sizes = [(match.message_id, 0, 0) for match in candidates]
        found = await self._find(TargetQuery.of(sizes, (), picking.fields), scope)
        picking.add(candidates, found, have_windows=False)

    async def _complete(
        self, picking: "Picking", items: list[IncludeItem], targets: list[Target] | None, scope: Scope
    ) -> list[Target]:
        """Find the windows that are lacking: of matches that were looked at alone, and of items not looked at yet."""
        bare = picking.without_window()
        lacking = items if targets is None else []
        if not bare and not lacking:
            return targets or []
        sizes = [*_sizes(lacking), *picking.sizes(target.message.id for target in bare)]
        threads = [*_threads(lacking), *((target.message.id, target.message.thread_id) for target in bare)]
        found = await self._find(TargetQuery.of(sizes, threads).showing(picking.shown), scope)
        picking.complete(found)
        return found if targets is None else targets

    async def _find(self, query: TargetQuery, scope: Scope) -> list[Target]:
        return await find_targets(self.messages.source, self.threads.source, query, scope)


@dataclass(slots=True)
class Picked:
    """A candidate that was admitted."""

    score: float
    target: Target
    has_window: bool


@dataclass(slots=True)
class Picking:
    """Choosing the matches among candidates: alive, the owner's, in the scope, and not filtered out."""

    semantic: SemanticRecall
    owner: Scope
    matching: MessageFilter
    thread_id: str
    shown: frozenset[str] = frozenset()
    picked: list[Picked] = field(default_factory=list)
    lowest: float = 1.0
    """The score of the last candidate that was taken."""
    rows: dict[object, Document] = field(default_factory=dict)
    """What was found along with the places, by key."""

    @property
    def is_undecided(self) -> bool:
        """Whether further candidates may belong to the matches: too few were picked, or the last may be tied."""
        best = self._best()
        return len(best) < self.semantic.top_k or best[-1].score == self.lowest

    @property
    def fields(self) -> frozenset[str]:
        """The stored fields that the filter looks at."""
        return frozenset({"content"} if self.matching.metadata else ())

    def sizes(self, ids: Iterable[str]) -> list[tuple[str, int, int]]:
        """The windows wanted around candidates."""
        return [(id, self.semantic.before, self.semantic.after) for id in ids]

    def add(self, candidates: list[Match], targets: Iterable[Target], *, have_windows: bool = True) -> None:
        """Keep the candidates that were found and are admitted."""
        found = list(targets)
        if have_windows:
            self.rows |= _rows(found)
        alive = {target.message.id: target for target in found if self._admits(target)}
        self.picked += [
            Picked(match.score, alive[match.message_id], have_windows)
            for match in candidates
            if match.message_id in alive
        ]
        if candidates:
            self.lowest = candidates[-1].score

    def without_window(self) -> list[Target]:
        """The matches whose neighbours are still to be found."""
        wants_any = self.semantic.before or self.semantic.after
        return [picked.target for picked in self._best() if wants_any and not picked.has_window]

    def complete(self, targets: Iterable[Target]) -> None:
        """Put in the neighbours that were found."""
        found = {target.message.id: target for target in targets}
        self.rows |= _rows(found.values())
        for picked in self._best():
            picked.target = found.get(picked.target.message.id, picked.target)

    def _best(self) -> list[Picked]:
        """The best so far; equal scores in the order of insertion."""
        in_order = sorted(self.picked, key=lambda picked: (-picked.score, picked.target.message.position[1:]))
        return in_order[: self.semantic.top_k]

    def _admits(self, target: Target) -> bool:
        in_scope = self.semantic.scope == "resource" or target.message.thread_id == self.thread_id
        is_owned = self.owner.admits(target.owner) and target.message.resource_id in (None, self.owner.resource_id)
        wanted_thread = not self.semantic.filter or self.semantic.filter.matches(
            read_stored(target.thread_metadata).to_mapping()
        )
        return in_scope and is_owned and wanted_thread and self.matching.matches(target.message)

    def matches(self) -> list[LocatedMatch]:
        """The best matches with their windows."""
        before, after = self.semantic.before, self.semantic.after
        return [LocatedMatch(picked.target.window(before, after), picked.score) for picked in self._best()]


def _sizes(items: Iterable[IncludeItem]) -> list[tuple[str, int, int]]:
    return [(item.id, item.before, item.after) for item in items]


def _threads(items: Iterable[IncludeItem]) -> list[tuple[str, str]]:
    return [(item.id, item.thread_id) for item in items]


def _rows(targets: Iterable[Target]) -> dict[object, Document]:
    return {row["_id"]: row for target in targets for row in target.rows}


def _windows(items: Iterable[IncludeItem], targets: Iterable[Target]) -> list[Window]:
    found = {(target.message.thread_id, target.message.id): target for target in targets}
    return [
        found[item.thread_id, item.id].window(item.before, item.after)
        for item in items
        if (item.thread_id, item.id) in found
    ]
