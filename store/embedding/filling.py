"""Filling the collection of vectors of an embedder: every message that has text gets the vectors of its pieces.

A row's `_id` follows from its message and piece, and a row says what its vector was made from. So a run writes what
is missing and nothing else, may be broken off anywhere, and the next one goes on where it stopped.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import pymongo.errors

from store.driver import Database, Document
from store.embedders.protocol import Embedder
from store.embedding.drafting import Drafting
from store.embedding.orphans import Orphans
from store.embedding.planning import Plan, State
from store.embedding.reading import Readings
from store.embedding.refusals import embed_willing
from store.embedding.report import FillFailed, FillReport
from store.embedding.rows import Piece
from store.embedding.writing import Rows
from store.errors import StoreError
from store.vectors.collections import collection_name

log = logging.getLogger("recallql.store")

BATCH_SIZE = 64
"""Pieces in one call of the embedder, and rows in one command that writes."""
_IN_FLIGHT = 4

Progress = Callable[[int, int], None]
"""Told how many messages are done, and of how many; the second number is an estimate until the end."""
Batches = AsyncGenerator[list[Document], None]
_Job = tuple[Plan, Piece]


def no_progress(done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class FillOptions:
    """What a run is to do; see `fill`."""

    resource_id: str | None = None
    dry_run: bool = False
    replace_foreign: bool = False
    batch_size: int = BATCH_SIZE


async def fill(
    database: Database,
    embedder: Embedder,
    *,
    resource_id: str | None = None,
    dry_run: bool = False,
    replace_foreign: bool = False,
    batch_size: int = BATCH_SIZE,
    progress: Progress = no_progress,
) -> FillReport:
    """Give every message that has text the vectors of its text, in the collection of the embedder's dimensions.

    Embedded is what has no vectors, whose text changed, or whose vectors another model made. Rows of ours are
    removed when their text, their message or their part of the text is gone. Rows of Mastra and other programs
    count as present; with `replace_foreign` they are removed once ours are written. With `resource_id` only messages
    of that owner are looked at; a message without owner belongs to its thread's. `dry_run` writes nothing, and
    embeds nothing but one word where only that tells the dimensions. No other collection is written to.

    Memory is bounded whatever the sizes. Raises FillFailed when the embedder or the database fails: what is written
    stays, and its `report` tells how much that is.
    """
    options = FillOptions(resource_id, dry_run, replace_foreign, batch_size)
    return await Filling(database, embedder, await find_dimensions(embedder), options, progress).fill_all()


async def find_dimensions(embedder: Embedder) -> int:
    """How many numbers the embedder's vectors have, if need be by embedding one word. Raises FillFailed."""
    if embedder.dimensions is not None:
        return embedder.dimensions
    try:
        return int((await embedder.embed(["dimensions"])).vectors.shape[1])
    except StoreError as error:
        raise FillFailed(str(error), FillReport()) from error


