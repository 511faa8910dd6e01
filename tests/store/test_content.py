"""Stored content and metadata: text that holds JSON, documents, and plain words."""

import json
import math
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from store.content import content_metadata, parse_content, parse_metadata, read_stored

HEX = "65f0c0ffee65f0c0ffee65f0"

READ: dict[str, tuple[Any, Any]] = {
    "an object": ('{"format": 2, "parts": []}', {"format": 2, "parts": []}),
    "a list": ('[{"type": "text"}]', [{"type": "text"}]),
    "an empty object": ("{}", {}),
    "blanks around": (' \n\t{"a": 1}\r\n ', {"a": 1}),
    "plain words": ("see you at 5", "see you at 5"),
    "no words": ("", ""),
    "words in braces": ("{see you}", "{see you}"),
    "words in brackets": ("[laughs]", "[laughs]"),
    "half an object": ('{"a": 1', '{"a": 1'),
    "an object and more": ('{"a": 1} {"b": 2}', '{"a": 1} {"b": 2}'),
    "a number": ("5", "5"),
    "a quoted text": ('"hi"', '"hi"'),
    "null": ("null", "null"),
    "true": ("true", "true"),
    "NaN by itself": ("NaN", "NaN"),
    "a comma too many": ('{"a": 1,}', '{"a": 1,}'),
    "single quotes": ("{'a': 1}", "{'a': 1}"),
    "NaN inside": ('{"n": NaN, "i": -Infinity}', {"n": None, "i": None}),
    "a number too large": ('{"n": 1e999}', {"n": None}),
    "half a surrogate pair": ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    "both halves": ('{"a": "\\ud83e\\uddf5"}', {"a": "\U0001f9f5"}),
    "a key twice": ('{"a": 1, "a": 2}', {"a": 2}),
    "64 bits": ('{"n": 9223372036854775807}', {"n": 2**63 - 1}),
    "nested as deep as is read": ("[" * 200 + "]" * 200, json.loads("[" * 200 + "]" * 200)),
    "nested too deep": ("[" * 300 + "]" * 300, "[" * 300 + "]" * 300),
    "nested beyond reason": ('{"a":' * 20_000, '{"a":' * 20_000),
    "closed beyond reason": ("[" * 20_000 + "]" * 20_000, "[" * 20_000 + "]" * 20_000),
    "many brackets side by side": (json.dumps([[]] * 500), [[]] * 500),
    "a document": ({"format": 2, "metadata": {"ref": ObjectId(HEX)}}, {"format": 2, "metadata": {"ref": HEX}}),
    "a list of documents": ([{"n": math.nan}], [{"n": None}]),
    "nothing": (None, None),
    "a stored number": (5, 5),
}


@pytest.mark.parametrize(("stored", "content"), READ.values(), ids=READ)
def test_content_as_json(stored: Any, content: Any) -> None:
    assert parse_content(stored) == content


def test_text_and_document_give_equal_content() -> None:
    content = {"format": 2, "parts": [{"type": "text", "text": "hi"}], "metadata": {"k": "v", "n": 1, "x": None}}
    assert parse_content(json.dumps(content)) == parse_content(content) == content


OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ),
)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_writer_of_json(content: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    assert parse_content(json.dumps(content, ensure_ascii=ascii_only, indent=indent)) == content


@given(st.text())
def test_words_are_never_lost(text: str) -> None:
    """What is no structure stays exactly what it was."""
    content = parse_content(text)
    assert content == text or isinstance(content, (dict, list))


@pytest.mark.parametrize("text", ['{"n": NaN}', '{"n": 1}'])
def test_what_is_stored_is_kept_for_comparing_beside_what_is_shown(text: str) -> None:
    stored = read_stored(text)
    value = stored.value
    assert isinstance(value, dict)
    assert stored.to_json() == {"n": None if math.isnan(value["n"]) else 1}


@pytest.mark.parametrize(
    ("content", "metadata"),
    [
        ({"metadata": {"k": "v"}}, {"k": "v"}),
        ({"metadata": {}}, {}),
        ({}, {}),
        ({"metadata": None}, {}),
        ({"metadata": "k"}, {}),
        ({"metadata": [{"k": "v"}]}, {}),
        ([{"metadata": {"k": "v"}}], {}),
        ("metadata", {}),
        (None, {}),
    ],
)
def test_metadata_of_content(content: Any, metadata: dict[str, Any]) -> None:
    assert content_metadata(content) == metadata


@pytest.mark.parametrize(
    ("stored", "metadata"),
    [
        ({"k": "v"}, {"k": "v"}),
        ({"ref": ObjectId(HEX), "n": math.nan}, {"ref": HEX, "n": None}),
        ('{"status": "open"}', {"status": "open"}),
        ('{"n": NaN}', {"n": None}),
        ("[1]", {}),
        ("open", {}),
        ("", {}),
        (None, {}),
        ([{"k": "v"}], {}),
        (5, {}),
    ],
)
def test_metadata_of_threads_and_resources(stored: Any, metadata: dict[str, Any]) -> None:
    assert parse_metadata(stored) == metadata
