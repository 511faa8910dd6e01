"""A database that is away, comes back, hangs or refuses: real servers, killed and stopped under a running app."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from store.diagnosis import diagnose
from store.driver import connect
from store.embedders.toy import ToyEmbedder
from store.embedding.inventory import take_inventory
from store.errors import Unavailable
from tests.graph.test_commands import Commands
from tests.zoo import Answer, Client, fill, message, serving, thread

PATIENCE = 5
"""Seconds in which an answer must be there: far more than `database_timeout`, far less than the driver's own."""
NAME = "mastra"
"""The database that is read unless a setting says otherwise."""
THREADS = "{ threads { threads { id } total } }"
NEW_THREAD = '{ recall(threadId: "t-new", resourceId: "res-a", perPage: 20) { messages { id } total hasMore } }'
SEARCH = '{ recall(threadId: "t1", vectorSearchString: "text of m1") { matches { message { id } } } }'
OPERATIONS = {
    "threads": THREADS,
    "recall": '{ recall(threadId: "t1", include: [{id: "m1"}]) { messages { id } total } }',
    "thread": '{ thread(id: "t1") { messageCount messages { total } } }',
    "message": '{ message(id: "m1", resourceId: "res-a") { id } }',
    "resource": '{ resource(id: "res-a") { id } }',
    "a metadata filter": '{ recall(threadId: "t1", filter: {metadata: {open: true}}) { messages { id } total } }',
}


class Server:
    """A database server of its own on one port, over a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.uri = f"mongodb://127.0.0.1:{self.port}/?directConnection=true"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, once more if need be, and wait until it answers."""
        (self.folder / "server.toml").touch()
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        settings = ["--config", str(self.folder / "server.toml"), "--storage-path", str(self.folder / "data")]
        with (self.folder / "server.log").open("ab") as log:
            command = [sys.executable, "-P", "-m", "secantus", *address, *settings, "--log-level", "ERROR"]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with MongoClient[dict[str, Any]](self.uri, serverSelectionTimeoutMS=30_000) as client:
            client.admin.command("ping")

    def hang(self) -> None:
        """Stop it where it is; its connections stay open. Returns once it has stopped."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, also while it hangs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that is not started yet."""
    server = Server(tmp_path)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
async def started(server: Server) -> Server:
    """A server that holds two threads, and fifteen hundred messages in the first."""
    server.start()
    async with AsyncMongoClient[dict[str, Any]](server.uri) as client:
        rows = [message(f"m{number}", "t1", number, metadata={"open": True}) for number in range(1500)]
        await fill(client[NAME], threads=[thread("t1"), thread("t2")], messages=rows)
    return server


@asynccontextmanager
async def app_over(uri: str, **settings: Any) -> AsyncIterator[Client]:
    """The application over the database at an address, with little patience; neither start nor stop may hang."""
    async with (
        asyncio.timeout(2 * PATIENCE) as limit,
        serving(mongodb_uri=uri, database_timeout=1, **settings) as client,
    ):
        limit.reschedule(None)
        try:
            yield client
        finally:
            limit.reschedule(asyncio.get_running_loop().time() + 2 * PATIENCE)


async def ask(client: Client, query: str) -> Answer:
    """The answer, which must not keep anybody waiting."""
    async with asyncio.timeout(PATIENCE):
        return await client.ask(query)


async def status(client: Client, path: str) -> tuple[int, str]:
    """Status and body of an answer, which must not keep anybody waiting."""
    async with asyncio.timeout(PATIENCE):
        response = await client.http.get(path)
    return response.status_code, response.text


async def ask_until_answered(client: Client, query: str) -> Answer:
    """The first answer without errors; the driver looks for a lost server about twice a second."""
    for _ in range(20):
        answer = await client.ask(query)
        if "errors" not in answer.body:
            break
        await asyncio.sleep(0.25)
    return answer


# Away


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_database_that_is_away_is_an_error_and_no_empty_answer(server: Server, name: str) -> None:
    async with app_over(server.uri) as client:
        answer = await ask(client, OPERATIONS[name])
    assert answer.code == "UNAVAILABLE"
    assert not any((answer.body["data"] or {}).values())


