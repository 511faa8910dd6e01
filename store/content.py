"""The content of a message, which is text holding JSON when Mastra writes it and a document when others do."""

import json

import orjson

from store.values import JSON, is_too_deep, to_json


def parse_content(stored: object) -> JSON:
    """Stored content as a JSON value.

    Text that holds a JSON object or array gives that; every other text is plain words and stays
    as it is. Documents are spelt by `store.values.to_json`.
    """
    if not isinstance(stored, str):
        return to_json(stored)
    structure = parse_structure(stored)
    return stored if structure is None else structure


def parse_structure(text: str) -> dict[str, JSON] | list[JSON] | None:
    """The JSON object or array that a text holds, or None when it holds neither."""
    if not text.lstrip(" \t\n\r").startswith(("{", "[")):
        return None
    value = _loads(text)
    if not isinstance(value, (dict, list)):
        return None
    if text.count("{") + text.count("[") > 200 and is_too_deep(value):
        return None
    return value


def content_metadata(content: JSON) -> dict[str, JSON]:
    """The metadata of parsed content, empty where there are none."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def parse_metadata(stored: object) -> dict[str, JSON]:
    """A thread's or resource's metadata: a document, or in old rows text that holds one."""
    value = parse_structure(stored) if isinstance(stored, str) else to_json(stored)
    return value if isinstance(value, dict) else {}


def _loads(text: str) -> JSON:
    try:
        value: JSON = orjson.loads(text)
        return value
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return _loads_leniently(text)


def _loads_leniently(text: str) -> JSON:
    """What JavaScript or Python wrote and strict JSON refuses: NaN, halves of surrogate pairs, huge numbers."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_too_deep(value) else to_json(value)
