"""Servers beside the one that all tests share: without change streams, or to be stopped and started again."""

import re
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

_LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)\s")


@contextmanager
def running_server(folder: Path, *options: str, port: int = 0) -> Iterator[int]:
    """An embedded server with its data in this folder, for the length of the block; gives its port."""
    (folder / "server.toml").touch()
    command = [sys.executable, "-P", "-m", "secantus", "--config", "server.toml", "--log-level", "INFO"]
    place = ["--host", "127.0.0.1", "--port", str(port), "--storage-path", "data"]
    with subprocess.Popen(
        [*command, *place, *options], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        try:
            ports = (_LISTENING.search(line) for line in server.stdout)
            yield next(int(found[1]) for found in ports if found)
        finally:
            server.kill()


@asynccontextmanager
async def new_database(port: int, driver: str) -> AsyncIterator[Any]:
    """A new database on the server at this port, through PyMongo or Motor; a server that is away is soon given up."""
    connect: Any = AsyncMongoClient if driver == "pymongo" else AsyncIOMotorClient
    client = connect(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=500)
    try:
        yield client[f"recallql_test_{secrets.token_hex(6)}"]
    finally:
        # Motor's close answers nothing, PyMongo's must be awaited.
        if (closing := client.close()) is not None:
            await closing


@pytest.fixture(scope="session")
def standalone_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that says it is no replica set, and so has no change streams."""
    with running_server(tmp_path_factory.mktemp("standalone"), "--standalone") as port:
        yield port


@pytest.fixture
async def standalone_database(anyio_backend: str, standalone_port: int, driver: str) -> AsyncIterator[Any]:
    """A new, empty database on that server, once through each driver."""
    async with new_database(standalone_port, driver) as database:
        yield database
