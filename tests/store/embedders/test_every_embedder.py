"""What every embedder keeps to, whichever it is."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from store.embedders.cache import CachedEmbedder
from store.embedders.openai import OpenAIEmbedder, OpenAISettings
from store.embedders.protocol import Embedder
from store.embedders.toy import ToyEmbedder
from store.embedders.wordllama import WordLlamaEmbedder
from tests.store.embedders.service import EmbeddingService


@pytest.fixture(params=["toy", "wordllama", "openai", "cached"])
async def embedder(
    anyio_backend: str, request: pytest.FixtureRequest, service: EmbeddingService
) -> AsyncIterator[Embedder]:
    kinds: dict[str, Embedder] = {
        "toy": ToyEmbedder(),
        "wordllama": WordLlamaEmbedder(),
        "openai": OpenAIEmbedder(OpenAISettings(base_url=service.base_url, model="tiny")),
        "cached": CachedEmbedder(ToyEmbedder()),
    }
    yield kinds[request.param]
    for kind in kinds.values():
        await kind.aclose()


async def test_one_vector_for_each_text_in_order(embedder: Embedder) -> None:
    texts = ["rain in Spain", "a bill", "rain in Spain"]
    vectors = (await embedder.embed(texts)).vectors
    assert vectors.shape == (3, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert vectors[0].tolist() == vectors[2].tolist() != vectors[1].tolist()


async def test_a_blank_text_has_no_direction(embedder: Embedder) -> None:
    vectors = (await embedder.embed(["", " \n\t", "word"])).vectors
    assert vectors.any(axis=1).tolist() == [False, False, True]


@pytest.mark.parametrize("text", ["x" * 100_000, "🎉", "half a pair \ud83d", "\x00", "naïve Ω 語"])
async def test_odd_texts_are_embedded(embedder: Embedder, text: str) -> None:
    assert np.isfinite((await embedder.embed([text])).vectors).all()


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    answer = await embedder.embed([])
    assert answer.vectors.shape[0] == 0
    assert answer.tokens == 0


async def test_calls_at_the_same_time_do_not_disturb_each_other(embedder: Embedder) -> None:
    texts = [f"text number {number}" for number in range(8)]
    together = await asyncio.gather(*(embedder.embed([text]) for text in texts))
    alone = (await embedder.embed(texts)).vectors
    assert np.allclose(np.concatenate([answer.vectors for answer in together]), alone, atol=1e-5)


def test_every_embedder_names_its_model(embedder: Embedder) -> None:
    assert embedder.model
