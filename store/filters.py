"""Metadata filters: exact equality on top-level keys, over documents and over text that holds JSON.

A document is matched by the database. Text is only narrowed there, by a condition that every match
fulfils, and each candidate is verified here on its parsed value with `MetadataFilter.matches`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from store.errors import InvalidArgument

MAX_KEY_LENGTH = 128
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"__proto__", "constructor", "prototype"})
_ESCAPED_ASCII = r"\\u00[2-7]"
"""Any printable ASCII character may be spelt as an escape; text that holds one is always a candidate."""
_ESCAPED = r"\\u00"
"""The beginning of all such escapes."""

Scalar = None | bool | int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class MetadataFilter:
    """Entries that must all match; the empty filter matches everything. Equal filters have values of equal types."""

    entries: tuple[tuple[str, Scalar], ...] = ()

    @classmethod
    def from_json(cls, value: object, argument: str = "metadata") -> "MetadataFilter":
        """Read `{key: scalar}`.

        Raises InvalidArgument that names the key, before the database is asked, for unsafe keys and for
        values that are not text, a finite number, a boolean or null.
        """
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidArgument(f'{argument} must be an object of keys and values, such as {{status: "open"}}.')
        return cls(tuple((_check_key(key, argument), _check_value(key, item, argument)) for key, item in value.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetadataFilter) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        # In Python 1 == True == 1.0.
        return tuple((key, type(value), value) for key, value in self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def matches(self, metadata: Mapping[str, object]) -> bool:
        """Whether stored metadata hold every entry with exactly its type and value.

        They are compared as stored: an ObjectId is no text and NaN is not null, though both are shown so.
        """
        return all(key in metadata and _is_same(metadata[key], value) for key, value in self.entries)

    def to_candidates(self, field: str, path: str) -> dict[str, object]:
        """The MongoDB condition: exact for documents with the keys under `path`, necessary for text in `field`."""
        return {"$or": [self._to_document_condition(field, path), self._to_text_condition(field)]}

    def _to_document_condition(self, field: str, path: str) -> dict[str, object]:
        # A path walks into arrays, so arrays on the way are excluded one by one. Text ends at the first of these.
        no_array = {"$not": {"$type": "array"}}
        condition: dict[str, object] = {field: {"$type": "object", **no_array}}
        condition.setdefault(path, no_array)
        condition |= {f"{path}.{key}": _document_condition(value) for key, value in self.entries}
        return condition

    def _to_text_condition(self, field: str) -> dict[str, object]:
        # Plain words first: all servers find them fast, and some take ten times as long for a pattern.
        words = {"$and": [{field: {"$regex": _certain_words(key, value)}} for key, value in self.entries]}
        hasty: dict[str, object] = {"$or": [words, {field: {"$regex": _ESCAPED}}]}
        patterns: list[object] = [{field: {"$regex": _text_pattern(key, value)}} for key, value in self.entries]
        return {"$and": [{field: {"$type": "string"}}, hasty, *patterns]}


def _check_key(key: object, argument: str) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or len(key) > MAX_KEY_LENGTH or key in _RESERVED:
        raise InvalidArgument(
            f"{argument}: the key {str(key)[:140]!r} is not allowed; a key is a letter or _ followed by letters, "
            f"digits or _, at most {MAX_KEY_LENGTH} characters, and not {', '.join(sorted(_RESERVED))}."
        )
    return key


def _check_value(key: object, value: object, argument: str) -> Scalar:
    if isinstance(value, str):
        return _check_text(key, value, argument)
    if isinstance(value, int) and not isinstance(value, bool):
        value = _fit(value)
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InvalidArgument(
        f"{argument}: the value of {key!r} must be text, a finite number, true, false or null; "
        "objects, arrays and operators are not allowed."
    )


def _check_text(key: object, value: str, argument: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{argument}: the value of {key!r} is not valid Unicode text.") from None
    return value


def _fit(number: int) -> int | float:
    """A whole number as the database can hold it: exact within 64 bits, else the nearest double."""
    if -(2**63) <= number < 2**63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _is_same(stored: object, wanted: Scalar) -> bool:
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(stored, (int, float)) and isinstance(wanted, (int, float)):
        return (_fit(stored) if isinstance(stored, int) else stored) == wanted
    return type(stored) is type(wanted) and stored == wanted


def _document_condition(value: Scalar) -> dict[str, object]:
    if value is None:
        return {"$type": "null", "$not": {"$type": "array"}}
    # Equality also matches an element of an array, and Decimal128, which counts as text here.
    return {"$eq": value, "$not": {"$type": ["array", "decimal"]}}


def _text_pattern(key: str, value: Scalar) -> str:
    return rf'"{key}"\s*:\s*{_value_pattern(value)}|{_ESCAPED_ASCII}'


def _certain_words(key: str, value: Scalar) -> str:
    """Words that stand in every JSON text of such an entry, unless it is spelt with escapes; as a pattern."""
    words = _PLAIN.match(value[:_LONGEST_PREFIX]) if isinstance(value, str) else None
    return _SPECIAL.sub(r"\\\g<0>", words.group()) if words else f'"{key}"'


def _value_pattern(value: Scalar) -> str:
    """A pattern that every JSON spelling of the value starts with."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + _certain_prefix(value)
    return r"[-0-9]"


_SPELT = {'"': r"\\\"", "\\": r"\\\\", "/": r"\\?/"}


_PLAIN = re.compile(r"""[ !#-.0-\[\]-~]{3,}""")
"""Printable ASCII that JSON writers spell in one way only: all but quotes, slashes and backslashes."""
_SPECIAL = re.compile(r"[.^$*+?{}\[\]|()]")
_LONGEST_PREFIX = 64
"""Characters of a text that narrow the candidates: servers bound the length of a pattern."""


def _certain_prefix(text: str) -> str:
    """The start of a text, up to the first character that JSON writers spell in more than one way."""
    pattern = ""
    for character in text[:_LONGEST_PREFIX]:
        if not " " <= character <= "~":
            return pattern
        pattern += _SPELT.get(character) or re.escape(character)
    return pattern + '"' if len(text) <= _LONGEST_PREFIX else pattern
