"""The toy embedder: equal words, equal places, in every process."""

import numpy as np

from store.embedders.toy import ToyEmbedder


async def test_shared_words_make_texts_similar() -> None:
    a, b, c = (await ToyEmbedder(256).embed(["rain in Spain", "Rain, again in Spain!", "a bill"])).vectors
    assert a @ b > a @ c == 0


async def test_counts_add_up_and_are_the_same_everywhere() -> None:
    answer = await ToyEmbedder(8).embed(["rain rain sun"])
    assert np.flatnonzero(answer.vectors[0]).tolist() == [2, 5]
    assert answer.vectors.sum() == answer.tokens == 3
