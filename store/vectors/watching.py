"""Following a collection of vectors by change stream, so that what is in memory never grows old."""

import asyncio
import inspect
import logging
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError

from store.driver import NO_CHANGE_STREAMS, Collection, Document
from store.vectors.cache import RowsCache

log = logging.getLogger("recallql.store")

_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
_PIPELINE = [{"$project": {"operationType": 1, "fullDocument.metadata.resource_id": 1}}]


async def watch(collection: Collection, cache: RowsCache) -> None:
    """Tell the cache of every change, until cancelled; return where the server has no change streams.

    After an interruption everything is forgotten, since changes may have been missed.
    """
    wait = _RETRY_SECONDS
    while True:
        try:
            await _follow(collection, cache)
        except OperationFailure as error:
            if error.code in NO_CHANGE_STREAMS:
                log.info("%s: no change streams here; vectors are kept for %s s", collection.name, cache.lifetime)
                return
            log.warning("%s: the change stream ended: %s", collection.name, error)
        except PyMongoError as error:
            log.warning("%s: the change stream ended: %s", collection.name, type(error).__name__)
        finally:
            # Whoever was told at last begins anew with the shortest wait.
            wait = _RETRY_SECONDS if cache.is_told else min(2 * wait, _LONGEST_RETRY_SECONDS)
            if cache.is_told:
                cache.is_told = False
                cache.forget_all()
        await asyncio.sleep(wait)


async def _follow(collection: Collection, cache: RowsCache) -> None:
    opened = collection.watch(_PIPELINE, full_document="updateLookup")
    stream: Any = await opened if inspect.isawaitable(opened) else opened
    async with stream:
        # The first look opens the cursor of a stream that opens late; what changed before it was not seen.
        await stream.try_next()
        cache.forget_all()
        cache.is_told = True
        async for change in stream:
            _tell(cache, change)


def _tell(cache: RowsCache, change: Document) -> None:
    """A written row names its owner; a removed one names nobody."""
    document = change.get("fullDocument") or {}
    owner = (document.get("metadata") or {}).get("resource_id")
    if change["operationType"] == "insert" and isinstance(owner, str):
        cache.forget(owner)
    else:
        cache.forget_all()
