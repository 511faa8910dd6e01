"""Making the embedder that the settings name."""

from dataclasses import dataclass, field
from typing import Literal

from store.embedders.fastembed import FastEmbedEmbedder
from store.embedders.openai import OpenAIEmbedder, OpenAISettings
from store.embedders.protocol import Embedder
from store.embedders.toy import ToyEmbedder
from store.embedders.wordllama import WordLlamaEmbedder
from store.errors import InvalidArgument

EmbedderKind = Literal["openai", "wordllama", "fastembed", "toy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """Which embedder, and what it needs; see `store.embedders.openai.OpenAISettings` for the last four."""

    kind: EmbedderKind
    model: str | None = None
    dimensions: int | None = None
    url: str = "https://api.openai.com/v1"
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    azure_api_version: str | None = None


def create_embedder(options: EmbedderOptions) -> Embedder:
    """The embedder; models are loaded when the first text comes. Raises InvalidArgument, EmbedderFailed."""
    if options.kind == "openai":
        return _openai(options)
    if options.kind == "wordllama":
        return WordLlamaEmbedder(options.dimensions or 256)
    if options.kind == "fastembed":
        return FastEmbedEmbedder(options.model) if options.model else FastEmbedEmbedder()
    return ToyEmbedder(options.dimensions or 64)


def _openai(options: EmbedderOptions) -> OpenAIEmbedder:
    if options.model is None:
        raise InvalidArgument("The embedder openai needs the name of a model: set RECALLQL_EMBEDDER_MODEL.")
    return OpenAIEmbedder(
        OpenAISettings(
            base_url=options.url,
            model=options.model,
            api_key=options.api_key,
            dimensions=options.dimensions,
            timeout=options.timeout,
            azure_api_version=options.azure_api_version,
        )
    )
