"""The readable text of a message, and the parts of its content, whatever form they were stored in.

Four forms are read:

- format 2, `{"format": 2, "parts": [...], "content"?: text, "metadata"?: {...}}`
- version 1, a bare list of parts, or one part by itself
- plain words, as text
- a document that only wraps one of these as its `content`
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from store.values import JSON

Part = dict[str, JSON]

# Part types whose `text`, if any, is not what was said to the reader.
_SILENT_TYPES = frozenset({"reasoning", "redacted-reasoning", "file", "image", "step-start", "dynamic-tool", "error"})
_SILENT_PREFIXES = ("tool-", "data-", "source")


@dataclass(frozen=True, slots=True)
class StoredContent:
    """Stored content, taken apart.

    `fields` is the outermost document ({} when there is none), `parts` its parts in the spelling of
    format 2, `words` the document's own `content` text ("" when there is none).
    """

    fields: Part
    parts: list[Part]
    words: str = ""


def readable_text(content: JSON) -> str:
    """The readable text of the message: its text parts, joined.

    `content` is the stored content, parsed. Text parts are joined by one newline, empty ones left out;
    without any, the document's own `content` text is the text. Numbers and booleans in the place of a text
    are spelt as JSON. Reasoning, tool calls, files, sources and data are no text. Never raises; "" when
    there is nothing to read.
    """
    lone = _lone_text(content)
    if lone:
        return lone
    stored = stored_content(content)
    texts = [text for part in stored.parts if (text := part_text(part))]
    return "\n".join(texts) or stored.words


def _lone_text(content: JSON) -> str | None:
    """The text of a message with a single text part, as most are: the same answer, without taking it apart."""
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or len(parts) != 1:
        return None
    part = parts[0]
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    return text if isinstance(text, str) else None


def part_text(part: Part) -> str | None:
    """The text of one part, or None when it is no text part.

    A part of a type that nobody knows counts as text when it has a `text`, so that no words are lost.
    """
    kind = _key(part, "type")
    if kind in _SILENT_TYPES or kind.startswith(_SILENT_PREFIXES):
        return None
    return _words(part.get("text"))


def stored_content(content: JSON) -> StoredContent:
    """Take apart stored content of any form (see the module). Never raises; unknown forms have no parts."""
    fields: Part = {}
    while isinstance(content, dict):
        fields = fields or content
        parts, inner = content.get("parts"), content.get("content")
        if isinstance(inner, (dict, list)) and not (isinstance(parts, list) and parts):
            content = inner
            continue
        words = _words(inner) or ""
        if isinstance(parts, list):
            return StoredContent(fields, _as_parts(parts), words)
        is_part = "type" in content or "text" in content
        return StoredContent(fields, _from_v1([content]) if is_part else [], words)
    if isinstance(content, list):
        return StoredContent(fields, _from_v1(content))
    return StoredContent(fields, _as_parts([content]))


def _as_parts(values: list[JSON]) -> list[Part]:
    parts = (value if isinstance(value, dict) else _word_part(value) for value in values)
    return [part for part in parts if part]


def _word_part(value: JSON) -> Part | None:
    words = _words(value)
    return None if words is None else {"type": "text", "text": words}


def _words(value: JSON) -> str | None:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, (bool, int, float)) else None


def _from_v1(values: list[JSON]) -> list[Part]:
    """Parts as version 1 spells them (`tool-call`, `tool-result`, `image`, ...), spelt as in format 2.

    Words that follow a tool call begin a new step, and empty texts beside anything else are left out.
    """
    parts = _as_parts(values)
    arguments = {_key(part, "toolCallId"): part["args"] for part in parts if "args" in part}
    modern: list[Part] = []
    for part in parts:
        if part.get("type") == "text" and modern and modern[-1].get("type") == "tool-invocation":
            modern.append({"type": "step-start"})
        upgrade = _V1_PARTS.get(_key(part, "type"))
        options = part.get("providerOptions")
        provider: Part = {"providerMetadata": options} if isinstance(options, dict) else {}
        modern.append((upgrade(part, arguments) if upgrade else part) | provider)
    return [part for part in modern if part.get("type") != "text" or part.get("text") != ""] or modern


def _key(part: Part, name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""


def _v1_call(part: Part, arguments: Part) -> Part:
    if "toolName" not in part:
        return part
    call: Part = {key: part[key] for key in ("toolCallId", "toolName", "args") if key in part}
    return {"type": "tool-invocation", "toolInvocation": {"state": "call", **call}}


def _v1_result(part: Part, arguments: Part) -> Part:
    if "toolName" not in part:
        return part
    call: Part = {key: part[key] for key in ("toolCallId", "toolName") if key in part}
    call["args"] = arguments.get(_key(part, "toolCallId"), {})
    call["result"] = "" if part.get("result") is None else part["result"]
    return {"type": "tool-invocation", "toolInvocation": {"state": "result", **call}}


def _v1_reasoning(part: Part, arguments: Part) -> Part:
    return {"type": "reasoning", "details": [{"type": "text", "text": part.get("text")}]}


def _v1_redacted_reasoning(part: Part, arguments: Part) -> Part:
    return {"type": "reasoning", "details": [{"type": "redacted"}]}


def _v1_image(part: Part, arguments: Part) -> Part:
    return {"type": "file", "data": part.get("image"), "mimeType": part.get("mimeType")}


_V1_PARTS: dict[str, Callable[[Part, Part], Part]] = {
    "tool-call": _v1_call,
    "tool-result": _v1_result,
    "reasoning": _v1_reasoning,
    "redacted-reasoning": _v1_redacted_reasoning,
    "image": _v1_image,
}
