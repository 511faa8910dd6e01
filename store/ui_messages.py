"""Stored messages as AI SDK v5 `UIMessage`: `{id, role, parts, metadata}`, what `useChat` takes.

The rules are those of `toAISdkV5Messages` of `@mastra/ai-sdk` 1.10, so a front-end may mix both. Where that
function drops or garbles what a `UIMessage` can hold, this one keeps it: tool parts stored in their v5 form,
`source-document`, the `text` of unknown part types, the `content` text of a message that shows no other
words, documents without `format`, and data URLs that are not base64.
"""

import re
from collections.abc import Callable
from functools import partial

from store.texts import Part, StoredContent, part_text, stored_content
from store.values import JSON

_UNKNOWN_TOOL = "unknown_tool"
_DEFAULT_MEDIA_TYPE = "image/png"
_NOT_APPROVED = "Tool call was not approved by the user"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//.|file-")
# What runs of an agent inject for the model's eyes; the library shows it to nobody.
_REMINDER_TAG = "<system-reminder"
_REMINDER_KEYS = frozenset({"systemReminder", "dynamicAgentsMdReminder"})
_LONE_KEYS = frozenset({"format", "parts", "content", "metadata", "providerMetadata"})
_WAITING_KEYS = ("suspendedTools", "pendingToolApprovals")
_SUSPENDED, _APPROVAL = "data-tool-call-suspended", "data-tool-call-approval"


def to_ui_message(
    *, id: str, role: str, created_at: str, thread_id: str, resource_id: str | None, content: JSON
) -> Part | None:
    """A stored message as AI SDK v5 `UIMessage`, or None for what a chat does not show.

    `content` is the stored content, parsed, in any form; `created_at` is ISO text. The metadata are those
    of the content and `createdAt`, `threadId` and, where there is an owner, `resourceId`. None: system
    messages, and the reminders that agents inject for their model. A `signal` of a user is that user's
    message, any other signal one `data-signal` part of an assistant's message; every other role that
    `UIMessage` lacks (`tool`, `data`) reads as assistant. Never raises; nested values are shared with
    `content`, not copied.
    """
    if role == "system":
        return None
    texts = _lone_texts(content) if role in ("user", "assistant") else None
    if texts is not None:
        metadata = _metadata(content, created_at, thread_id, resource_id)  # type: ignore[arg-type]
        parts = _with_tool_states(texts, metadata)
        return None if _is_reminder(role, metadata, parts) else _message(id, role, metadata, parts)
    stored = stored_content(content)
    metadata = _metadata(stored.fields, created_at, thread_id, resource_id)
    signal = _signal(stored) if role == "signal" else {}
    if role == "signal" and signal.get("type") not in ("user", "user-message"):
        ui_role, parts = "assistant", [_signal_part(signal, stored, id, created_at)]
    else:
        ui_role = "user" if role in ("user", "signal") else "assistant"
        parts = _parts(stored, metadata)
    return None if _is_reminder(ui_role, metadata, parts) else _message(id, ui_role, metadata, parts)


def _message(id: str, role: str, metadata: Part, parts: list[Part]) -> Part:
    return {"id": id, "role": role, "metadata": metadata, "parts": [*parts]}


def _lone_texts(content: JSON) -> list[Part] | None:
    """The parts of a message that holds nothing but texts, as most do: the same answer, without taking it apart."""
    stored = content.get("parts") if isinstance(content, dict) else None
    if not stored or not isinstance(stored, list) or not _LONE_KEYS.issuperset(content):  # type: ignore[arg-type]
        return None
    parts: list[Part] = []
    for part in stored:
        text = part.get("text") if isinstance(part, dict) and len(part) == 2 and part.get("type") == "text" else None
        if not text or not isinstance(text, str):
            return None
        parts.append({"type": "text", "text": text})
    return parts


def _metadata(fields: Part, created_at: str, thread_id: str, resource_id: str | None) -> Part:
    metadata = _as_dict(fields.get("metadata")).copy()
    for key, value in (("createdAt", created_at), ("threadId", thread_id), ("resourceId", resource_id)):
        if value:
            metadata[key] = value
    provider = fields.get("providerMetadata")
    if isinstance(provider, dict):
        metadata["providerMetadata"] = provider
    return metadata


