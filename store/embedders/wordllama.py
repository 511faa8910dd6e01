"""WordLlama: a small model of word vectors that its package brings along. English only, works offline."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from store.embedders.local import LocalEmbedder, Model
from store.errors import EmbedderFailed

# The shorter ones are the beginning of the longest.
LENGTHS = (64, 128, 256)
_STORED_LENGTH = 256
# The model pads each batch to its longest text: small batches keep one long text from costing gigabytes.
_BATCH_SIZE = 8


class WordLlamaEmbedder(LocalEmbedder):
    """The model in the `wordllama` package: 16 MB, 64, 128 or 256 numbers, less than 0.1 ms for a short text."""

    def __init__(self, dimensions: int = _STORED_LENGTH) -> None:
        """Raises EmbedderFailed for a number of dimensions the model does not have. Loads nothing yet."""
        if dimensions not in LENGTHS:
            raise EmbedderFailed(f"WordLlama has vectors of 64, 128 or 256 numbers, not {dimensions}.")
        super().__init__(f"wordllama-l2-supercat-{dimensions}", dimensions)
        self._shortened_to = None if dimensions == _STORED_LENGTH else dimensions

    def _load(self) -> Model:
        package = _imported()
        # The package looks for its own tokenizer in the wrong folder, and would download it; naming the package's
        # folder as the cache finds it.
        folder = Path(str(package.__file__)).parent
        model = package.WordLlama.load(cache_dir=folder, trunc_dim=self._shortened_to, disable_download=True)
        return partial(model.embed, batch_size=_BATCH_SIZE)


def _imported() -> ModuleType:
    try:
        with _root_logger_kept():
            return import_module("wordllama")
    except ImportError as error:
        raise EmbedderFailed("The embedder wordllama is missing: pip install 'recallql[wordllama]'.") from error


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Undoes what an import does to the root logger: the package configures logging for the whole process."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
