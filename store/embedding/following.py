"""Keeping vectors up to date while messages are written: by change stream, or by looking again and again."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NoReturn

import pymongo.errors

from store.collections import MESSAGES
from store.driver import NO_CHANGE_STREAMS, Database, Document
from store.embedders.protocol import Embedder
from store.embedding.changes import Changes, open_changes
from store.embedding.filling import BATCH_SIZE, Filling, FillOptions, Progress, find_dimensions, no_progress
from store.embedding.report import FillFailed, FillReport
from store.errors import StoreError

log = logging.getLogger("recallql.store")

POLL_SECONDS = 30.0
_LEAST_REST = 9
"""A run that looks at everything rests this many times as long as it took: a tenth of the load at most."""
_SETTLING_SECONDS = 1.0
_LONGEST_WAIT = 60.0

OnChange = Callable[[FillReport], None]


async def follow(
    database: Database,
    embedder: Embedder,
    *,
    on_change: OnChange = lambda report: None,
    progress: Progress = no_progress,
    poll_seconds: float = POLL_SECONDS,
    batch_size: int = BATCH_SIZE,
) -> NoReturn:
    """Fill the collection of vectors as `fill` does, and then keep it up to date until cancelled.

    `progress` is that of the first run, and `on_change` is told its report; afterwards it is told of every group of
    changes that had an effect. A written message is embedded about a second later, the vectors of a deleted one are
    removed, and changes during an interruption are caught up with. A server without change streams is asked every
    `poll_seconds`, more rarely when looking takes long. What changes in a thread reaches its vectors with the next
    run that looks at everything.

    Raises FillFailed as long as the first run has not succeeded; later failures of the embedder or the database are
    logged, and tried again after a while.
    """
    options = FillOptions(batch_size=batch_size)
    following = _Following(database, embedder, await find_dimensions(embedder), options, on_change, poll_seconds)
    await following.run(progress)


class _Following:
    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        dimensions: int,
        options: FillOptions,
        on_change: OnChange,
        poll_seconds: float,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._dimensions = dimensions
        self._options = options
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._progress: Progress = no_progress
        self._is_filled = False
        self._is_emptied = False
        self._failures = 0
        self._token: Document | None = None

    async def run(self, progress: Progress) -> NoReturn:
        self._progress = progress
        while True:
            try:
                await self._follow()
            except (FillFailed, StoreError, pymongo.errors.OperationFailure) as error:
                if not self._is_filled and isinstance(error, pymongo.errors.OperationFailure):
                    raise FillFailed(f"The database refuses to tell of changes: {error}.", FillReport()) from error
                if not self._is_filled:
                    raise
                wait = min(_LONGEST_WAIT, 2.0**self._failures)
                self._failures += 1
                log.warning("Following messages was interrupted, and goes on in %g s: %s", wait, error)
                await asyncio.sleep(wait)

    async def _follow(self) -> None:
        """Follow one change stream until it ends; for ever where there are none."""
        try:
            async with open_changes(self._database[MESSAGES], after=self._token) as changes:
                await self._apply(changes)
        except pymongo.errors.OperationFailure as error:
            # Also when the place is no longer in the server's log: then everything is looked at again.
            self._token = None
            if error.code not in NO_CHANGE_STREAMS:
                raise
            log.info("No change streams here: looking for changes every %g s.", self._poll_seconds)
            await self._poll()
        # Dropped or renamed, perhaps to be restored: what is written from now on counts, what is missing does not.
        self._token = None
        self._is_emptied = True
        await asyncio.sleep(_SETTLING_SECONDS)

    async def _apply(self, changes: Changes) -> None:
        if self._token is None:
            await self._fill()
        while changes.is_alive:
            keys = await changes.gather()
            if keys:
                self._tell(await self._filling().fill_changed(keys))
            # Only now: what failed is told again by a stream that is opened after the last token.
            self._token = changes.token
            self._failures = 0

    async def _poll(self) -> NoReturn:
        while True:
            started = time.monotonic()
            await self._fill()
            await asyncio.sleep(max(self._poll_seconds, _LEAST_REST * (time.monotonic() - started)))

    async def _fill(self) -> None:
        report = await self._filling().fill_all(sweep=not self._is_emptied)
        self._is_emptied = False
        if self._is_filled:
            self._tell(report)
        else:
            self._on_change(report)
        self._is_filled = True
        self._failures = 0
        self._progress = no_progress

    def _filling(self) -> Filling:
        return Filling(self._database, self._embedder, self._dimensions, self._options, self._progress)

    def _tell(self, report: FillReport) -> None:
        if report.has_effect:
            self._on_change(report)
