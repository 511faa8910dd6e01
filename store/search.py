"""Searching by meaning: the text becomes a vector, and the engine gives candidates."""

from dataclasses import dataclass
from typing import Protocol

from store.vectors.engine import Candidates, EngineName


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gives: which engine answered, what the text cost, and candidates to take from."""

    engine: EngineName
    tokens: int | None
    candidates: Candidates


class Search(Protocol):
    """Finds messages that resemble a text, among those of one owner or of one of its threads."""

    async def find(self, text: str, owner: str, thread_id: str | None, threshold: float | None) -> Found:
        """Raises EmbedderFailed, EmbeddingMismatch, Unavailable."""

    async def refresh(self) -> None:
        """Look anew which engine can answer. Raises Unavailable."""
