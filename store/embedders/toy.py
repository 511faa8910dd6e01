"""A deterministic embedder without a model, for tests and examples: it knows equal words, not meanings."""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from store.embedders.protocol import Embeddings, Vectors

_WORD = re.compile(r"\w+")


class ToyEmbedder:
    """Counts the words of a text, each at the place that a hash of the word names.

    The same text gives the same vector in every process; texts that share words are similar.
    """

    def __init__(self, dimensions: int = 64) -> None:
        self._dimensions = dimensions

    @property
    def model(self) -> str:
        """The model's name, with the number of dimensions."""
        return f"toy-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The word counts of the texts; every word is a token."""
        places = [[self._place(word) for word in _WORD.findall(text.lower())] for text in texts]
        vectors: Vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, found in enumerate(places):
            np.add.at(vectors[row], found, 1)
        return Embeddings(vectors, tokens=sum(map(len, places)))

    async def aclose(self) -> None:
        """Nothing to free."""

    def _place(self, word: str) -> int:
        digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self._dimensions
