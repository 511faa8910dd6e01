"""One MongoDB-compatible server for the whole run, and a database of its own for each test that wants one."""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from store.embedded import EmbeddedServer
from tests.databases import new_database


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio, the loop that both drivers need."""
    return "asyncio"


@pytest.fixture(scope="session")
def mongodb_uri() -> Iterator[str]:
    """The server under the tests: RECALLQL_TEST_MONGODB_URI, or an embedded one that lives in memory."""
    if uri := os.environ.get("RECALLQL_TEST_MONGODB_URI"):
        yield uri
    else:
        with EmbeddedServer() as uri:
            yield uri


@pytest.fixture(params=["pymongo", "motor"])
def driver(request: pytest.FixtureRequest) -> str:
    """The driver behind `database`: PyMongo's own asyncio client, or Motor's."""
    return str(request.param)


@pytest.fixture
async def database(anyio_backend: str, mongodb_uri: str, driver: str) -> AsyncIterator[Any]:
    """A new, empty database, once through each driver; dropped after the test."""
    async with new_database(mongodb_uri, driver) as database:
        yield database


@pytest.fixture
async def plain_database(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Any]:
    """A new, empty database through PyMongo alone, for tests in which the driver does not matter."""
    async with new_database(mongodb_uri, "pymongo") as database:
        yield database