def _is_reminder(role: str, metadata: Part, parts: list[Part]) -> bool:
    # Empty objects and lists are true in JavaScript, which wrote them.
    if not _REMINDER_KEYS.isdisjoint(metadata) and any(
        metadata.get(key) not in (None, False, 0, "") for key in _REMINDER_KEYS
    ):
        return True
    if role != "user":
        return False
    return any(part["type"] == "text" and _REMINDER_TAG in _as_str(part.get("text")) for part in parts)


def _parts(stored: StoredContent, metadata: Part) -> list[Part]:
    parts = _message_level_parts(stored)
    invocations = [source["toolInvocation"] for source in stored.parts if "toolInvocation" in source]
    called = {_as_str(_at(call, "toolCallId")) for call in (*parts, *invocations)}
    converted = [_to_part(source) for source in stored.parts if not _is_repeated(source, called)]
    parts.extend(part for part in converted if part is not None)
    if stored.words and not any(_has_content(part) for part in parts):
        parts.append({"type": "text", "text": stored.words})
    return _with_tool_states(parts, metadata)


def _is_repeated(source: Part, called: set[str]) -> bool:
    """Whether a tool part in v5 form tells of a call that the message also keeps in the older form."""
    return _as_str(source.get("toolCallId")) in called and _converter(source) is _tool_in_v5_form


def _has_content(part: Part) -> bool:
    kind = _as_str(part.get("type"))
    return bool(part.get("text")) if kind == "text" else kind.startswith("data-") and kind not in _TOOL_STATES


def _to_part(source: Part) -> Part | None:
    return _converter(source)(source)


def _converter(source: Part) -> Callable[[Part], Part | None]:
    kind = _as_str(source.get("type"))
    if kind in _CONVERTERS:
        return _CONVERTERS[kind]
    return next((convert for prefix, convert in _PREFIXES.items() if kind.startswith(prefix)), _text)


def _as_is(source: Part) -> Part:
    return source


def _text(source: Part) -> Part | None:
    text = part_text(source)
    return None if text is None else {"type": "text", "text": text, **_provider_metadata(source)}


def _reasoning(source: Part) -> Part | None:
    details = _as_list(source.get("details"))
    told = [_as_str(_at(detail, "text")) for detail in details if _at(detail, "type") == "text"]
    text = _as_str(source.get("reasoning")) or "".join(told)
    if not text and not details:
        return None
    return {"type": "reasoning", "text": text, "state": "done", **_provider_metadata(source)}


def _source(source: Part) -> Part | None:
    url, own_id, title = (_at(source, "source", key) for key in ("url", "id", "title"))
    if not isinstance(url, str):
        return None
    part: Part = {"type": "source-url", "url": url, "sourceId": own_id if isinstance(own_id, str) else url}
    return part | ({"title": title} if isinstance(title, str) else {}) | _provider_metadata(source)


def _file(source: Part) -> Part | None:
    data = _as_str(source.get("data")) or _as_str(source.get("url"))
    declared = _as_str(source.get("mimeType")) or _as_str(source.get("mediaType"))
    if not data:
        return None
    url, media_type = _located(data, declared)
    filename = _as_str(source.get("filename"))
    part: Part = {"type": "file", "url": url, "mediaType": media_type}
    return part | ({"filename": filename} if filename else {}) | _provider_metadata(source)


def _located(data: str, declared: str) -> tuple[str, str]:
    """The URL and the media type of a file stored as data URL, URL, provider's file id or bare base64."""
    if data.startswith("data:"):
        header, _, payload = data[len("data:") :].partition(",")
        own, _, encoding = header.partition(";")
        media_type = declared or (own if payload else "") or _DEFAULT_MEDIA_TYPE
        is_base64 = bool(payload) and encoding.endswith("base64")
        return (f"data:{media_type};base64,{payload}" if is_base64 else data), media_type
    media_type = declared or _DEFAULT_MEDIA_TYPE
    return (data if _URL.match(data) else f"data:{media_type};base64,{data}"), media_type


