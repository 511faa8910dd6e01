"""What a request costs the database: commands, documents and bytes, counted from what the driver sends and receives."""

from dataclasses import dataclass
from typing import Any

import bson
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent


@dataclass(frozen=True, slots=True)
class Traffic:
    """Commands sent, and documents and bytes of documents received."""

    commands: int
    documents: int
    bytes: int


class TrafficCounter(CommandListener):
    """Counts from `reset` on; following a change stream in the background does not count."""

    def __init__(self) -> None:
        self._followed: set[int] = set()
        self._opening: set[int] = set()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.commands = 0
        self._batches: list[list[Any]] = []

    @property
    def traffic(self) -> Traffic:
        """What was counted. Documents are encoded again to learn their size, so this takes a while."""
        sizes = [size for batch in self._batches for document in batch for size in _sizes(document)]
        return Traffic(self.commands, len(sizes), sum(sizes))

    def started(self, event: CommandStartedEvent) -> None:
        """Count a command, unless it follows a change stream."""
        if "$changeStream" in str(event.command.get("pipeline", ""))[:40]:
            self._opening.add(event.request_id)
        elif event.command.get("getMore") not in self._followed:
            self.commands += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Keep the documents of the reply."""
        cursor = event.reply.get("cursor", {})
        if event.request_id in self._opening:
            self._followed.add(cursor.get("id"))
        elif cursor.get("id") not in self._followed:
            self._batches += [cursor[name] for name in ("firstBatch", "nextBatch") if name in cursor]

    def failed(self, event: CommandFailedEvent) -> None:
        """A command that failed was counted when it was sent."""


def _sizes(document: Any) -> list[int]:
    """The size of a document, or of each document in an undecoded batch."""
    if not isinstance(document, bytes):
        return [len(bson.encode(document))]
    sizes, start = [], 0
    while start < len(document):
        sizes.append(int.from_bytes(document[start : start + 4], "little"))
        start += sizes[-1]
    return sizes
