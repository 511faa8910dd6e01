"""Stored content as AI SDK v5 `UIMessage`: the recorded pairs of the real library, then what they leave open."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.texts import Part, readable_text
from store.ui_messages import to_ui_message
from store.values import JSON

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "ui_messages.json").read_text(encoding="utf-8"))
TEXT: Part = {"type": "text", "text": "Hi."}


def _converted(content: JSON, role: str = "assistant", resource_id: str | None = "r1") -> Any:
    return to_ui_message(
        id="m1",
        role=role,
        created_at="2026-02-03T10:00:01.000Z",
        thread_id="t1",
        resource_id=resource_id,
        content=content,
    )


def _parts(*parts: JSON, **fields: JSON) -> Any:
    return _converted({"format": 2, "parts": list(parts), **fields})["parts"]


def _invocation(state: str, **call: JSON) -> Part:
    known: Part = {"state": state, "toolCallId": "c1", "toolName": "refund", "args": {"n": 1}}
    return {"type": "tool-invocation", "toolInvocation": known | call}


def _refund(state: str, **fields: JSON) -> Part:
    return {"type": "tool-refund", "toolCallId": "c1", "input": {"n": 1}, "state": state, **fields}


@pytest.mark.parametrize("pair", RECORDED, ids=[pair["stored"]["id"] for pair in RECORDED])
def test_recorded_messages_convert_as_the_library_converts_them(pair: dict[str, Any]) -> None:
    stored = pair["stored"]
    fields = {name: stored[name] for name in ("id", "role", "content")}
    owner = {"thread_id": stored["threadId"], "resource_id": stored["resourceId"]}
    message = to_ui_message(created_at=stored["createdAt"], **fields, **owner)
    assert ([] if message is None else [message]) == pair["ui"]


INVOCATIONS: dict[str, tuple[Part, Part]] = {
    "partial-call": (_invocation("partial-call"), _refund("input-available")),
    "call": (_invocation("call"), _refund("input-available")),
    "approval asked": (_invocation("approval-requested"), _refund("input-available")),
    "result": (_invocation("result", result="ok"), _refund("output-available", output="ok")),
    "result without a value": (_invocation("result"), _refund("output-available")),
    "error": (_invocation("output-error", errorText="No."), _refund("output-error", errorText="No.")),
    "error without a text": (_invocation("output-error"), _refund("output-error", errorText="")),
    "denied": (
        _invocation("output-denied"),
        _refund("output-available", output="Tool call was not approved by the user"),
    ),
    "denied with a reason": (
        _invocation("output-denied", approval={"reason": "Too much."}),
        _refund("output-available", output="Too much."),
    ),
    "no name and no id": (
        {"type": "tool-invocation", "toolInvocation": {"state": "call"}},
        {"type": "tool-unknown_tool", "toolCallId": "", "state": "input-available"},
    ),
}


@pytest.mark.parametrize(("stored", "part"), INVOCATIONS.values(), ids=INVOCATIONS)
def test_tool_invocation(stored: Part, part: Part) -> None:
    assert _parts(stored) == [part]


def test_a_tool_part_keeps_what_the_provider_said_and_when() -> None:
    stored = _invocation("call") | {
        "providerMetadata": {"openai": {"itemId": "i"}},
        "createdAt": 17,
        "providerExecuted": True,
    }
    [part] = _parts(stored)
    assert part["callProviderMetadata"] == {"openai": {"itemId": "i"}, "mastra": {"createdAt": 17}}
    assert part["providerExecuted"] is True


@pytest.mark.parametrize("kind", ["text", "reasoning", "file", "source"])
def test_other_parts_keep_it_as_provider_metadata(kind: str) -> None:
    provided: JSON = {"google": {"x": 1}, "mastra": {"y": 2}}
    body: Part = {"text": "Hi.", "reasoning": "Hm.", "data": "QUJD", "source": {"id": "s", "url": "https://e.x"}}
    [part] = _parts({"type": kind, **body, "providerMetadata": provided, "createdAt": 5})
    assert part["providerMetadata"] == {"google": {"x": 1}, "mastra": {"y": 2, "createdAt": 5}}


@pytest.mark.parametrize(
    ("where", "field"), [("toolPayloadTransform", "transformed"), ("toolPayloadProjection", "projected")]
)
def test_payloads_meant_for_display_replace_the_raw_ones(where: str, field: str) -> None:
    display: JSON = {"input-available": {field: "shown"}, "output-available": {field: None}}
    stored = _invocation("result", result="raw") | {"providerMetadata": {"mastra": {where: {"display": display}}}}
    [part] = _parts(stored)
    assert (part["input"], part["output"]) == ("shown", None)


def test_an_error_meant_for_display_replaces_the_raw_one() -> None:
    display: JSON = {"error": {"transformed": "Sorry."}}
    provider: JSON = {"mastra": {"toolPayloadTransform": {"display": display}}}
    [part] = _parts(_invocation("output-error", errorText="raw") | {"providerMetadata": provider})
    assert part["errorText"] == "Sorry."


V5_TOOLS: list[Part] = [
    _refund("output-available", output=1),
    {"type": "dynamic-tool", "toolName": "d", "toolCallId": "c2", "state": "input-available", "input": {}},
]


@pytest.mark.parametrize("part", V5_TOOLS, ids=["tool-refund", "dynamic-tool"])
def test_tool_parts_in_v5_form_pass(part: Part) -> None:
    assert _parts(part) == [part]


def test_a_call_stored_in_both_forms_is_shown_once() -> None:
    stored = _invocation("result", result="ok")
    assert _parts(_refund("input-available"), stored) == [_refund("output-available", output="ok")]


def test_a_tool_part_without_a_call_is_left_out() -> None:
    assert _parts({"type": "tool-refund", "input": {}}, {"type": "tool-invocation"}, TEXT) == [TEXT]


REASONING: dict[str, tuple[Part, list[Part]]] = {
    "one text": ({"reasoning": "Hm."}, [{"type": "reasoning", "text": "Hm.", "state": "done"}]),
    "details": (
        {"details": [{"type": "text", "text": "a"}, {"type": "redacted"}, {"type": "text", "text": "b"}]},
        [{"type": "reasoning", "text": "ab", "state": "done"}],
    ),
    "redacted": ({"details": [{"type": "redacted"}]}, [{"type": "reasoning", "text": "", "state": "done"}]),
    "empty": ({"reasoning": "", "details": []}, []),
}


@pytest.mark.parametrize(("stored", "parts"), REASONING.values(), ids=REASONING)
def test_reasoning(stored: Part, parts: list[Part]) -> None:
    assert _parts({"type": "reasoning", **stored}) == parts


FILES: dict[str, tuple[Part, str, str]] = {
    "base64": ({"mimeType": "image/gif", "data": "QUJD"}, "data:image/gif;base64,QUJD", "image/gif"),
    "base64 without a type": ({"data": "/9j/"}, "data:image/png;base64,/9j/", "image/png"),
    "data URL": ({"data": "data:text/csv;base64,QQ=="}, "data:text/csv;base64,QQ==", "text/csv"),
    "data URL of another type": (
        {"mimeType": "text/plain", "data": "data:text/csv;base64,QQ=="},
        "data:text/plain;base64,QQ==",
        "text/plain",
    ),
    "data URL that is not base64": ({"data": "data:text/plain,a%20b"}, "data:text/plain,a%20b", "text/plain"),
    "data URL without data": ({"data": "data:text/plain"}, "data:text/plain", "image/png"),
    "web address": ({"mimeType": "text/csv", "data": "https://e.x/a"}, "https://e.x/a", "text/csv"),
    "web address without a type": ({"data": "http://e.x/a"}, "http://e.x/a", "image/png"),
    "address without a scheme": ({"data": "//e.x/a"}, "//e.x/a", "image/png"),
    "bucket": ({"mimeType": "text/csv", "data": "s3://b/k"}, "s3://b/k", "text/csv"),
    "provider's file id": ({"mimeType": "text/csv", "data": "file-1"}, "file-1", "text/csv"),
    "v5 form": ({"mediaType": "image/webp", "url": "https://e.x/a"}, "https://e.x/a", "image/webp"),
}


@pytest.mark.parametrize(("stored", "url", "media_type"), FILES.values(), ids=FILES)
def test_file(stored: Part, url: str, media_type: str) -> None:
    assert _parts({"type": "file", **stored}) == [{"type": "file", "url": url, "mediaType": media_type}]


def test_a_file_keeps_its_name() -> None:
    [part] = _parts({"type": "file", "data": "QUJD", "filename": "a.png"})
    assert part["filename"] == "a.png"


@pytest.mark.parametrize("data", [None, "", {"type": "Buffer", "data": [1]}], ids=["none", "empty", "buffer"])
def test_a_file_without_readable_data_is_left_out(data: JSON) -> None:
    assert _parts({"type": "file", "mimeType": "image/png", "data": data}) == []


PASSING: list[Part] = [
    {"type": "source-url", "sourceId": "s", "url": "https://e.x"},
    {"type": "source-document", "sourceId": "s", "mediaType": "application/pdf", "title": "Terms"},
    {"type": "data-chart", "id": "d1", "data": [1, 2]},
    {"type": "step-start", "createdAt": 6},
    {"type": "error", "error": "The model is overloaded."},
]


@pytest.mark.parametrize("part", PASSING, ids=[str(part["type"]) for part in PASSING])
def test_parts_that_pass_as_they_are(part: Part) -> None:
    assert _parts(part) == [part]


def test_a_source_without_an_id_is_known_by_its_url() -> None:
    [part] = _parts({"type": "source", "source": {"url": "https://e.x"}})
    assert part == {"type": "source-url", "url": "https://e.x", "sourceId": "https://e.x"}


def test_an_unknown_part_keeps_its_words_only() -> None:
    odd: list[JSON] = [None, 7, "word", {"type": "input_text", "text": "Hi.", "x": 1}, {"type": "odd"}, {"type": 3}]
    assert [part["text"] for part in _parts(*odd)] == ["7", "word", "Hi."]


def test_the_content_text_speaks_when_no_part_does() -> None:
    said: Part = {"type": "text", "text": "Said."}
    assert _parts({"type": "step-start"}, _invocation("call"), content="Said.")[-1] == said
    assert said not in _parts(TEXT, content="Said.")
    assert said not in _parts({"type": "data-x", "data": 1}, content="Said.")


def test_what_older_rows_keep_beside_the_parts() -> None:
    calls: list[JSON] = [_invocation(state)["toolInvocation"] for state in ("partial-call", "call")]
    files: list[JSON] = [{"url": "https://e.x/a", "contentType": "image/gif"}, {"url": "https://e.x/b"}]
    parts = _parts(TEXT, toolInvocations=calls, reasoning="Hm.", experimental_attachments=files)
    assert parts == [
        _refund("input-streaming"),
        _refund("input-available"),
        {"type": "reasoning", "text": "Hm."},
        {"type": "file", "url": "https://e.x/a", "mediaType": "image/gif"},
        {"type": "file", "url": "https://e.x/b", "mediaType": "unknown"},
        TEXT,
    ]


def test_the_parts_win_over_what_lies_beside_them() -> None:
    stored = _invocation("result", result="ok")
    calls: list[JSON] = [_invocation("call")["toolInvocation"]]
    assert _parts(stored, toolInvocations=calls) == [_refund("output-available", output="ok")]


@pytest.mark.parametrize(
    ("key", "kind"),
    [("suspendedTools", "data-tool-call-suspended"), ("pendingToolApprovals", "data-tool-call-approval")],
)
def test_a_call_that_waits_for_a_person_is_followed_by_its_state(key: str, kind: str) -> None:
    waiting: JSON = {"toolCallId": "c1", "toolName": "refund", "args": {"n": 1}}
    parts = _parts(_invocation("call"), TEXT, metadata={key: {"refund": waiting}})
    assert parts == [_refund("input-available"), {"type": kind, "data": waiting}, TEXT]


def test_a_state_told_by_a_part_is_not_told_again() -> None:
    told: Part = {"type": "data-tool-call-approval", "data": {"toolCallId": "c1"}}
    assert _parts(told, metadata={"pendingToolApprovals": {"refund": {"toolCallId": "c1"}}}) == [told]


def test_a_suspended_call_shows_the_payloads_meant_for_display() -> None:
    display: JSON = {"suspend": {"transformed": "shown"}}
    provider: JSON = {"mastra": {"toolPayloadTransform": {"display": display}}}
    state: Part = {"toolCallId": "c1", "args": "raw", "suspendPayload": "raw", "metadata": provider}
    [part] = _parts({"type": "data-tool-call-suspended", "data": state})
    assert (part["data"]["args"], part["data"]["suspendPayload"]) == ("shown", "shown")


def test_metadata() -> None:
    content: JSON = {
        "format": 2,
        "parts": [],
        "metadata": {"channel": "web", "threadId": "spoofed", "resourceId": "spoofed"},
        "providerMetadata": {"openai": {}},
    }
    assert _converted(content)["metadata"] == {
        "channel": "web",
        "createdAt": "2026-02-03T10:00:01.000Z",
        "threadId": "t1",
        "resourceId": "r1",
        "providerMetadata": {"openai": {}},
    }


def test_a_message_without_an_owner_names_none() -> None:
    assert "resourceId" not in _converted("Hi.", resource_id=None)["metadata"]


def test_metadata_that_are_no_object_are_left_out() -> None:
    assert "0" not in _converted({"format": 2, "parts": [], "metadata": ["x"]})["metadata"]


@pytest.mark.parametrize("role", ["tool", "data", ""])
def test_roles_that_a_ui_message_lacks_read_as_assistant(role: str) -> None:
    assert _converted("Hi.", role=role)["role"] == "assistant"


def test_a_signal_is_one_data_part() -> None:
    signal: Part = {"type": "reactive", "tagName": "reminder", "id": "s1", "attributes": {"a": 1}, "metadata": {}}
    message = _converted({"format": 2, "parts": [TEXT], "metadata": {"signal": signal}}, role="signal")
    data: Part = {
        "id": "s1",
        "type": "reactive",
        "tagName": "reminder",
        "contents": "Hi.",
        "createdAt": "2026-02-03T10:00:01.000Z",
        "attributes": {"a": 1},
    }
    assert (message["role"], message["parts"]) == ("assistant", [{"type": "data-signal", "data": data}])


def test_a_signal_of_a_user_is_the_message_of_that_user() -> None:
    content: JSON = {"format": 2, "parts": [TEXT], "metadata": {"signal": {"type": "user"}}}
    message = _converted(content, role="signal")
    assert (message["role"], message["parts"]) == ("user", [TEXT])


@pytest.mark.parametrize("key", ["systemReminder", "dynamicAgentsMdReminder"])
def test_reminders_for_the_model_are_not_shown(key: str) -> None:
    assert _converted({"format": 2, "parts": [TEXT], "metadata": {key: {}}}) is None
    assert _converted({"format": 2, "parts": [TEXT], "metadata": {key: False}}) is not None


def test_a_reminder_tag_hides_the_message_of_a_user_only() -> None:
    words = "<system-reminder>Be brief.</system-reminder>"
    assert _converted(words, role="user") is None
    assert _converted(words, role="assistant")["parts"] == [{"type": "text", "text": words}]


def test_plain_words() -> None:
    assert _converted("See you at 5", role="user")["parts"] == [{"type": "text", "text": "See you at 5"}]


def test_a_version_1_list() -> None:
    content: JSON = [
        {"type": "reasoning", "text": "Look it up.", "signature": "s"},
        {"type": "redacted-reasoning", "data": "d"},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "refund", "args": {"n": 1}},
        {"type": "text", "text": "Done.", "providerOptions": {"openai": {"itemId": "i"}}},
        {"type": "text", "text": ""},
    ]
    assert _converted(content)["parts"] == [
        {"type": "reasoning", "text": "Look it up.", "state": "done"},
        {"type": "reasoning", "text": "", "state": "done"},
        _refund("input-available"),
        {"type": "step-start"},
        {"type": "text", "text": "Done.", "providerMetadata": {"openai": {"itemId": "i"}}},
    ]


def test_a_version_1_tool_result() -> None:
    content: JSON = [{"type": "tool-result", "toolCallId": "c1", "toolName": "refund", "result": None}]
    expected = _refund("output-available", output="") | {"input": {}}
    assert _converted(content, role="tool")["parts"] == [expected]


def test_a_version_1_image() -> None:
    content: JSON = [{"type": "image", "image": "QUJD", "mimeType": "image/jpeg"}]
    [part] = _converted(content, role="user")["parts"]
    assert part == {"type": "file", "url": "data:image/jpeg;base64,QUJD", "mediaType": "image/jpeg"}


KEYS = """
    type text parts content format metadata toolInvocation toolInvocations toolCallId toolName state args result
    errorText approval reason details reasoning data url mimeType mediaType image source id title createdAt
    providerMetadata providerOptions mastra toolPayloadTransform display error input-available transformed signal
    suspendedTools pendingToolApprovals experimental_attachments contentType
