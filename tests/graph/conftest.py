"""The emulated Atlas, and a database for each engine, for the tests of semantic recall."""

from collections.abc import AsyncIterator

import pytest

from tests.atlas.fixtures import atlas_database, atlas_uri
from tests.databases import new_database
from tests.graph.semantic import Place

__all__ = ["atlas_database", "atlas_uri"]


@pytest.fixture(params=["exact", "atlas"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine under the test: exact on the embedded server, Atlas on the emulated one."""
    return str(request.param)


@pytest.fixture
def uri(request: pytest.FixtureRequest, engine: str) -> str:
    """The server of the engine."""
    return str(request.getfixturevalue("mongodb_uri" if engine == "exact" else "atlas_uri"))


@pytest.fixture
async def place(anyio_backend: str, uri: str, engine: str, driver: str) -> AsyncIterator[Place]:
    """An empty database for each engine, through each driver."""
    async with new_database(uri, driver) as database:
        yield Place(database, engine)


@pytest.fixture
async def plain_place(anyio_backend: str, uri: str, engine: str) -> AsyncIterator[Place]:
    """An empty database for each engine, through PyMongo alone."""
    async with new_database(uri) as database:
        yield Place(database, engine)