async def test_r8_a_new_thread_is_empty_and_a_database_that_is_away_is_not(started: Server) -> None:
    async with app_over(started.uri) as client:
        empty = (await ask(client, NEW_THREAD)).data["recall"]
        started.kill()
        answer = await ask(client, NEW_THREAD)
    assert empty == {"messages": [], "total": 0, "hasMore": False}
    assert (answer.code, answer.body["data"]) == ("UNAVAILABLE", None)


async def test_a_database_that_comes_back_is_used_again_without_a_restart(started: Server) -> None:
    async with app_over(started.uri) as client:
        before = (await ask(client, THREADS)).data
        for _ in range(2):
            started.kill()
            for name in ("threads", "recall"):
                assert (await ask(client, OPERATIONS[name])).code == "UNAVAILABLE"
            started.start()
            assert (await ask_until_answered(client, THREADS)).data == before
    assert before["threads"]["total"] == 2


async def test_the_app_starts_while_the_database_is_away(server: Server) -> None:
    async with app_over(server.uri, create_indexes=True) as client:
        assert (await ask(client, THREADS)).code == "UNAVAILABLE"
        server.start()
        assert (await ask_until_answered(client, THREADS)).data == {"threads": {"threads": [], "total": 0}}


async def test_alive_and_ready_are_two_things(started: Server) -> None:
    async with app_over(started.uri) as client:
        assert [(await status(client, path))[0] for path in ("/health", "/ready")] == [200, 200]
        started.kill()
        assert (await status(client, "/health"))[0] == 200
        code, body = await status(client, "/ready")
        started.start()
        await ask_until_answered(client, THREADS)
        assert (await status(client, "/ready"))[0] == 200
    assert code == 503
    assert "127.0.0.1" not in body
    assert str(started.port) not in body


# Hanging


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_database_that_hangs_is_not_waited_for(started: Server, name: str) -> None:
    async with app_over(started.uri) as client:
        assert (await ask_until_answered(client, OPERATIONS[name])).data
        started.hang()
        answer = await ask(client, OPERATIONS[name])
        started.go_on()
        assert (await ask_until_answered(client, OPERATIONS[name])).data
    assert answer.code == "UNAVAILABLE"


async def test_a_database_that_hangs_is_not_ready(started: Server) -> None:
    async with app_over(started.uri) as client:
        started.hang()
        codes = [(await status(client, path))[0] for path in ("/health", "/ready")]
        started.go_on()
        assert (await status(client, "/ready"))[0] == 200
    assert codes == [200, 503]


async def test_the_app_starts_and_stops_while_the_database_hangs(started: Server) -> None:
    started.hang()
    async with app_over(started.uri) as client:
        assert (await ask(client, THREADS)).code == "UNAVAILABLE"


async def test_the_app_stops_while_a_database_hangs_that_it_has_used(started: Server) -> None:
    async with app_over(started.uri) as client:
        assert (await ask(client, OPERATIONS["recall"])).data
        started.hang()


async def test_the_app_starts_over_a_client_whose_database_hangs(started: Server) -> None:
    """A client that the caller opened has its own patience; the application's is what counts."""
    async with AsyncMongoClient[dict[str, Any]](started.uri) as opened:
        await opened.admin.command("ping")
        started.hang()
        try:
            async with asyncio.timeout(PATIENCE), serving(opened[NAME], database_timeout=1) as client:
                assert (await client.ask(THREADS)).code == "UNAVAILABLE"
        finally:
            started.go_on()


class HangingAt(Commands):
    """Stops the server before a command of this name reaches it."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__()
        self.server = server
        self.name = name

    def started(self, event: Any) -> None:
        if event.command_name == self.name:
            self.server.hang()


async def test_a_database_that_hangs_between_two_batches_is_not_waited_for(started: Server) -> None:
    listener = HangingAt(started, "getMore")
    async with (
        AsyncMongoClient[dict[str, Any]](started.uri, event_listeners=[listener]) as opened,
        serving(opened[NAME], database_timeout=1) as client,
    ):
        try:
            answer = await ask(client, OPERATIONS["a metadata filter"])
        finally:
            started.go_on()
    assert answer.code == "UNAVAILABLE"


async def test_one_lost_answer_does_not_end_the_search_of_its_owner(started: Server) -> None:
    """All who ask meanwhile share one load of the owner's vectors."""
    listener = HangingAt(started, "find")
    vectors = (await ToyEmbedder().embed(["text of m1"])).vectors.tolist()
    row = {"embedding": vectors[0], "metadata": {"message_id": "m1", "thread_id": "t1", "resource_id": "res-a"}}
    async with AsyncMongoClient[dict[str, Any]](started.uri, event_listeners=[listener]) as opened:
        await opened[NAME].memory_messages_64.insert_one(row)
        async with serving(opened[NAME], database_timeout=1, embedder="toy", semantic_recall="true") as client:
            try:
                lost = await asyncio.gather(*(ask(client, SEARCH) for _ in range(3)))
            finally:
                started.go_on()
            listener.name = "nothing"
            found = await ask(client, SEARCH)
    assert {answer.code for answer in lost} == {"UNAVAILABLE"}
    assert found.data["recall"]["matches"][0]["message"]["id"] == "m1"


