"""FastEmbed: sentence models run by ONNX Runtime on the processor, many languages, downloaded on first use."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from store.embedders.local import LocalEmbedder, Model
from store.errors import EmbedderFailed

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_BATCH_SIZE = 32


class FastEmbedEmbedder(LocalEmbedder):
    """A model of the `fastembed` package.

    `folder` names a local folder with the model's files, `cache` where downloaded models are kept; with `offline`
    nothing is downloaded, and a model that is not there yet fails.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        folder: str | None = None,
        cache: str | None = None,
        offline: bool = False,
    ) -> None:
        super().__init__(model, dimensions=None)
        self._options: dict[str, Any] = {
            "cache_dir": cache,
            "specific_model_path": folder,
            "local_files_only": offline,
        }

    def _load(self) -> Model:
        try:
            package = import_module("fastembed")
        except ImportError as error:
            raise EmbedderFailed("The embedder fastembed is missing: pip install 'recallql[fastembed]'.") from error
        model = package.TextEmbedding(self._name, **self._options)

        def run(texts: list[str]) -> list[Any]:
            vectors: Iterable[Any] = model.embed(texts, batch_size=_BATCH_SIZE)
            return list(vectors)

        return run
