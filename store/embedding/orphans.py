"""Rows whose message is gone: found by the message's own key, and removed where this product wrote them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import bson

from store.collections import MESSAGES
from store.driver import Database, translated_errors
from store.values import CODEC

_BATCH = 200


class Orphans:
    """Looks through one collection of vectors for rows of ours that have outlived their message."""

    def __init__(self, database: Database, collection: str) -> None:
        self._messages = database.get_collection(MESSAGES, codec_options=CODEC)
        self._vectors = database.get_collection(collection, codec_options=CODEC)

    async def sweep(self, resource_id: str | None = None, *, dry_run: bool = False) -> int:
        """Remove all orphans, or those of one owner, and give their number; `dry_run` only counts them.

        Where there are no messages at all nothing is removed: the collection is more likely being restored than
        meant to be empty. Raises Unavailable.
        """
        with translated_errors():
            if await self._messages.find_one({}, {"_id": 1}) is None:
                return 0
        owner = {} if resource_id is None else {"metadata.resource_id": resource_id}
        removed = 0
        async with aclosing(self._keys(owner)) as batches:
            async for keys in batches:
                removed += await self.remove(keys, dry_run=dry_run)
        return removed

    async def remove(self, keys: Sequence[object], *, dry_run: bool = False) -> int:
        """Remove the rows made from messages under these keys, as far as the messages are gone; give their number.

        A message that was written anew has another key and its old id, and keeps its rows. Raises Unavailable.
        """
        with translated_errors():
            there = (
                await self._messages.find({"_id": {"$in": list(keys)}}, {"_id": 1}).batch_size(_BATCH + 1).to_list(None)
            )
            alive = {_hashable(message["_id"]) for message in there}
            gone = [key for key in keys if _hashable(key) not in alive]
            orphans = await self._without_message(gone) if gone else []
            if orphans and not dry_run:
                await self._vectors.delete_many({"_id": {"$in": orphans}})
        return len(orphans)

    async def _without_message(self, keys: list[object]) -> list[object]:
        rows = await self._vectors.find({"source.key": {"$in": keys}}, {"metadata.message_id": 1}).to_list(None)
        ids = {row["_id"]: row["metadata"]["message_id"] for row in rows}
        there = await self._messages.find({"id": {"$in": list(set(ids.values()))}}, {"id": 1}).to_list(None)
        alive = {message["id"] for message in there}
        return [key for key, message_id in ids.items() if message_id not in alive]

    async def _keys(self, condition: Mapping[str, Any]) -> AsyncGenerator[list[object], None]:
        """The keys of the messages that rows of ours were made from, each once, read from the index alone."""
        cursor = self._vectors.find({"source.key": {"$exists": True}, **condition}, {"_id": 0, "source.key": 1})
        keys: list[object] = []
        with translated_errors():
            try:
                async for row in cursor.sort("source.key", 1).batch_size(_BATCH):
                    key = row["source"]["key"]
                    if len(keys) == _BATCH and key != keys[-1]:
                        yield keys
                        keys = []
                    if not keys or key != keys[-1]:
                        keys.append(key)
            finally:
                await cursor.close()
            if keys:
                yield keys


def _hashable(key: object) -> bytes:
    """A key of any kind, documents too, as something that a set can hold."""
    return bson.encode({"": key})
