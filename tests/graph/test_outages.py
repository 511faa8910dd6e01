"""A database that is away: an error with a code, never an empty list, and everything as before when it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from tests.zoo import ask_recall, fill, ids, recall, serving, ten_messages

QUERIES = [
    '{ recall(threadId: "t-new", resourceId: "res-a", perPage: 20) { messages { id } total hasMore } }',
    '{ recall(threadId: "t-new", perPage: 0, include: [{id: "m1"}]) { messages { id } } }',
    '{ recall(threadId: "t-new") { total } }',
    "{ threads { threads { id } total } }",
    '{ threads(filter: {metadata: {k: "v"}}) { threads { id } hasMore } }',
    '{ thread(id: "t-new") { id } }',
    '{ message(id: "m-new") { id } }',
    '{ resource(id: "res-a") { id } }',
]


class Door:
    """Stands before the database on a port of its own: while it is shut, nobody answers there."""

    def __init__(self, uri: str) -> None:
        host, port = uri.removeprefix("mongodb://").split("/")[0].split("@")[-1].split(":")
        self.target = (host, int(port))
        self.port = 0
        self.server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self.server = await asyncio.start_server(self._let_through, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        if self.server is not None:
            self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _let_through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        inner_reader, inner_writer = await asyncio.open_connection(*self.target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, inner_writer))
                group.create_task(_copy(inner_reader, writer))
        except asyncio.CancelledError:
            pass
        finally:
            self.tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def connected(uri: str) -> AsyncIterator[Any]:
    """A database at this address; a client that cannot even be closed any more fails the test."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, serverSelectionTimeoutMS=500)
    try:
        yield client["recallql_test_outages"]
    finally:
        async with asyncio.timeout(10):
            await client.close()


@pytest.mark.parametrize("query", QUERIES)
async def test_r8_a_database_that_is_down_is_never_an_empty_list(query: str) -> None:
    """Nothing listens on port 1."""
    async with connected("mongodb://127.0.0.1:1") as database, serving(database, database_timeout=2) as client:
        answer = await client.ask(query)
    assert answer.code == "UNAVAILABLE"
    assert not any((answer.body.get("data") or {}).values())
    assert "127.0.0.1" not in str(answer.body)


@pytest.mark.parametrize("database_timeout", [0.3, 0.5, 2])
async def test_r8_the_same_service_answers_again_after_an_outage(mongodb_uri: str, database_timeout: float) -> None:
    """Before, during and after; whichever of the driver's patience and ours ends first."""
    door = Door(mongodb_uri)
    await door.open()
    uri = f"mongodb://127.0.0.1:{door.port}/?directConnection=true"
    async with connected(uri) as database, serving(database, database_timeout=database_timeout) as client:
        await fill(database, messages=ten_messages())
        before = await recall(client, resourceId="res-a", threadId="t-new")
        await door.shut()
        during = [await ask_recall(client, threadId="t1", resourceId="res-a") for _ in range(2)]
        during += await asyncio.gather(*(ask_recall(client, threadId="t1") for _ in range(5)))
        await door.open()
        after = await until_available(client)
        await database.client.drop_database(database.name)
    await door.shut()
    assert before["messages"] == []
    assert {answer.code for answer in during} == {"UNAVAILABLE"}
    assert ids(after["messages"]) == "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1"


async def until_available(client: Any) -> dict[str, Any]:
    """The driver looks for its server every half a second; it has found it again well within ten attempts."""
    for _ in range(10):
        answer = await ask_recall(client, threadId="t1")
        if "errors" not in answer.body:
            break
        await asyncio.sleep(0.3)
    found: dict[str, Any] = answer.data["recall"]
    return found
