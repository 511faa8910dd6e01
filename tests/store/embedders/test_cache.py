"""The memory in front of an embedder."""

import asyncio
from collections.abc import Sequence

import pytest

from store.embedders.cache import CachedEmbedder
from store.embedders.protocol import Embeddings
from store.embedders.toy import ToyEmbedder
from store.errors import EmbedderFailed


class WatchedEmbedder(ToyEmbedder):
    """A toy that notes what it is asked, answers when `gate` opens, and refuses while it is `broken`."""

    def __init__(self) -> None:
        super().__init__(8)
        self.asked: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.asked.append(list(texts))
        await self.gate.wait()
        if self.broken:
            raise EmbedderFailed("broken")
        return await super().embed(texts)

    async def aclose(self) -> None:
        self.closed = True


async def test_a_repeated_text_is_embedded_once_and_costs_nothing_again() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    first, second = await cached.embed(["two words"]), await cached.embed(["two words"])
    assert first.vectors.tolist() == second.vectors.tolist()
    assert (first.tokens, second.tokens) == (2, 0)
    assert inner.asked == [["two words"]]


async def test_only_new_texts_are_asked_for_and_the_order_is_kept() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    await cached.embed(["a"])
    answer = await cached.embed(["b", "a", "b", "c"])
    assert inner.asked == [["a"], ["b", "c"]]
    assert answer.vectors.tolist() == (await inner.embed(["b", "a", "b", "c"])).vectors.tolist()
    assert answer.tokens == 2


async def test_texts_asked_for_at_the_same_time_are_embedded_once() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    calls = [asyncio.create_task(cached.embed(texts)) for texts in (["a"], ["a"], ["a", "b"])]
    await asyncio.sleep(0)
    inner.gate.set()
    answers = await asyncio.gather(*calls)
    assert inner.asked == [["a"], ["b"]]
    assert [answer.tokens for answer in answers] == [1, 0, 1]
    assert answers[0].vectors[0].tolist() == answers[2].vectors[0].tolist()


async def test_the_text_used_longest_ago_is_forgotten_first() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner, capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert inner.asked == [["a"], ["b"], ["c"], ["b"]]


async def test_more_texts_than_the_memory_holds_are_answered_all_the_same() -> None:
    cached = CachedEmbedder(WatchedEmbedder(), capacity=1)
    assert (await cached.embed(["a", "b", "c"])).vectors.shape == (3, 8)


async def test_a_failure_is_not_remembered() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    inner.broken = True
    with pytest.raises(EmbedderFailed):
        await cached.embed(["a"])
    inner.broken = False
    assert (await cached.embed(["a"])).tokens == 1


async def test_who_stops_waiting_does_not_stop_the_others() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    impatient, patient = (asyncio.create_task(cached.embed(["a"])) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    inner.gate.set()
    assert (await patient).vectors.shape == (1, 8)
    assert len(inner.asked) == 1


async def test_no_texts_ask_nothing() -> None:
    inner = WatchedEmbedder()
    answer = await CachedEmbedder(inner).embed([])
    assert (answer.vectors.shape, answer.tokens, inner.asked) == ((0, 8), 0, [])


async def test_closing_ends_calls_under_way_and_closes_the_inner_embedder() -> None:
    inner = WatchedEmbedder()
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    call = asyncio.create_task(cached.embed(["a"]))
    await asyncio.sleep(0)
    await cached.aclose()
    assert inner.closed
    with pytest.raises(asyncio.CancelledError):
        await call
