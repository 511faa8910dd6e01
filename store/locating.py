"""Locating the messages that a recall adds to its page: those named by `include`, and those found by meaning."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from store.content import read_stored
from store.errors import EmbedderFailed
from store.messages import MessageFilter, Messages
from store.recall_request import RecallRequest
from store.scope import Scope
from store.search import Found, Search
from store.semantic import SemanticRecall
from store.threads import Threads
from store.vectors.engine import EngineName
from store.vectors.similarity import Match
from store.windows import IncludeItem, Target, TargetQuery, Window, find_targets, widest

SPARE_CANDIDATES = 4
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

    async def locate_items(self, items: Iterable[IncludeItem], scope: Scope) -> Located:
        """The included messages, in one command. Those unknown, foreign or in another thread are left out."""
        wanted = list(items)
        targets = await self._find(widest(_sizes(wanted)), scope, frozenset())
        return Located(included=_windows(wanted, targets))

    async def locate_all(self, request: RecallRequest, text: str, semantic: SemanticRecall) -> Located:
        """The included messages and those found by meaning, in one command where few vectors are dead.

        Raises EmbedderFailed, EmbeddingMismatch, Unavailable.
        """
        wanted = list(request.include)
        owner = request.scope.resource_id or await self.threads.get_owner(request.thread_id)
        if owner is None:
            return await self.locate_items(wanted, request.scope)
        found = await self._search(text, owner, request.thread_id, semantic)
        picking = Picking(semantic, Scope(owner), request.matching, request.thread_id)
        included = await self._pick(picking, found, wanted, request.scope)
        return Located(included, picking.matches(), found.tokens, found.engine)

    async def _search(self, text: str, owner: str, thread_id: str, semantic: SemanticRecall) -> Found:
        if self.search is None:
            raise EmbedderFailed("Semantic recall needs an embedder, and none is configured (RECALLQL_EMBEDDER).")
        return await self.search.find(
            text, owner, thread_id if semantic.scope == "thread" else None, semantic.threshold
        )

    async def _pick(self, picking: "Picking", found: Found, items: list[IncludeItem], scope: Scope) -> list[Window]:
        """Take candidates until enough of them are alive and admitted; the first round brings the items along."""
        included: list[Window] | None = None
        count = picking.semantic.top_k + SPARE_CANDIDATES
        while picking.lacking or included is None:
            candidates = await found.candidates.take(count)
            sizes = widest([*(_sizes(items) if included is None else ()), *picking.sizes(candidates)])
            targets = await self._find(sizes, scope, picking.fields)
            included = _windows(items, targets) if included is None else included
            picking.add(candidates, targets)
            if len(candidates) < count:
                break
            count *= 2
        return included or []

    async def _find(self, sizes: dict[str, tuple[int, int]], scope: Scope, fields: frozenset[str]) -> list[Target]:
        return await find_targets(self.messages.source, self.threads.source, TargetQuery(sizes, fields), scope)


@dataclass(slots=True)
class Picking:
    """Choosing the matches among candidates: alive, the owner's, in the scope, and not filtered out."""

    semantic: SemanticRecall
    owner: Scope
    matching: MessageFilter
    thread_id: str
    picked: list[tuple[float, Target]] = field(default_factory=list)

    @property
    def lacking(self) -> bool:
        """Whether more matches are wanted."""
        return len(self.picked) < self.semantic.top_k

    @property
    def fields(self) -> frozenset[str]:
        """The stored fields that the filter looks at."""
        return frozenset({"content"} if self.matching.metadata else ())

    def sizes(self, candidates: Iterable[Match]) -> list[tuple[str, int, int]]:
        """The windows wanted around candidates."""
        return [(match.message_id, self.semantic.before, self.semantic.after) for match in candidates]

    def add(self, candidates: Iterable[Match], targets: Iterable[Target]) -> None:
        """Keep the candidates that were found and are admitted."""
        alive = {target.message.id: target for target in targets if self._admits(target)}
        self.picked += [(match.score, alive[match.message_id]) for match in candidates if match.message_id in alive]

    def _admits(self, target: Target) -> bool:
        in_scope = self.semantic.scope == "resource" or target.message.thread_id == self.thread_id
        is_owned = self.owner.admits(target.owner) and target.message.resource_id in (None, self.owner.resource_id)
        wanted_thread = not self.semantic.filter or self.semantic.filter.matches(
            read_stored(target.thread_metadata).to_mapping()
        )
        return in_scope and is_owned and wanted_thread and self.matching.matches(target.message)

    def matches(self) -> list[LocatedMatch]:
        """The best matches; equal scores in the order of insertion."""
        best = sorted(self.picked, key=lambda pair: (-pair[0], pair[1].message.position[1:]))
        return [
            LocatedMatch(target.window(self.semantic.before, self.semantic.after), score)
            for score, target in best[: self.semantic.top_k]
        ]


def _sizes(items: Iterable[IncludeItem]) -> list[tuple[str, int, int]]:
    return [(item.id, item.before, item.after) for item in items]


def _windows(items: Iterable[IncludeItem], targets: Iterable[Target]) -> list[Window]:
    found = {(target.message.thread_id, target.message.id): target for target in targets}
    return [
        found[item.thread_id, item.id].window(item.before, item.after)
        for item in items
        if (item.thread_id, item.id) in found
    ]
