"""Which engine answers: Atlas where its index can be queried, else the exact one."""

import logging
from typing import Literal

from store.vectors.atlas import AtlasEngine
from store.vectors.engine import VectorEngine
from store.vectors.exact import ExactEngine

log = logging.getLogger("recallql.store")

EngineChoice = Literal["auto", "atlas", "exact"]


async def choose_engine(exact: ExactEngine, choice: EngineChoice, index_name: str | None) -> VectorEngine:
    """The engine that `choice` asks for; `auto` looks for an index of Atlas that can be queried.

    With `auto` the exact engine also answers what the index cannot; with `atlas` that is an error.
    Raises Unavailable.
    """
    if choice == "exact":
        return exact
    atlas = AtlasEngine(
        exact.database,
        exact.dimensions,
        index_name=index_name,
        fallback=exact if choice == "auto" else None,
        timeout=exact.timeout,
    )
    probe = await atlas.refresh()
    if choice == "auto" and probe.obstacle:
        log.info("Semantic recall is answered by the exact engine: %s", probe.obstacle)
        return exact
    return atlas
