"""What the collections of vectors hold, and what is wrong with it: the share of vectors in a diagnosis."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from struct import unpack_from

import numpy as np

from store.collections import MESSAGES
from store.driver import Database, open_raw_batches, translated_errors
from store.embedding.drafting import Drafting
from store.embedding.filling import Progress, no_progress
from store.embedding.planning import State
from store.embedding.reading import Readings
from store.vectors.batch import VectorBatch
from store.vectors.collections import VectorCollection, collection_name, find_collections
from store.vectors.decoding import decode_batch

_LONGEST_VECTOR = 100_000
_FEW = 0.01
_REPLY_SECONDS = 60.0
_NO_DESCRIPTION = {"_id": {"$ne": "__index_metadata__"}}
_FIELDS = {"embedding": 1, "metadata.message_id": 1}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the messages with text stand in a collection: numbers of messages.

    `missing` have no vectors, the vectors of `stale` are of an older text or another model or incomplete, those of
    `foreign` were written by another program, which alone knows what they were made from.
    """

    missing: int
    stale: int
    foreign: int
    current: int


@dataclass(frozen=True, slots=True)
class CollectionInventory:
    """What one collection holds: numbers of rows.

    Of the `vectors`, `orphaned` belong to a message that is gone, `wrong_length` have not as many numbers as the
    collection's name says, `directionless` are zero or hold NaN. Rows that hold no numbers, or name no message, are
    `unreadable`; none of these four kinds is ever found by a recall. `coverage` is None where the messages were not
    compared with this collection.
    """

    name: str
    dimensions: int
    vectors: int = 0
    orphaned: int = 0
    wrong_length: int = 0
    directionless: int = 0
    unreadable: int = 0
    coverage: Coverage | None = None

    @property
    def problems(self) -> list[str]:
        """What is wrong, in sentences that each say what to do."""
        coverage = self.coverage or Coverage(0, 0, 0, 0)
        # Texts without words have such vectors by right; many of them mean that an embedder went wrong.
        directionless = self.directionless if self.directionless > self.vectors * _FEW else 0
        sentences = {
            "messages with text have no vectors; run: recallql embed": coverage.missing,
            "messages have vectors of an older text or another model; run: recallql embed": coverage.stale,
            "vectors belong to messages that are gone; recallql embed removes those that it wrote": self.orphaned,
            f"vectors have not {self.dimensions} numbers and are never found; remove them": self.wrong_length,
            "vectors are zero or hold NaN and are never found; remove them, then run: recallql embed": directionless,
            "rows hold no vector, or name no message, and are never found; remove them": self.unreadable,
        }
        return [f"{self.name}: {number} {sentence}" for sentence, number in sentences.items() if number]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The number of messages, estimated, and every collection of vectors."""

    messages: int
    collections: Sequence[CollectionInventory]

    @property
    def problems(self) -> list[str]:
        """What is wrong in all the collections."""
        return [problem for collection in self.collections for problem in collection.problems]


async def take_inventory(
    database: Database,
    *,
    dimensions: int | None = None,
    model: str | None = None,
    progress: Progress = no_progress,
) -> Inventory:
    """Count what every collection of vectors holds. Nothing is written.

    The messages are compared with the collection of `dimensions`, which need not be there yet, or with every one
    when it is None; `model` None accepts the vectors of any model. Everything is read once, in batches; `progress`
    is told how many messages and rows are done, and of how many. Raises Unavailable.
    """
    found = [collection for collection in await find_collections(database) if _is_sensible(collection)]
    if dimensions is not None and all(collection.dimensions != dimensions for collection in found):
        found.append(VectorCollection(collection_name(dimensions), dimensions))
    compared = [collection for collection in found if dimensions in (None, collection.dimensions)]
    counting = await _Counting.over(database, found, progress)
    coverages = await counting.compare(compared, model)
    counted = [await counting.count(collection, coverages.get(collection)) for collection in found]
    return Inventory(counting.messages, counted)


class _Counting:
    """Reads messages and rows, and tells how far it has come."""

    def __init__(self, database: Database, messages: int, rows: int, progress: Progress) -> None:
        self.messages = messages
        self._database = database
        self._total = messages + rows
        self._done = 0
        self._progress = progress

    @classmethod
    async def over(cls, database: Database, collections: Sequence[VectorCollection], progress: Progress) -> "_Counting":
        names = [MESSAGES, *(collection.name for collection in collections)]
        with translated_errors():
            messages, *rows = [await database[name].estimated_document_count() for name in names]
        return cls(database, messages, sum(rows), progress)

    async def compare(
        self, collections: Sequence[VectorCollection], model: str | None
    ) -> dict[VectorCollection, Coverage]:
        """Compare the text of every message with the rows in these collections."""
        if not collections:
            return {}
        states: dict[VectorCollection, Counter[State]] = {collection: Counter() for collection in collections}
        draftings = {collection: Drafting(self._database, collection.name, model) for collection in collections}
        async with aclosing(Readings(self._database, collections[0].name).messages({})) as batches:
            async for messages in batches:
                for collection, drafting in draftings.items():
                    draft = await drafting.draft(messages)
                    states[collection].update(plan.state for plan in draft.plans)
                self._advance(len(messages))
        return {collection: _to_coverage(counted) for collection, counted in states.items()}

    async def count(self, collection: VectorCollection, coverage: Coverage | None) -> CollectionInventory:
        """Look at every row of a collection."""
        counted: Counter[str] = Counter()
        with translated_errors():
            async for data, rows in self._rows(collection):
                batch = await asyncio.to_thread(decode_batch, data, collection.dimensions)
                others = sum(batch.other_lengths.values())
                counted["vectors"] += len(batch.message_ids) + others
                counted["wrong_length"] += others
                counted["unreadable"] += rows - len(batch.message_ids) - others
                counted["directionless"] += _directionless(batch)
                counted["orphaned"] += await self._orphaned(batch)
                self._advance(rows)
        return CollectionInventory(collection.name, collection.dimensions, coverage=coverage, **counted)

    async def _rows(self, collection: VectorCollection) -> AsyncIterator[tuple[bytes, int]]:
        async for data in open_raw_batches(
            self._database[collection.name], _NO_DESCRIPTION, _FIELDS, timeout=_REPLY_SECONDS
        ):
            yield data, _documents_in(data)

    async def _orphaned(self, batch: VectorBatch) -> int:
        ids = list(set(batch.message_ids))
        there = await self._database[MESSAGES].find({"id": {"$in": ids}}, {"_id": 0, "id": 1}).to_list(None)
        alive = {message["id"] for message in there}
        return sum(message_id not in alive for message_id in batch.message_ids)

    def _advance(self, count: int) -> None:
        self._done += count
        self._progress(self._done, max(self._done, self._total))


def _is_sensible(collection: VectorCollection) -> bool:
    return 0 < collection.dimensions <= _LONGEST_VECTOR


def _to_coverage(states: Counter[State]) -> Coverage:
    return Coverage(states[State.MISSING], states[State.STALE], states[State.FOREIGN], states[State.CURRENT])


def _directionless(batch: VectorBatch) -> int:
    # In float64: the squares of small numbers vanish in float32.
    squares = np.einsum("ij,ij->i", batch.vectors, batch.vectors, dtype=np.float64)
    return int(np.count_nonzero(~(np.isfinite(squares) & (squares > 0))))


def _documents_in(data: bytes) -> int:
    """How many documents a batch holds: each begins with its size."""
    count = start = 0
    while start < len(data):
        start += unpack_from("<i", data, start)[0]
        count += 1
    return count
