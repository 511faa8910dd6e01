"""Reading what the filling needs, in batches: messages, the threads they belong to, the rows they already have."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import bson

from store.collections import MESSAGES, THREADS
from store.driver import Database, Document, together, translated_errors
from store.embedding.rows import NO_THREAD, ThreadFacts
from store.values import CODEC, to_text

_BATCH = 128
_REPLY = 1000
_FIELDS = {"id": 1, "thread_id": 1, "resourceId": 1, "content": 1}


class Readings:
    """Reads messages, their threads and their rows in one collection of vectors; never a vector itself.

    A batch is one reply of the server, so its memory is bounded by MongoDB's 16 MB as well as by its number of rows.
    """

    def __init__(self, database: Database, collection: str) -> None:
        self._messages = database.get_collection(MESSAGES, codec_options=CODEC)
        self._threads = database.get_collection(THREADS, codec_options=CODEC)
        self._vectors = database.get_collection(collection, codec_options=CODEC)

    async def messages(self, condition: Mapping[str, Any]) -> AsyncGenerator[list[Document], None]:
        """The messages that satisfy a condition, batch by batch; all of them in stored order. Raises Unavailable."""
        # Those of a condition are found by its index, and need no order that would have to be made.
        order = None if condition else [("_id", 1)]
        cursor = self._messages.find_raw_batches(condition, _FIELDS, sort=order, batch_size=_BATCH)
        with translated_errors():
            try:
                async for batch in cursor:
                    yield bson.decode_all(batch, CODEC)
            finally:
                await cursor.close()

    async def count(self, condition: Mapping[str, Any]) -> int:
        """How many messages there are, estimated where no condition restrains them. Raises Unavailable."""
        with translated_errors():
            if condition:
                return int(await self._messages.count_documents(condition))
            return int(await self._messages.estimated_document_count())

    async def beside(self, messages: Sequence[Document]) -> "Beside":
        """What belongs to these messages, in two commands side by side. Raises Unavailable."""
        threads = {to_text(message.get("thread_id")) for message in messages}
        ids = [message["id"] for message in messages if isinstance(message.get("id"), str)]
        wanted = {"id": 1, "resourceId": 1, "metadata": 1}
        with translated_errors():
            found = await together(
                _all(self._threads.find({"id": {"$in": sorted(threads)}}, wanted)),
                _all(self._vectors.find({"metadata.message_id": {"$in": ids}}, {"embedding": 0})),
            )
        return Beside(*found)

    async def are_there(self, keys: Iterable[object]) -> list[object]:
        """Those of MongoDB's own keys under which there are messages. Raises Unavailable."""
        wanted = list(keys)
        with translated_errors():
            found = await _all(self._messages.find({"_id": {"$in": wanted}}, {"_id": 1}))
        return [document["_id"] for document in found]


async def _all(cursor: Any) -> list[Document]:
    """Everything that a cursor of either driver gives, in replies larger than the default of 101 rows."""
    rows: list[Document] = await cursor.batch_size(_REPLY).to_list(None)
    return rows


class Beside:
    """The threads and the rows of some messages."""

    def __init__(self, threads: list[Document], rows: list[Document]) -> None:
        # Reversed: of threads that share an id, the first counts.
        self._threads = {to_text(thread.get("id")): ThreadFacts.from_document(thread) for thread in reversed(threads)}
        self._rows: dict[str, list[Document]] = {}
        for row in rows:
            # An array whose element equals an id is found as well, and names no message.
            metadata = row.get("metadata")
            if isinstance(metadata, dict) and isinstance(metadata.get("message_id"), str):
                self._rows.setdefault(metadata["message_id"], []).append(row)

    def thread(self, message: Document) -> ThreadFacts:
        """What the message's thread adds to its rows."""
        return self._threads.get(to_text(message.get("thread_id")), NO_THREAD)

    def owner(self, message: Document) -> str | None:
        """Whom the message belongs to: a message without owner to its thread's."""
        owner = message.get("resourceId")
        return self.thread(message).resource_id if owner is None else to_text(owner)

    def rows(self, message: Document) -> list[Document]:
        """The rows that name the message."""
        return self._rows.get(to_text(message.get("id")), [])
