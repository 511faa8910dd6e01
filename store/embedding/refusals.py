"""Embedding many texts although some of them are refused: one bad text must not stop the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from store.embedders.protocol import Embedder
from store.errors import EmbedderFailed

_PROBE = "hello"


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The vectors of some texts, in their order, None for texts that the embedder refused; and the tokens used."""

    vectors: Sequence[NDArray[np.float32] | None]
    tokens: int | None


async def embed_willing(embedder: Embedder, texts: Sequence[str]) -> Answer:
    """The vectors of all texts that the embedder takes.

    When it fails although it still embeds a word, the texts are halved until those that it refuses stand alone.
    Raises EmbedderFailed when it embeds nothing at all any more.
    """
    try:
        embeddings = await embedder.embed(texts)
    except EmbedderFailed:
        await embedder.embed([_PROBE])
        return await _embed_halves(embedder, texts)
    return Answer(list(embeddings.vectors), embeddings.tokens)


async def _embed_halves(embedder: Embedder, texts: Sequence[str]) -> Answer:
    if len(texts) == 1:
        return Answer([None], 0)
    middle = len(texts) // 2
    first, second = [await embed_willing(embedder, half) for half in (texts[:middle], texts[middle:])]
    known = first.tokens is not None and second.tokens is not None
    tokens = (first.tokens or 0) + (second.tokens or 0) if known else None
    return Answer([*first.vectors, *second.vectors], tokens)
