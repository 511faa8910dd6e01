"""Content that was stored as JSON text goes out as it was written, and long lists are written slice by slice."""

import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from graph.response import JSON, encode, encode_in_pieces, respond
from store.slices import SLICE
from store.values import JSONText
from tests.zoo import Client, fill, message, serving, thread

SPACED = '{"format" : 2, "parts" : [ {"type":"text", "text":"caf\\u00e9"} ], "big": 123456789012345678901234567890}'
ODD = {
    "not JSON": ('{"format": 2,', '"{\\"format\\": 2,"'),
    "NaN": ('{"format": 2, "rate": NaN}', '{"format":2,"rate":null}'),
    "half a surrogate pair": ('{"text": "\\ud800"}', '{"text":"\ufffd"}'),
    "a lone number": ("7", '"7"'),
    "words": ("hello", '"hello"'),
    "a document": ({"format": 2, "parts": []}, '{"format":2,"parts":[]}'),
}


@pytest.fixture
async def client(plain_database: Any) -> AsyncIterator[Client]:
    """A thread with one message of each kind, and one with more than a slice of them."""
    stored = [SPACED, *(text for text, _ in ODD.values())]
    rows = [message(f"m{number}", "t1", number, content=content) for number, content in enumerate(stored)]
    many = [message(f"n{number}", "t2", number, content=SPACED) for number in range(SLICE + 5)]
    await fill(plain_database, threads=[thread("t1"), thread("t2")], messages=rows + many)
    async with serving(plain_database) as client:
        yield client


async def body(client: Client, query: str) -> str:
    """The body of an answer without errors."""
    response = await client.http.post("/graphql", json={"query": query}, headers={"Accept-Encoding": "identity"})
    assert "errors" not in response.json()
    assert int(response.headers["Content-Length"]) == len(response.content)
    return response.text


@pytest.mark.parametrize("selected", ["content", "metadata text content", "content text"])
async def test_content_goes_out_as_it_was_written(client: Client, selected: str) -> None:
    assert f'"content":{SPACED}' in await body(client, f'{{ recall(threadId: "t1") {{ messages {{ {selected} }} }} }}')


@pytest.mark.parametrize("name", ODD)
async def test_what_is_no_strict_json_is_spelt_as_documented(client: Client, name: str) -> None:
    answer = await body(client, '{ recall(threadId: "t1") { messages { content } } }')
    assert f'{{"content":{ODD[name][1]}}}' in answer


async def test_a_long_list_is_whole(client: Client) -> None:
    answer = await body(client, '{ recall(threadId: "t2", perPage: false) { messages { id content } total } }')
    found = json.loads(answer)["data"]["recall"]
    assert [row["id"] for row in found["messages"]] == [f"n{number}" for number in reversed(range(SLICE + 5))]
    assert answer.count(f'"content":{SPACED}') == found["total"] == SLICE + 5


async def test_the_same_long_list_twice(client: Client) -> None:
    query = '{ recall(threadId: "t2", perPage: false) { a: messages { id } b: messages { id content } } }'
    found = json.loads(await body(client, query))["data"]["recall"]
    assert [row["id"] for row in found["a"]] == [row["id"] for row in found["b"]]
    assert len(found["a"]) == SLICE + 5


# The encoder


LONG = JSONText(b"[", b'{"a":1},', '{"b":"é"}]')


@pytest.mark.parametrize("payload", [{"x": LONG}, [LONG, {"y": LONG}, 1], LONG, {"x": LONG, "big": 2**70}])
def test_pieces_are_put_in_their_places(payload: Any) -> None:
    assert b"".join(encode_in_pieces(payload)) == encode(payload)
    assert b'[{"a":1},{"b":"' in encode(payload)


def test_pieces_are_not_joined() -> None:
    assert encode_in_pieces({"x": LONG}) == [b'{"x":', b"[", b'{"a":1},', '{"b":"é"}]'.encode(), b"}"]


async def test_a_large_answer_is_sent_in_slices() -> None:
    sent: list[Any] = []
    text = JSONText(b"[", *[b'"' + b"x" * 100_000 + b'",'] * 3, b"1]")

    async def send(sent_message: Any) -> None:
        sent.append(sent_message)

    await respond({"data": text}, JSON)({"type": "http"}, None, send)  # type: ignore[arg-type]
    start, *parts = sent
    whole = b"".join(part["body"] for part in parts)
    assert dict(start["headers"])[b"content-length"] == str(len(whole)).encode()
    assert [len(each) for each in orjson.loads(whole)["data"][:3]] == [100_000] * 3
    assert max(len(part["body"]) for part in parts) == 64 * 1024
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]
