"""Freshness: what other clients write and remove is seen by the next search, and nothing else is read anew."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from store.embedders.toy import ToyEmbedder
from store.memory import Memory
from store.paging import PageRequest
from store.recall_request import RecallRequest
from store.scope import Scope
from store.semantic import SemanticRecall
from store.semantic_search import SearchOptions, SemanticSearch
from store.vectors.cache import RowsCache
from store.vectors.watching import watch
from tests.store.vectors.test_engines import VECTORS, row
from tests.zoo import fill, message, thread

NEVER_OLD = SearchOptions(engine="exact", cache_seconds=3600)
"""Nothing is read anew because time goes by: whatever is seen was told."""


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition, which may be asynchronous, holds."""
    for _ in range(500):
        holds = condition()
        if await holds if asyncio.iscoroutine(holds) else holds:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not seen: {what}")


class Reader:
    """A memory that searches, as one process of the service has it."""

    def __init__(self, database: Any, options: SearchOptions = NEVER_OLD) -> None:
        self.search = SemanticSearch(database, ToyEmbedder(4), options)
        self.memory = Memory(database, search=self.search)
        self.cache = self.search.cache

    async def find(self, owner: str = "res-a", thread_id: str = "t1") -> str:
        """The matches for "east", best first."""
        request = RecallRequest(
            thread_id, Scope(owner), PageRequest(0, 0), search_text="east", semantic=SemanticRecall(before=0, after=0)
        )
        return " ".join(match.message.id for match in (await self.memory.recall(request)).matches)

    async def shows(self, expected: str, owner: str = "res-a", thread_id: str = "t1") -> None:
        """Wait until a search finds this."""

        async def is_found() -> bool:
            return await self.find(owner, thread_id) == expected

        await until(is_found, f"{expected!r} of {owner}")

    async def follows(self) -> None:
        """Search, and wait until changes are told; changes of nobody's vectors make that quicker."""
        await self.find()

        async def is_told() -> bool:
            if not self.cache.is_told:
                await self.memory.database[VECTORS].insert_one({"metadata": {"resource_id": "nobody"}})
            return self.cache.is_told

        await until(is_told, "the changes of the collection")

    async def ends_following(self) -> None:
        """Wait until it is known that no changes will be told."""
        following = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == "watch"]
        if following:
            await asyncio.wait(following, timeout=10)

    async def aclose(self) -> None:
        """End what runs in the background."""
        await self.search.aclose()


async def write(database: Any, *ids: str, cosine: float = 0.5) -> None:
    """Save messages of t1 and embed them."""
    await fill(database, messages=[message(id) for id in ids])
    await database[VECTORS].insert_many([row(id, cosine) for id in ids])


@pytest.fixture
async def stored(database: Any) -> Any:
    """Threads t1 of res-a and t9 of res-b, m1 and b1 in them, both embedded."""
    foreign = message("b1", "t9", resourceId="res-b")
    await fill(database, threads=[thread("t1"), thread("t9", "res-b")], messages=[foreign])
    await write(database, "m1", cosine=0.9)
    await database[VECTORS].insert_one(row("b1", 0.9, owner="res-b", thread="t9"))
    return database


@pytest.fixture
async def other_client(mongodb_uri: str, stored: Any) -> AsyncIterator[Any]:
    """The same database as another process sees it."""
    async with AsyncMongoClient[Any](mongodb_uri) as client:
        yield client[stored.name]


async def test_a_message_that_another_client_saved_is_found(stored: Any, other_client: Any) -> None:
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1"
        await write(other_client, "m2")
        await reader.shows("m1 m2")


async def test_an_owner_s_change_lets_the_others_be(stored: Any, other_client: Any) -> None:
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert [await reader.find(), await reader.find("res-b", "t9")] == ["m1", "b1"]
        both = reader.cache.nbytes
        await other_client[VECTORS].insert_one(row("m2", 0.5))
        await until(lambda: reader.cache.nbytes < both, "the new vector of res-a")
        assert 0 < reader.cache.nbytes < both


async def test_a_deleted_message_is_never_returned_though_its_vector_lives(stored: Any, other_client: Any) -> None:
    await write(other_client, "m2")
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1 m2"
        await other_client.mastra_messages.delete_one({"id": "m1"})
        assert await reader.find() == "m2"


async def test_a_vector_that_is_deleted_is_forgotten(stored: Any, other_client: Any) -> None:
    await write(other_client, "m2")
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1 m2"
        await other_client[VECTORS].delete_one({"metadata.message_id": "m1"})
        await reader.shows("m2")


