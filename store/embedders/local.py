"""What the models that run in this process share: loaded on first use, and run in worker threads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock

from numpy.typing import ArrayLike

from store.embedders.protocol import Embeddings, Vectors, checked_vectors, no_embeddings
from store.embedders.texts import prepared, with_blanks_silenced
from store.errors import EmbedderFailed

# Far beyond what the models read (512 tokens) or what their mean still tells apart.
_MAX_CHARACTERS = 8000

Model = Callable[[list[str]], ArrayLike]


class LocalEmbedder(ABC):
    """Runs a model of this process. Loading waits for the first text, so that starting stays quick."""

    def __init__(self, model: str, dimensions: int | None) -> None:
        self._name = model
        self._dimensions = dimensions
        self._model: Model | None = None
        self._loading = Lock()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._name

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; None before the first text where only the model knows."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of the texts; tokens are not counted. Raises EmbedderFailed."""
        if not texts:
            return no_embeddings(self._dimensions)
        return Embeddings(await asyncio.to_thread(self._embed_here, texts))

    async def aclose(self) -> None:
        """Lets the model go."""
        self._model = None

    @abstractmethod
    def _load(self) -> Model:
        """Loads the model, which may take seconds. Whatever it raises means: cannot be loaded."""

    def _embed_here(self, texts: Sequence[str]) -> Vectors:
        model = self._loaded()
        try:
            answer = model(prepared(texts, _MAX_CHARACTERS))
        except Exception as error:
            raise EmbedderFailed(f"The embedding model {self._name} failed.") from error
        vectors = checked_vectors(answer, len(texts), self._dimensions)
        self._dimensions = vectors.shape[1]
        return with_blanks_silenced(texts, vectors)

    def _loaded(self) -> Model:
        with self._loading:
            if self._model is None:
                self._model = self._load_or_fail()
            return self._model

    def _load_or_fail(self) -> Model:
        try:
            return self._load()
        except EmbedderFailed:
            raise
        except Exception as error:
            raise EmbedderFailed(f"The embedding model {self._name} could not be loaded.") from error
