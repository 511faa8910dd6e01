"""Fixtures of the emulated Atlas, to be imported by the conftest of the tests that want them.

`from tests.atlas.fixtures import atlas_database, atlas_uri, plain_atlas_database`
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import new_database

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def atlas_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulated Atlas, one for the whole run."""
    # What the server keeps "in memory" lies in a temporary folder, which is pytest's to remove.
    environment = os.environ | {"TMPDIR": str(tmp_path_factory.mktemp("atlas"))}
    command = [sys.executable, "-m", "tests.atlas.server"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = json.loads(server.stdout.readline())["port"]
            yield f"mongodb://127.0.0.1:{port}/?directConnection=true"
        finally:
            server.stdin.close()
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture
async def atlas_database(anyio_backend: str, atlas_uri: str, driver: str) -> AsyncIterator[Any]:
    """A new, empty database of the emulated Atlas, once through each driver; dropped after the test."""
    async with new_database(atlas_uri, driver) as database:
        yield database


@pytest.fixture
async def plain_atlas_database(anyio_backend: str, atlas_uri: str) -> AsyncIterator[Any]:
    """A new, empty database of the emulated Atlas through PyMongo alone."""
    async with new_database(atlas_uri, "pymongo") as database:
        yield database


async def set_index_state(database: Any, collection: str, name: str, status: str, *, queryable: bool = False) -> None:
    """Put a search index into a state: PENDING, BUILDING, FAILED, STALE, READY."""
    command = {"setSearchIndexState": collection, "name": name, "status": status, "queryable": queryable}
    await database.command(command)


async def create_index(
    database: Any,
    collection: str,
    dimensions: int,
    *,
    name: str | None = None,
    similarity: str = "cosine",
    filters: tuple[str, ...] = ("metadata.resource_id", "metadata.thread_id"),
) -> str:
    """Make a vector search index over `embedding`, ready at once; give its name. The collection must be there."""
    name = name or f"{collection}_vector_index"
    vector = {"type": "vector", "path": "embedding", "numDimensions": dimensions, "similarity": similarity}
    fields = [vector, *({"type": "filter", "path": path} for path in filters)]
    index = {"name": name, "type": "vectorSearch", "definition": {"fields": fields}}
    await database.command({"createSearchIndexes": collection, "indexes": [index]})
    return name
