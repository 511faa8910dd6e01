"""What the tests of filling share: rows as they stand, an embedder that tells what it was asked, one that breaks."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pymongo.monitoring import CommandListener, CommandStartedEvent

from store.embedders.protocol import Embeddings
from store.embedders.toy import ToyEmbedder
from store.errors import EmbedderFailed
from tests import zoo

VECTORS = "memory_messages_64"


class HeardEmbedder(ToyEmbedder):
    """Keeps the texts that it was asked for, call by call."""

    def __init__(self, dimensions: int = 64) -> None:
        super().__init__(dimensions)
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors, after a pause in which other calls can begin."""
        self.calls.append(list(texts))
        await asyncio.sleep(0)
        return await super().embed(texts)

    @property
    def texts(self) -> list[str]:
        """All texts asked for, in their order."""
        return [text for call in self.calls for text in call]


class RenamedEmbedder(HeardEmbedder):
    """The same vectors under another model's name."""

    model = "another-model"


class BreakingEmbedder(HeardEmbedder):
    """Fails for good after so many calls, or for every text with a certain word in it."""

    def __init__(self, calls: int = 1_000_000, refused: str = "\0") -> None:
        super().__init__()
        self.calls_left = calls
        self.refused = refused

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors, or a failure."""
        self.calls_left -= 1
        if self.calls_left < 0:
            raise EmbedderFailed("The embedding service answered with status 503.")
        if any(self.refused in text for text in texts):
            raise EmbedderFailed("The embedding service answered with status 413.")
        return await super().embed(texts)


async def stored(database: Any, collection: str = VECTORS) -> list[dict[str, Any]]:
    """All rows of a collection of vectors, ordered by message and piece."""
    rows: list[dict[str, Any]] = await database[collection].find().to_list(None)
    return sorted(rows, key=lambda row: (row["metadata"]["message_id"], row.get("source", {}).get("piece", -1)))


async def texts_of(database: Any) -> dict[str, int]:
    """How many rows each message has."""
    ids = [row["metadata"]["message_id"] for row in await stored(database)]
    return {id: ids.count(id) for id in ids}


def long_text(sentences: int) -> str:
    """A text of so many different sentences, about 60 letters each."""
    return " ".join(f"This is sentence number {number} of a rather long message indeed." for number in range(sentences))


async def say(database: Any, id: str, text: str) -> None:
    """Change the text of a message."""
    await database.mastra_messages.update_one({"id": id}, {"$set": {"content": zoo.message(id, text=text)["content"]}})


class Commands(CommandListener):
    """The names of the commands that a client sends."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...
