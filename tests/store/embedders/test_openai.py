"""The OpenAI client, against a real service on the loopback interface."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from store.embedders.openai import OpenAIEmbedder, OpenAISettings
from store.embedders.retrying import Backoff
from store.errors import EmbedderFailed
from tests.store.embedders.service import EmbeddingService, data_reply, proper_reply, vector_of

KEY = "sk-Very.Secret-42"


def settings(service: EmbeddingService, **changes: Any) -> OpenAISettings:
    plain = OpenAISettings(
        base_url=service.base_url, model="tiny", api_key=KEY, backoff=Backoff(retries=2, first=0.01, ceiling=2)
    )
    return replace(plain, **changes)


@asynccontextmanager
async def embedder(service: EmbeddingService, **changes: Any) -> AsyncIterator[OpenAIEmbedder]:
    client = OpenAIEmbedder(settings(service, **changes))
    try:
        yield client
    finally:
        await client.aclose()


async def failure(service: EmbeddingService, *texts: str, **changes: Any) -> str:
    """The sentence with which embedding the texts fails."""
    async with embedder(service, **changes) as client:
        with pytest.raises(EmbedderFailed) as caught:
            await client.embed(texts or ["text"])
    return str(caught.value)


@pytest.mark.parametrize("base64_vectors", [True, False])
async def test_vectors_come_in_the_order_of_the_texts(service: EmbeddingService, base64_vectors: bool) -> None:
    async with embedder(service, base64_vectors=base64_vectors) as client:
        answer = await client.embed(["b", "aaa", "cc"])
        assert answer.vectors.tolist() == [vector_of("b"), vector_of("aaa"), vector_of("cc")]
        assert answer.vectors.dtype == np.float32
        assert (answer.tokens, client.dimensions, client.model) == (3, 3, "tiny")


async def test_the_request_names_the_model_and_carries_the_key(service: EmbeddingService) -> None:
    async with embedder(service, dimensions=3) as client:
        await client.embed(["a"])
    assert service.bodies == [{"model": "tiny", "input": ["a"], "dimensions": 3, "encoding_format": "base64"}]
    assert service.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_dimensions_and_encoding_are_left_out_unless_set(service: EmbeddingService) -> None:
    async with embedder(service, base64_vectors=False, api_key=None) as client:
        await client.embed(["a"])
    assert service.bodies == [{"model": "tiny", "input": ["a"]}]
    assert "Authorization" not in service.requests[0].headers


async def test_azure_has_a_header_and_a_version_of_its_own(service: EmbeddingService) -> None:
    async with embedder(service, azure_api_version="2024-10-21") as client:
        await client.embed(["a"])
    request = service.requests[0]
    assert request.headers["api-key"] == KEY
    assert "Authorization" not in request.headers
    assert request.query_params["api-version"] == "2024-10-21"


async def test_many_texts_are_sent_in_batches_and_their_tokens_added(service: EmbeddingService) -> None:
    async with embedder(service, batch_size=2) as client:
        answer = await client.embed(["a", "b", "c", "d", "e"])
    assert [body["input"] for body in service.bodies] == [["a", "b"], ["c", "d"], ["e"]]
    assert answer.vectors[:, 1].tolist() == [ord(letter) for letter in "abcde"]
    assert answer.tokens == 5


async def test_no_texts_ask_nothing(service: EmbeddingService) -> None:
    async with embedder(service) as client:
        assert (await client.embed([])).vectors.shape[0] == 0
    assert service.bodies == []


async def test_long_texts_are_shortened_and_blank_ones_made_sendable(service: EmbeddingService) -> None:
    async with embedder(service, max_characters=5) as client:
        answer = await client.embed(["a" * 100_000, "  \n", "x\ud83d"])
    assert service.bodies[0]["input"] == ["aaaaa", " ", "x\ufffd"]
    assert answer.vectors[1].tolist() == [0, 0, 0]


async def test_tokens_are_unknown_when_one_reply_does_not_name_them(service: EmbeddingService) -> None:
    service.will(proper_reply, data_reply({"index": 0, "embedding": [1, 2, 3]}))
    async with embedder(service, batch_size=1) as client:
        assert (await client.embed(["a", "b"])).tokens is None


async def test_a_service_without_indexes_answers_in_order(service: EmbeddingService) -> None:
    service.will(data_reply({"embedding": [1]}, {"embedding": [2]}))
    async with embedder(service) as client:
        assert (await client.embed(["a", "b"])).vectors.tolist() == [[1], [2]]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_passing_trouble_is_tried_again(service: EmbeddingService, status: int) -> None:
    service.will(Response(status_code=status), Response(status_code=status))
    async with embedder(service) as client:
        assert (await client.embed(["a"])).vectors.tolist() == [vector_of("a")]
    assert len(service.bodies) == 3


async def test_the_wait_is_the_one_that_the_service_asks_for(service: EmbeddingService) -> None:
    service.will(Response(status_code=429, headers={"Retry-After": "0"}))
    # Of its own accord the client would wait for half an hour at least.
    async with embedder(service, backoff=Backoff(first=3600, ceiling=3600)) as client, asyncio.timeout(60):
        assert (await client.embed(["a"])).vectors.tolist() == [vector_of("a")]
    assert len(service.bodies) == 2


async def test_a_wait_beyond_the_ceiling_is_not_waited_for(service: EmbeddingService) -> None:
    service.will(Response(status_code=429, headers={"Retry-After": "3600"}))
    assert await failure(service) == "The embedding service answered with status 429."
    assert len(service.bodies) == 1


async def test_a_lasting_trouble_fails_after_the_last_attempt(service: EmbeddingService) -> None:
    service.will(*[Response(status_code=500)] * 3)
    assert await failure(service) == "The embedding service answered with status 500 (3 attempts)."
    assert len(service.bodies) == 3


async def test_a_refusal_for_good_is_not_tried_again_and_names_the_code(service: EmbeddingService) -> None:
    error = {"message": f"no model for {KEY}", "type": "invalid_request_error", "code": "model_not_found"}
    service.will(JSONResponse({"error": error}, status_code=404))
    assert await failure(service) == "The embedding service answered with status 404, model_not_found."
    assert len(service.bodies) == 1


async def test_a_slow_service_times_out(service: EmbeddingService) -> None:
    async def never(body: dict[str, Any]) -> Response:
        await asyncio.sleep(60)
        return Response()

    service.will(never)
    sentence = await failure(service, timeout=0.1, backoff=Backoff(retries=0))
    assert sentence == "The embedding service did not answer within 0.1 s."


async def test_a_refused_connection_is_a_failure(service: EmbeddingService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    sentence = await failure(service, base_url=f"http://127.0.0.1:{port}/v1")
    assert sentence.startswith("The embedding service could not be reached")
    assert str(port) not in sentence


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (PlainTextResponse("<html>welcome</html>"), "not JSON"),
        (PlainTextResponse('{"data": [{"index": 0, "embedding": [NaN]}]}'), "not JSON"),
        (JSONResponse(None), "no list of embeddings"),
        (JSONResponse({"data": "x"}), "no list of embeddings"),
        (data_reply(1), "no list of embeddings"),
        (data_reply(), "given 1 texts and answered with 0"),
        (data_reply({"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}), "answered with 2"),
        (data_reply({"index": 1, "embedding": [1]}), "numbered"),
        (data_reply({"index": "0", "embedding": [1]}), "numbered"),
        (data_reply({"index": 0, "embedding": None}), "no list of numbers"),
        (data_reply({"index": 0, "embedding": [1, None]}), "no list of numbers"),
        (data_reply({"index": 0, "embedding": [True]}), "no list of numbers"),
        (data_reply({"index": 0, "embedding": []}), "without numbers"),
        (data_reply({"index": 0, "embedding": [1e300]}), "NaN or infinite"),
        (data_reply({"index": 0, "embedding": "AAAA"}), "base64"),
        (data_reply({"index": 0, "embedding": "?"}), "base64"),
        (data_reply({"index": 0, "embedding": "AADAfw=="}), "NaN or infinite"),
    ],
)
async def test_nonsense_is_a_failure(service: EmbeddingService, reply: Response, words: str) -> None:
    service.will(reply)
    assert words in await failure(service)


async def test_vectors_of_different_lengths_are_a_failure(service: EmbeddingService) -> None:
    service.will(data_reply({"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}))
    assert "different lengths" in await failure(service, "a", "b")


async def test_other_dimensions_than_asked_for_are_a_failure(service: EmbeddingService) -> None:
    assert "vectors of 3 numbers instead of 256" in await failure(service, dimensions=256)


async def test_a_service_that_changes_its_dimensions_is_a_failure(service: EmbeddingService) -> None:
    service.will(proper_reply, data_reply({"index": 0, "embedding": [1, 2]}))
    assert "vectors of 2 numbers instead of 3" in await failure(service, "a", "b", batch_size=1)


@pytest.mark.parametrize("status", [401, 403])
async def test_neither_the_error_nor_the_log_holds_the_key(
    service: EmbeddingService, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": KEY, "type": KEY}}
    service.will(JSONResponse(body, status_code=status))
    address = service.base_url.replace("http://", "http://user:hunter2@")
    sentence = await failure(service, base_url=address)
    assert sentence == f"The embedding service refused the credentials: it answered with status {status}."
    assert service.requests[0].headers["Authorization"] != f"Bearer {KEY}"
    assert not any(secret in caplog.text for secret in (KEY, "hunter2"))


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-secrét", " sk-secret"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(EmbedderFailed) as caught:
        OpenAIEmbedder(OpenAISettings(base_url="http://127.0.0.1/v1", model="tiny", api_key=key))
    assert "secr" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1/v1", "ftp://127.0.0.1", "http://", "http://host:secret/v1"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(EmbedderFailed, match="base URL of the embedding service") as caught:
        OpenAIEmbedder(OpenAISettings(base_url=url, model="tiny"))
    assert "secret" not in str(caught.value)


def test_settings_do_not_show_the_key() -> None:
    assert KEY not in repr(OpenAISettings(base_url="http://127.0.0.1/v1", model="tiny", api_key=KEY))