async def test_the_command_line_gives_up_a_server_that_does_not_answer(started: Server) -> None:
    async with connect(started.uri, timeout=1, reply_timeout=1) as client:
        await client.admin.command("ping")
        started.hang()
        try:
            async with asyncio.timeout(8 * PATIENCE):
                with pytest.raises(Unavailable):
                    await diagnose(client[NAME], timeout=0.5)
                with pytest.raises(Unavailable):
                    await take_inventory(client[NAME], dimensions=None, model=None)
        finally:
            started.go_on()


# What is said of it


async def test_an_outage_is_one_line_of_the_log_however_many_fields_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with app_over("mongodb://127.0.0.1:1/") as client:
        caplog.clear()
        answer = await client.ask('{ resource(id: "r1") { id } thread(id: "t1") { id } message(id: "m1") { id } }')
    assert [error["extensions"]["code"] for error in answer.body["errors"]] == ["UNAVAILABLE"] * 3
    assert [record.getMessage()[:31] for record in caplog.records] == ["The database failed 3 field(s):"]


async def test_g4_a_neither_host_nor_password_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """The host is for the log alone, the password for nobody."""
    async with app_over("mongodb://svc:secret@db.internal/") as client:
        caplog.clear()
        answer = await ask(client, THREADS)
        ready = await status(client, "/ready")
    assert answer.code == "UNAVAILABLE"
    for word in ("secret", "svc", "db.internal"):
        assert word not in f"{answer.body} {ready}"
    assert "db.internal" in caplog.text
    assert "secret" not in caplog.text


async def test_g4_a_also_when_the_host_is_looked_up_by_service(caplog: pytest.LogCaptureFixture) -> None:
    """`mongodb+srv` is what Atlas hands out: names that cannot be resolved are an outage like any other."""
    async with app_over("mongodb+srv://svc:secret@db.internal/") as client:
        answer = await ask(client, THREADS)
    assert answer.code == "UNAVAILABLE"
    assert "db.internal" not in str(answer.body)
    assert "secret" not in str(answer.body) + caplog.text


async def test_g4_a_also_when_the_credentials_are_refused(started: Server, caplog: pytest.LogCaptureFixture) -> None:
    uri = started.uri.replace("mongodb://", "mongodb://svc:secret@")
    async with app_over(uri) as client:
        answer = await ask(client, THREADS)
    assert answer.code == "UNAVAILABLE"
    assert "secret" not in str(answer.body) + caplog.text
    assert "svc" not in str(answer.body)


@pytest.mark.parametrize("uri", ["mongodb://svc:sec/ret@db.internal", "mysql://svc:secret@db.internal"])
async def test_g4_a_also_when_the_address_cannot_be_read(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match=r"connection string") as refused:
        async with app_over(uri):
            pass
    assert "secret" not in str(refused.value) + caplog.text
    assert "sec/ret" not in str(refused.value) + caplog.text


async def test_g4_b_a_misspelt_field_is_named(server: Server) -> None:
    async with app_over(server.uri) as client:
        answer = await ask(client, "{ thraeds { total } }")
    assert answer.code == "BAD_USER_INPUT"
    assert "thraeds" in answer.error["message"]


async def test_g4_c_argument_and_rule_are_named(server: Server) -> None:
    async with app_over(server.uri) as client:
        answer = await ask(client, "{ threads(page: -1) { total } }")
    assert answer.code == "BAD_USER_INPUT"
    assert "page must be a whole number >= 0" in answer.error["message"]
