"""The server itself, as a process over a real database: how it ends, and clients that are slow."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import AsyncMongoClient
from starlette.responses import Response
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.graph.process import RECALLQL, ServerProcess, environment, running
from tests.store.embedders.service import proper_reply, running_service
from tests.zoo import fill, message, thread

PATIENCE = 15
"""Seconds after which what should happen has not happened."""
ENDED = (0, -signal.SIGTERM)
"""Exit codes of a process that ended in its own way: uvicorn passes the signal on once it has shut down."""
THREADS = "{ threads { total } }"
SEARCHING = '{ recall(threadId: "t1", vectorSearchString: "x") { total matches { rank } } }'
EVERYTHING = '{ recall(threadId: "t1", perPage: false) { messages { id text } } }'


@dataclass
class Slow:
    """A server whose searches begin, and end when they are let go."""

    server: ServerProcess
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    is_let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def search(self) -> httpx.Response:
        """The answer to a search."""
        return await ask(self.server, SEARCHING)

    async def embed(self, body: dict[str, Any]) -> Response:
        """What the embedding service does meanwhile."""
        self.has_begun.set()
        await self.is_let_go.wait()
        return await proper_reply(body)


@pytest.fixture(scope="module")
async def filled(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Any]:
    """A thread with a thousand long messages: sixteen megabytes."""
    rows = [message(f"m{number}", "t1", number, text="x" * 16_000) for number in range(1000)]
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri) as client:
        database = client["recallql_serving"]
        await client.drop_database(database.name)
        await fill(database, threads=[thread("t1")], messages=rows)
        yield database
        await client.drop_database(database.name)


@asynccontextmanager
async def slow(folder: Path, uri: str, database: Any, **settings: object) -> AsyncIterator[Slow]:
    """A server in a process of its own whose first search takes as long as the test pleases."""
    async with running_service() as service:
        embedder = {"embedder": "openai", "embedder_url": service.base_url, "embedder_model": "x"}
        own = {"mongodb_uri": uri, "database": database.name, "semantic_recall": "true"}
        with running(folder, **own, **embedder, **settings) as server:
            made = Slow(server)
            service.will(made.embed)
            try:
                yield made
            finally:
                made.is_let_go.set()


async def ask(server: ServerProcess, query: str) -> httpx.Response:
    """The answer to a query, over a connection of its own."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(f"{server.base}/graphql", json={"query": query})


async def closed(server: ServerProcess) -> None:
    """Wait until the server takes no more connections."""
    while True:
        try:
            await ask(server, THREADS)
        except httpx.TransportError:
            return
        await asyncio.sleep(0.05)


