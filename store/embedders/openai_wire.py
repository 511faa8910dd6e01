"""The wire format of OpenAI's `/embeddings`: one request body, and the reply to it."""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from store.embedders.protocol import Embeddings, Vectors, checked_vectors
from store.errors import EmbedderFailed

# The error codes of OpenAI and its followers; a key or an address has no such form.
_ERROR_CODE = re.compile(r"[a-z]+(?:_[a-z]+){0,6}")
_LONGEST_CODE = 50


def request_body(texts: Sequence[str], *, model: str, dimensions: int | None, base64_vectors: bool) -> bytes:
    """The body that asks for the vectors of the texts."""
    fields: dict[str, Any] = {"model": model, "input": list(texts)}
    if dimensions is not None:
        fields["dimensions"] = dimensions
    if base64_vectors:
        fields["encoding_format"] = "base64"
    return orjson.dumps(fields)


def parsed_reply(body: bytes, count: int, dimensions: int | None) -> Embeddings:
    """The vectors in a reply to `count` texts, in the order of the texts, as lists or as base64.

    `dimensions` is the length they must have, None for any. Raises EmbedderFailed for everything else.
    """
    reply = _json(body)
    items = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderFailed("The embedding service answered with something that is no list of embeddings.")
    vectors = [_vector(item.get("embedding")) for item in _in_order(items)]
    return Embeddings(checked_vectors(vectors, count, dimensions), tokens=_tokens(reply))


def error_code(body: bytes) -> str | None:
    """The machine-readable code or type in a refusal, such as model_not_found; None without one.

    Messages are left out on purpose: some services repeat the key in them.
    """
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    error = reply.get("error") if isinstance(reply, dict) else None
    fields = error if isinstance(error, dict) else {}
    codes = (fields.get("code"), fields.get("type"))
    return next((code for code in codes if _is_code(code)), None)


def _is_code(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_CODE and _ERROR_CODE.fullmatch(value) is not None


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise EmbedderFailed("The embedding service answered with something that is not JSON.") from error


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items by their index; services that leave the index out answer in order."""
    if not any("index" in item for item in items):
        return items
    places = {item.get("index"): item for item in items if isinstance(item.get("index"), int)}
    if len(places) != len(items) or set(places) != set(range(len(items))):
        raise EmbedderFailed("The embedding service numbered its embeddings wrongly.")
    return [places[index] for index in range(len(items))]


def _vector(embedding: object) -> Any:
    if isinstance(embedding, str):
        return _from_base64(embedding)
    if isinstance(embedding, list) and all(type(number) in (float, int) for number in embedding):
        return embedding
    raise EmbedderFailed("The embedding service answered with an embedding that is no list of numbers.")


def _from_base64(text: str) -> Vectors:
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32, copy=False)
    except (binascii.Error, ValueError) as error:
        raise EmbedderFailed("The embedding service answered with base64 that holds no float32 numbers.") from error


def _tokens(reply: dict[str, Any]) -> int | None:
    usage = reply.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None
