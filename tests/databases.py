"""A database of its own for each test that wants one."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient


@asynccontextmanager
async def new_database(uri: str, driver: str = "pymongo", **options: Any) -> AsyncIterator[Any]:
    """A new, empty database for the length of a block, dropped afterwards; `options` are the client's."""
    name = f"recallql_test_{secrets.token_hex(6)}"
    client: Any = (AsyncMongoClient if driver == "pymongo" else AsyncIOMotorClient)(uri, **options)
    try:
        yield client[name]
    finally:
        await client.drop_database(name)
        # Motor's close answers nothing, PyMongo's must be awaited.
        if (closing := client.close()) is not None:
            await closing