class Filling:
    """One run, over all messages or over those that changed. An object runs once."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        dimensions: int,
        options: FillOptions = FillOptions(),
        progress: Progress = no_progress,
    ) -> None:
        name = collection_name(dimensions)
        self.report = FillReport()
        self._embedder = embedder
        self._options = options
        self._progress = progress
        self._readings = Readings(database, name)
        self._drafting = Drafting(
            database,
            name,
            embedder.model,
            resource_id=options.resource_id,
            replace_foreign=options.replace_foreign,
        )
        self._rows = Rows(database, name)
        self._orphans = Orphans(database, name)
        self._done = 0
        self._total = 0
        self._places = asyncio.Semaphore(_IN_FLIGHT)
        self._pieces_left: dict[Plan, int] = {}
        self._refused: set[Plan] = set()
        self._failure: Exception | None = None

    async def fill_all(self, *, sweep: bool = True) -> FillReport:
        """Look at all messages, or all of the owner's, and unless `sweep` is off at all rows. Raises FillFailed."""
        options = self._options
        # A message without owner may be the owner's: its thread tells.
        condition = {} if options.resource_id is None else {"resourceId": {"$in": [options.resource_id, None]}}
        with self._failing_with_report():
            self._total = await self._readings.count(condition)
            if not options.dry_run:
                await self._rows.ensure_indexes()
            await self._process(self._readings.messages(condition))
            if sweep:
                self._add(removed=await self._orphans.sweep(options.resource_id, dry_run=options.dry_run))
        self._total = self._done
        self._tell()
        return self.report

    async def fill_changed(self, keys: Sequence[object]) -> FillReport:
        """Look at the messages under these keys of MongoDB's own, which may be gone. Raises FillFailed."""
        with self._failing_with_report():
            await self._process(self._readings.messages({"_id": {"$in": list(keys)}}))
            self._add(removed=await self._orphans.remove(keys))
        return self.report

    @contextmanager
    def _failing_with_report(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise FillFailed(str(error), self.report) from error
        except pymongo.errors.OperationFailure as error:
            raise FillFailed(f"The database refuses: {error}.", self.report) from error

    async def _process(self, batches: Batches) -> None:
        """Plan the messages and embed their pieces, several calls at a time.

        After a failure nothing new is begun, but what is under way is written: it may have been paid for.
        """
        async with asyncio.TaskGroup() as calls:
            try:
                async with aclosing(self._jobs(batches)) as work:
                    async for jobs in work:
                        await self._places.acquire()
                        if self._failure is not None:
                            break
                        calls.create_task(self._embed(jobs))
            except Exception as error:
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure

    async def _jobs(self, batches: Batches) -> AsyncGenerator[list[_Job], None]:
        """What is to be embedded, in portions of the size of a call."""
        size = self._options.batch_size
        waiting: list[_Job] = []
        async with aclosing(batches):
            async for messages in batches:
                waiting += await self._plan(messages)
                while len(waiting) >= size:
                    yield waiting[:size]
                    del waiting[:size]
        if waiting:
            yield waiting

    async def _plan(self, messages: Sequence[Document]) -> list[_Job]:
        """Do what needs no embedder for a batch of messages, and give what does."""
        draft = await self._drafting.draft(messages)
        waiting = [plan for plan in draft.plans if plan.pieces]
        blank = sum(plan.state is State.BLANK for plan in draft.plans)
        self._add(
            seen=draft.seen,
            skipped=blank + draft.seen - len(draft.plans),
            unchanged=len(draft.plans) - blank - len(waiting),
        )
        self._done += len(messages) - len(waiting)
        self._pieces_left |= {plan: len(plan.pieces) for plan in waiting}
        if self._options.dry_run:
            self._pretend(draft.plans)
            return []
        corrections = [piece for plan in draft.plans for piece in plan.corrections]
        surplus = [row for plan in draft.plans if not plan.pieces for row in plan.surplus]
        self._add(removed=await self._rows.amend(corrections, surplus), corrected=len(corrections))
        self._tell()
        return [(plan, piece) for plan in waiting for piece in plan.pieces]

    def _pretend(self, plans: Sequence[Plan]) -> None:
        """Count what a run that writes would do."""
        for plan in plans:
            self._add(pieces=len(plan.pieces), corrected=len(plan.corrections), removed=len(plan.surplus))
            if plan.pieces:
                self._close(plan)
        self._tell()

    async def _embed(self, jobs: Sequence[_Job]) -> None:
        try:
            answer = await embed_willing(self._embedder, [piece.text for _, piece in jobs])
            answered = list(zip(jobs, answer.vectors, strict=True))
            written = [(piece, vector) for (_, piece), vector in answered if vector is not None]
            self._add(pieces=await self._rows.write(written), tokens=answer.tokens)
            refused = {piece for (_, piece), vector in answered if vector is None}
            self._add(removed=await self._rows.amend([], self._finish(jobs, refused)))
            self._tell()
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._places.release()

    def _finish(self, jobs: Sequence[_Job], refused: set[Piece]) -> list[str]:
        """Note what was written, and give the rows that have had their day."""
        removable: list[str] = []
        for plan, piece in jobs:
            if piece in refused:
                log.warning("Message %s holds text that the embedder refuses.", plan.message_id)
                self._refused.add(plan)
                removable.append(piece.row_id)
            self._pieces_left[plan] -= 1
            if not self._pieces_left[plan]:
                removable += self._close(plan)
        return removable

    def _close(self, plan: Plan) -> Sequence[str]:
        """All pieces of a message are through. Rows of others give way only when ours are complete."""
        del self._pieces_left[plan]
        self._done += 1
        if plan in self._refused:
            self._refused.remove(plan)
            self._add(refused=1)
            return ()
        self._add(embedded=1)
        return plan.surplus

    def _add(self, **counts: int | None) -> None:
        self.report = self.report.plus(**counts)

    def _tell(self) -> None:
        self._progress(self._done, max(self._done, self._total))
