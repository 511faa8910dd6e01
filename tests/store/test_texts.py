"""The readable text of every form in which content was ever stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.texts import readable_text, stored_content
from store.values import JSON

HI: dict[str, JSON] = {"type": "text", "text": "Hi."}
CALL: dict[str, JSON] = {"type": "tool-call", "toolCallId": "c1", "toolName": "w", "args": {"text": "no"}}

READ: dict[str, tuple[JSON, str]] = {
    "format 2": ({"format": 2, "parts": [HI]}, "Hi."),
    "text parts are joined by a newline": ({"format": 2, "parts": [HI, HI]}, "Hi.\nHi."),
    "an empty text part leaves no line": ({"format": 2, "parts": [{**HI, "text": ""}, HI]}, "Hi."),
    "the parts win over the content text": ({"format": 2, "parts": [HI], "content": "Old."}, "Hi."),
    "the content text without a text part": ({"format": 2, "parts": [CALL], "content": "Old."}, "Old."),
    "format 2 without parts": ({"format": 2, "content": "Old."}, "Old."),
    "plain words": ("See you at 5", "See you at 5"),
    "a version 1 list": ([HI, CALL], "Hi."),
    "a bare text in a list": (["Hello", HI], "Hello\nHi."),
    "a document without format": ({"parts": [HI]}, "Hi."),
    "a document around a list": ({"role": "user", "content": [HI]}, "Hi."),
    "a document around a document": ({"content": {"format": 2, "parts": [HI]}}, "Hi."),
    "a document with a text": ({"text": "Hi."}, "Hi."),
    "one part by itself": (HI, "Hi."),
    "a type nobody knows": ([{"type": "input_text", "text": "Hi."}], "Hi."),
    "a number for a text": ([{"type": "text", "text": 5}, True], "5\ntrue"),
    "a number": (42, "42"),
}

SILENT: dict[str, JSON] = {
    "nothing": None,
    "an empty document": {},
    "an empty list": [],
    "reasoning": [{"type": "reasoning", "text": "Hm."}],
    "tool output": [{"type": "tool-w", "text": "no"}],
    "data": [{"type": "data-note", "text": "no"}],
    "a file": [{"type": "file", "text": "no"}],
    "a source": [{"type": "source-document", "text": "no"}],
    "parts that are no list": {"format": 2, "parts": "no"},
    "parts that are no parts": {"format": 2, "parts": [None, [HI]]},
    "a text that is no text": [{"type": "text", "text": {"value": "no"}}],
}

JSON_VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "text", "parts", "content", "format"]), inner)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(("content", "text"), READ.values(), ids=READ)
def test_readable_text(content: JSON, text: str) -> None:
    assert readable_text(content) == text


@pytest.mark.parametrize("content", SILENT.values(), ids=SILENT)
def test_what_holds_no_words_has_no_text(content: JSON) -> None:
    assert readable_text(content) == ""


def test_nesting_of_any_depth_is_read() -> None:
    content: JSON = [HI]
    for _ in range(100_000):
        content = {"content": content}
    assert readable_text(content) == "Hi."


def test_version_1_parts_are_spelt_as_in_format_2() -> None:
    result: JSON = {"type": "tool-result", "toolCallId": "c1", "toolName": "w", "result": 7}
    parts = stored_content([CALL, result, HI]).parts
    assert [part["type"] for part in parts] == ["tool-invocation", "tool-invocation", "step-start", "text"]
    assert parts[1]["toolInvocation"] == {
        "state": "result",
        "toolCallId": "c1",
        "toolName": "w",
        "args": {"text": "no"},
        "result": 7,
    }


@given(JSON_VALUES)
def test_any_json_has_a_readable_text(content: JSON) -> None:
    assert isinstance(readable_text(content), str)


@given(st.lists(st.text(min_size=1)))
def test_every_text_part_is_in_the_text(texts: list[str]) -> None:
    parts: list[JSON] = [{"type": "text", "text": text} for text in texts]
    assert readable_text({"format": 2, "parts": parts}) == "\n".join(texts)