def _tool_invocation(source: Part) -> Part | None:
    call, provider = source.get("toolInvocation"), source.get("providerMetadata")
    if not isinstance(call, dict):
        return None
    settle = _OUTCOMES.get(_as_str(call.get("state")))
    return {
        **_tool_heading(call),
        **_shown("input", call, "args", provider, "input-available"),
        **(settle(call, provider) if settle else {"state": "input-available"}),
        **_provider_metadata(source, "callProviderMetadata"),
        **({"providerExecuted": source["providerExecuted"]} if "providerExecuted" in source else {}),
    }


def _tool_heading(call: Part) -> Part:
    name = _as_str(call.get("toolName")) or _UNKNOWN_TOOL
    return {"type": f"tool-{name}", "toolCallId": _as_str(call.get("toolCallId"))}


def _succeeded(call: Part, provider: JSON) -> Part:
    shown = _shown("output", call, "result", provider, "output-available", "error")
    return shown | {"state": "output-available"}


def _failed(call: Part, provider: JSON) -> Part:
    error: Part = {"errorText": _as_str(call.get("errorText"))}
    return _shown("errorText", error, "errorText", provider, "error") | {"state": "output-error"}


def _denied(call: Part, provider: JSON) -> Part:
    reason = _at(call, "approval", "reason")
    return {"output": _NOT_APPROVED if reason is None else reason, "state": "output-available"}


def _tool_in_v5_form(source: Part) -> Part | None:
    is_whole = isinstance(source.get("toolCallId"), str) and isinstance(source.get("state"), str)
    return source if is_whole else None


def _tool_state(source: Part, phase: str) -> Part:
    """The part of a tool call that waits for a person: its data with the payloads meant for display."""
    data = source.get("data")
    if not isinstance(data, dict):
        return source
    provider = data.get("providerMetadata") if data.get("metadata") is None else data["metadata"]
    order = (phase, "input-available") if phase == "approval" else ("input-available", phase)
    shown = _shown("args", data, "args", provider, *order)
    payload = _shown("suspendPayload", data, "suspendPayload", provider, phase) if phase == "suspend" else {}
    return source | {"data": data | shown | payload}


def _shown(name: str, stored: Part, key: str, provider: JSON, *phases: str) -> Part:
    """`{name: value}`: the payload meant for display at the first of `phases` that has one, else the stored one.

    An agent may keep such a payload beside the raw one, to hide or shorten what people see.
    """
    for phase in phases:
        transforms = (_at(provider, "mastra", where, "display", phase) for where in _TRANSFORMS)
        state = _as_dict(next((state for state in transforms if state is not None), None))
        for field in ("transformed", "projected"):
            if field in state:
                return {name: state[field]}
    return {name: stored[key]} if key in stored else {}


def _provider_metadata(source: Part, name: str = "providerMetadata") -> Part:
    """The provider's metadata of a part under `name`, with the time of the part, where there are any."""
    metadata, created = source.get("providerMetadata"), source.get("createdAt")
    if created is not None:
        metadata = _as_dict(metadata) | {"mastra": _as_dict(_at(metadata, "mastra")) | {"createdAt": created}}
    return {} if metadata is None else {name: metadata}


def _message_level_parts(stored: StoredContent) -> list[Part]:
    """Tool calls, reasoning and files that older rows keep beside the parts, where the parts have none."""
    if stored.fields.keys().isdisjoint(("toolInvocations", "reasoning", "experimental_attachments")):
        return []
    fields, kinds = stored.fields, {_as_str(source.get("type")) for source in stored.parts}
    parts: list[Part] = []
    if "tool-invocation" not in kinds:
        calls = (call for call in _as_list(fields.get("toolInvocations")) if isinstance(call, dict))
        parts.extend(_message_level_call(call) for call in calls)
    reasoning = _as_str(fields.get("reasoning"))
    if reasoning and "reasoning" not in kinds:
        parts.append({"type": "reasoning", "text": reasoning})
    if "file" not in kinds:
        files = (_message_level_file(file) for file in _as_list(fields.get("experimental_attachments")))
        parts.extend(file for file in files if file is not None)
    return parts