async def test_a_vector_that_is_changed_is_read_anew(stored: Any, other_client: Any) -> None:
    await write(other_client, "m2")
    found, vectors = {"metadata.message_id": "m1"}, other_client[VECTORS]
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1 m2"
        await vectors.update_one(found, {"$set": {"embedding": row("m1", 0.1)["embedding"]}})
        await reader.shows("m2 m1")
        await vectors.replace_one(found, row("m1", 0.8))
        await reader.shows("m1 m2")
        await vectors.update_one(found, {"$set": {"metadata.resource_id": "res-b"}})
        await reader.shows("m2")


async def test_a_collection_that_is_dropped_and_made_anew(stored: Any, other_client: Any) -> None:
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1"
        await other_client[VECTORS].drop()
        await reader.shows("")
        await until(lambda: not reader.cache.is_told, "the end of the changes")
        await reader.follows()
        await write(other_client, "m2")
        await reader.shows("m2")


async def test_a_collection_that_does_not_exist_yet_is_followed(database: Any) -> None:
    await fill(database, threads=[thread("t1")])
    async with aclosing(Reader(database)) as reader:
        assert await reader.find() == ""
        await until(lambda: reader.cache.is_told, "the changes of the collection")
        assert await reader.find() == ""
        await write(database, "m1")
        await reader.shows("m1")


async def test_two_readers_are_both_told(stored: Any, other_client: Any) -> None:
    async with aclosing(Reader(stored)) as first, aclosing(Reader(other_client)) as second:
        for reader in (first, second):
            await reader.follows()
            assert await reader.find() == "m1"
        await write(other_client, "m2")
        for reader in (first, second):
            await reader.shows("m1 m2")


async def test_what_is_kept_is_not_read_again(stored: Any) -> None:
    """The vectors are in memory; only the messages are asked for."""
    async with aclosing(Reader(stored)) as reader:
        await reader.follows()
        assert await reader.find() == "m1"
        first = await reader.cache.get("res-a", unreachable)
        assert [await reader.find() for _ in range(3)] == ["m1"] * 3
        assert await reader.cache.get("res-a", unreachable) is first


async def unreachable() -> Any:
    """A load that must not happen."""
    raise AssertionError("the vectors are read again")


# Where there are no change streams


@pytest.fixture(scope="module")
def standalone_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that is no replica set, as many developers run it."""
    folder: Path = tmp_path_factory.mktemp("standalone")
    (folder / "server.toml").touch()
    options = ["--host", "127.0.0.1", "--port", "0", "--config", "server.toml", "--storage-path", ":memory:"]
    command = [sys.executable, "-P", "-m", "secantus", *options, "--standalone", "--log-level", "INFO"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield f"mongodb://127.0.0.1:{find_port(server, folder / 'log')}/?directConnection=true"
    finally:
        server.kill()
        server.wait()


def find_port(server: "subprocess.Popen[bytes]", log: Path) -> int:
    """The port that the server says it listens on."""
    while server.poll() is None:
        if said := re.search(r"listening on 127\.0\.0\.1:(\d+)\s", log.read_text()):
            return int(said[1])
    raise AssertionError(log.read_text())


@pytest.fixture
async def standalone(anyio_backend: str, standalone_uri: str) -> AsyncIterator[Any]:
    """An empty database of the standalone server."""
    async with AsyncMongoClient[Any](standalone_uri) as client:
        yield client.recallql_standalone
        await client.drop_database("recallql_standalone")


async def test_without_change_streams_following_ends(standalone: Any) -> None:
    cache = RowsCache(1_000_000, 5)
    await watch(standalone[VECTORS], cache)
    assert not cache.is_told


@pytest.mark.parametrize(("seconds", "expected"), [(0, "m1 m2"), (3600, "m1")])
async def test_without_change_streams_vectors_live_for_their_lifetime(
    standalone: Any, seconds: float, expected: str
) -> None:
    await fill(standalone, threads=[thread("t1")])
    await write(standalone, "m1", cosine=0.9)
    async with aclosing(Reader(standalone, SearchOptions(engine="exact", cache_seconds=seconds))) as reader:
        assert await reader.find() == "m1"
        await reader.ends_following()
        assert await reader.find() == "m1"
        await write(standalone, "m2")
        assert await reader.find() == expected
        await standalone.mastra_messages.delete_one({"id": "m1"})
        assert "m1" not in await reader.find()