"""
WORDS = """
    text reasoning file image source step-start dynamic-tool tool-invocation tool-call tool-result tool-x data-x
    data-tool-call-suspended data-tool-call-approval error call result output-error c1
"""
key, word = st.sampled_from(KEYS.split()), st.sampled_from(WORDS.split())
JSON_VALUES: st.SearchStrategy[JSON] = st.recursive(
    word
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(key, inner, max_size=6),
    max_leaves=40,
)
PARTS = st.lists(st.fixed_dictionaries({"type": word}, optional={"toolInvocation": JSON_VALUES}) | JSON_VALUES)
CONTENTS = JSON_VALUES | st.builds(
    lambda parts, fields: {**fields, "format": 2, "parts": parts}, PARTS, st.dictionaries(key, JSON_VALUES)
)


@given(CONTENTS, st.sampled_from(["user", "assistant", "tool", "signal"]))
def test_any_json_converts(content: JSON, role: str) -> None:
    before = deepcopy(content)
    message = _converted(content, role=role)
    assert content == before
    if message is not None:
        assert orjson.loads(orjson.dumps(message)) == message
        assert all(isinstance(part, dict) and isinstance(part["type"], str) for part in message["parts"])


@given(CONTENTS)
def test_no_readable_words_are_lost(content: JSON) -> None:
    message = _converted(content)
    # Data parts may speak for the message, in place of its content text.
    if message is not None and not any(part["type"].startswith("data-") for part in message["parts"]):
        texts = [part["text"] for part in message["parts"] if part["type"] == "text" and part["text"]]
        assert "\n".join(texts) == readable_text(content)