def _message_level_file(attachment: JSON) -> Part | None:
    url, media_type = _at(attachment, "url"), _as_str(_at(attachment, "contentType"))
    return {"type": "file", "url": url, "mediaType": media_type or "unknown"} if isinstance(url, str) else None


def _message_level_call(call: Part) -> Part:
    is_streaming = call.get("state") == "partial-call"
    part = _tool_invocation({"toolInvocation": call}) or {}
    return part | {"state": "input-streaming"} if is_streaming else part


def _with_tool_states(parts: list[Part], metadata: Part) -> list[Part]:
    """The parts, each call that the metadata name as suspended or unapproved followed by its data part."""
    if not any(key in metadata for key in _WAITING_KEYS):
        return parts
    states = (part for part in parts if part["type"] in _TOOL_STATES)
    told = {_as_str(_at(part, "data", "toolCallId")) for part in states}
    for key, kind in zip(_WAITING_KEYS, (_SUSPENDED, _APPROVAL), strict=True):
        waiting = metadata.get(key)
        for state in waiting.values() if isinstance(waiting, dict) else _as_list(waiting):
            call_id = _at(state, "toolCallId")
            if isinstance(call_id, str) and call_id not in told:
                told.add(call_id)
                parts.insert(_place_after(parts, call_id), _TOOL_STATES[kind]({"type": kind, "data": state}))
    return parts


def _place_after(parts: list[Part], call_id: str) -> int:
    calls = (
        place
        for place, part in enumerate(parts, start=1)
        if _as_str(part["type"]).startswith("tool-") and part.get("toolCallId") == call_id
    )
    return next(calls, len(parts))


def _signal(stored: StoredContent) -> Part:
    return _as_dict(_at(stored.fields, "metadata", "signal"))


def _signal_part(signal: Part, stored: StoredContent, id: str, created_at: str) -> Part:
    kind = _as_str(signal.get("type")) or "signal"
    words = stored.words or next((text for part in stored.parts if (text := part_text(part))), "")
    optional = {key: _as_dict(signal.get(key)) for key in ("attributes", "metadata")}
    data: Part = {
        "id": _as_str(signal.get("id")) or id,
        "type": kind,
        "tagName": _as_str(signal.get("tagName")) or kind,
        "contents": signal.get("contents", words),
        "createdAt": _as_str(signal.get("createdAt")) or created_at,
        **({"acceptedAt": signal["acceptedAt"]} if isinstance(signal.get("acceptedAt"), str) else {}),
        **{key: value for key, value in optional.items() if value},
    }
    return {"type": "data-signal", "data": data}


def _as_dict(value: JSON) -> Part:
    return value if isinstance(value, dict) else {}


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _as_str(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _at(value: JSON, *keys: str) -> JSON:
    """The value at a path of keys, None where the path ends early."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


_TRANSFORMS = ("toolPayloadTransform", "toolPayloadProjection")

_OUTCOMES: dict[str, Callable[[Part, JSON], Part]] = {
    "result": _succeeded,
    "output-error": _failed,
    "output-denied": _denied,
}

_TOOL_STATES: dict[str, Callable[[Part], Part]] = {
    _SUSPENDED: partial(_tool_state, phase="suspend"),
    _APPROVAL: partial(_tool_state, phase="approval"),
}

_CONVERTERS: dict[str, Callable[[Part], Part | None]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tool-invocation": _tool_invocation,
    "dynamic-tool": _tool_in_v5_form,
    "file": _file,
    "source": _source,
    "source-url": _as_is,
    "source-document": _as_is,
    "step-start": _as_is,
    # No type of UIMessage; kept, as the library keeps it, because a front-end may show it.
    "error": _as_is,
    **_TOOL_STATES,
}

_PREFIXES: dict[str, Callable[[Part], Part | None]] = {"tool-": _tool_in_v5_form, "data-": _as_is}
