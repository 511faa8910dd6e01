"""The content of a message, which is text holding JSON when Mastra writes it and a document when others do."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from store.values import JSON, MAX_DEPTH, is_too_deep, to_json

_OPENING = ("{", "[")


class Stored(NamedTuple):
    """A stored value, read: `value` holds what was stored, which filters compare; `to_json` is what is shown."""

    value: object
    is_json: bool
    """Whether the value can be shown as it is: strict JSON text gives nothing else."""

    def to_json(self) -> JSON:
        """The value as JSON: NaN is null, an ObjectId is text, and so on."""
        return self.value if self.is_json else to_json(self.value)  # type: ignore[return-value]

    def get(self, key: str) -> "Stored":
        """What a document holds under a key; nothing where it is none."""
        return Stored(self.value.get(key) if isinstance(self.value, dict) else None, self.is_json)

    def to_mapping(self) -> Mapping[str, object]:
        """The value where it is a document, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}


def read_stored(stored: object) -> Stored:
    """Read a stored value: text that holds a JSON object or array gives that, all else stays what it is."""
    return (isinstance(stored, str) and read_structure(stored)) or Stored(stored, False)


def read_structure(text: str) -> Stored | None:
    """The JSON object or array that a text holds, or None when it holds neither."""
    value = _read_strictly(text)
    return Stored(value, True) if value is not None else _read_leniently(text)


def parse_content(stored: object) -> JSON:
    """Stored content as a JSON value.

    Text that holds a JSON object or array gives that; every other text is plain words and stays
    as it is. Documents are spelt by `store.values.to_json`.
    """
    if not isinstance(stored, str):
        return to_json(stored)
    value = _read_strictly(stored)
    return value if value is not None else (_read_leniently(stored) or Stored(stored, False)).to_json()


def content_metadata(content: JSON) -> dict[str, JSON]:
    """The metadata of parsed content, empty where there are none."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def parse_metadata(stored: object) -> dict[str, JSON]:
    """A thread's or resource's metadata: a document, or in old rows text that holds one."""
    return to_metadata(read_stored(stored))


def to_metadata(stored: Stored) -> dict[str, JSON]:
    """Metadata that were read, empty where they are no document."""
    value = stored.to_json()
    return value if isinstance(value, dict) else {}


def _read_strictly(text: str) -> dict[str, JSON] | list[JSON] | None:
    """The object or array of strict JSON, as nearly all stored text holds; None for all other text."""
    if not text.startswith(_OPENING) and not text.lstrip(" \t\n\r").startswith(_OPENING):
        return None
    try:
        value: dict[str, JSON] | list[JSON] = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    # A level takes two characters at the least, and to count takes half as long as to read.
    may_be_deep = len(text) > 2 * MAX_DEPTH and text.count("{") + text.count("[") > MAX_DEPTH
    return None if may_be_deep and is_too_deep(value) else value


def _read_leniently(text: str) -> Stored | None:
    """What JavaScript or Python wrote and strict JSON refuses: NaN, halves of surrogate pairs, huge numbers."""
    if not text.lstrip(" \t\n\r").startswith(_OPENING):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_too_deep(value) else Stored(value, False)