async def ended(server: ServerProcess) -> int:
    """The exit code of a process that is about to end."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.to_thread(server.process.wait)


# The start of a server


def test_a_port_that_the_system_chose_is_told(tmp_path: Path, mongodb_uri: str) -> None:
    said = tmp_path / "said"
    settings = environment(mongodb_uri=mongodb_uri, port=0)
    with said.open("wb") as output, subprocess.Popen([RECALLQL, "serve"], env=settings, stdout=output) as process:
        try:
            base = wait_until_told(said)
            assert httpx.get(f"{base}/health").status_code == 200
        finally:
            process.terminate()


def wait_until_told(said: Path) -> str:
    """The address that a server tells once it can be reached."""
    for _ in range(600):
        if told := re.search(r"serves (http://127\.0\.0\.1:[1-9]\d*)/graphql", said.read_text()):
            return told[1]
        time.sleep(0.1)
    raise AssertionError(said.read_text())


# The end of a server


async def test_a_running_request_is_finished_before_the_server_ends(
    tmp_path: Path, mongodb_uri: str, filled: Any
) -> None:
    async with slow(tmp_path, mongodb_uri, filled) as made, asyncio.timeout(PATIENCE):
        searching = asyncio.create_task(made.search())
        await made.has_begun.wait()
        made.server.process.send_signal(signal.SIGTERM)
        await closed(made.server)
        assert not searching.done()
        made.is_let_go.set()
        assert (await searching).json() == {"data": {"recall": {"total": 1000, "matches": []}}}
        assert await ended(made.server) in ENDED
    assert "Traceback" not in made.server.said


async def test_a_request_without_end_does_not_keep_the_server_alive(
    tmp_path: Path, mongodb_uri: str, filled: Any
) -> None:
    async with slow(tmp_path, mongodb_uri, filled, request_timeout=1) as made, asyncio.timeout(PATIENCE):
        searching = asyncio.create_task(made.search())
        await made.has_begun.wait()
        made.server.process.send_signal(signal.SIGTERM)
        await asyncio.wait([searching])
        assert await ended(made.server) in ENDED


@asynccontextmanager
async def introduced(server: ServerProcess) -> AsyncIterator[ClientConnection]:
    """A WebSocket whose client has introduced itself."""
    url = server.base.replace("http", "ws") + "/graphql"
    async with connect(url, subprotocols=[Subprotocol("graphql-transport-ws")], proxy=None) as websocket:
        await websocket.send(json.dumps({"type": "connection_init"}))
        assert json.loads(await websocket.recv())["type"] == "connection_ack"
        yield websocket


async def test_an_open_websocket_does_not_keep_the_server_alive(tmp_path: Path, mongodb_uri: str, filled: Any) -> None:
    own = {"mongodb_uri": mongodb_uri, "database": filled.name}
    with running(tmp_path, **own) as server:
        async with introduced(server), asyncio.timeout(PATIENCE):
            server.process.send_signal(signal.SIGTERM)
            assert await ended(server) in ENDED


# Slow clients


async def test_a_search_over_websocket_has_no_more_time_than_over_http(
    tmp_path: Path, mongodb_uri: str, filled: Any
) -> None:
    search = {"id": "1", "type": "subscribe", "payload": {"query": SEARCHING}}
    async with (
        slow(tmp_path, mongodb_uri, filled, request_timeout=0.5) as made,
        introduced(made.server) as websocket,
        asyncio.timeout(PATIENCE),
    ):
        await websocket.send(json.dumps(search))
        answer = json.loads(await websocket.recv())
    assert "LIMIT_EXCEEDED" in json.dumps(answer)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, mongodb_uri: str, filled: Any) -> Iterator[ServerProcess]:
    """A server over a thousand long messages."""
    own = {"mongodb_uri": mongodb_uri, "database": filled.name, "request_timeout": 3}
    with running(tmp_path_factory.mktemp("server"), **own) as server:
        yield server


def send_by_hand(server: ServerProcess, head: bytes, body: bytes) -> socket.socket:
    """Send a request over a socket that holds little of the answer."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(PATIENCE)
    plain.connect(("127.0.0.1", int(server.base.rpartition(":")[2])))
    plain.sendall(b"POST /graphql HTTP/1.1\r\nHost: recallql.test\r\nContent-Type: application/json\r\n" + head)
    plain.sendall(b"\r\n" + body)
    return plain


async def test_a_client_who_reads_slowly_holds_up_nobody(server: ServerProcess) -> None:
    body = json.dumps({"query": EVERYTHING}).encode()
    with send_by_hand(server, b"Connection: close\r\nContent-Length: %d\r\n" % len(body), body) as plain:
        read = b""
        for _ in range(20):
            read += await asyncio.to_thread(plain.recv, 1)
            assert (await ask(server, THREADS)).json() == {"data": {"threads": {"total": 1}}}
        with plain.makefile("rb") as rest:
            read += await asyncio.to_thread(rest.read)
    answer = json.loads(read.partition(b"\r\n\r\n")[2])
    assert len(answer["data"]["recall"]["messages"]) == 1000


async def test_a_client_who_leaves_while_reading_does_no_harm(server: ServerProcess) -> None:
    body = json.dumps({"query": EVERYTHING}).encode()
    for _ in range(5):
        with send_by_hand(server, b"Content-Length: %d\r\n" % len(body), body) as plain:
            assert await asyncio.to_thread(plain.recv, 1) == b"H"
    assert (await ask(server, THREADS)).status_code == 200
    assert "Traceback" not in server.said


async def test_a_client_who_never_finishes_its_body_is_given_up(server: ServerProcess) -> None:
    with send_by_hand(server, b"Content-Length: 1000\r\n", b'{"query": ') as plain:
        assert (await ask(server, THREADS)).status_code == 200
        answer = await asyncio.to_thread(plain.recv, 1000)
    assert answer.split()[1] in (b"408", b"503")
