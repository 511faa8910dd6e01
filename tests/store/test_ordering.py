"""The one total order, as a value that Python compares the way the database does."""

import uuid
from typing import Any

from bson import Binary, DatetimeMS, ObjectId

from store.messages import Message
from store.scope import EVERYBODY
from tests.zoo import NOON, message


def in_order(*rows: dict[str, Any]) -> list[str]:
    """The ids of messages, sorted by their position."""
    messages = [Message.from_document(row, EVERYBODY) for row in rows]
    return [found.id for found in sorted(messages, key=lambda found: found.position)]


def row(id: str, time: Any = NOON, key: Any = None) -> dict[str, Any]:
    return message(id, _id=ObjectId() if key is None else key, createdAt=time)


def test_time_decides_before_insertion() -> None:
    first, second = ObjectId(), ObjectId()
    assert in_order(row("late", NOON, first), row("early", NOON.replace(hour=1), second)) == ["early", "late"]
    assert in_order(row("b", NOON, second), row("a", NOON, first)) == ["a", "b"]


def test_milliseconds_decide() -> None:
    rows = [row(f"m{n}", NOON.replace(year=9999, microsecond=n * 1000)) for n in (2, 0, 1)]
    assert in_order(*rows) == ["m0", "m1", "m2"]


def test_rows_without_a_time_come_first() -> None:
    bare = row("bare")
    del bare["createdAt"]
    assert in_order(row("old", NOON.replace(year=1)), bare, row("null", None))[2] == "old"


def test_years_beyond_four_digits_stand_where_the_database_has_them() -> None:
    """They are decoded as milliseconds, since Python has no such dates."""
    ancient, distant = DatetimeMS(-62_135_596_800_001), DatetimeMS(253_402_300_800_000)
    farther = DatetimeMS(253_402_300_800_001)
    rows = [row("farther", farther), row("distant", distant), row("now"), row("ancient", ancient)]
    assert in_order(*rows) == ["ancient", "now", "distant", "farther"]


def test_kinds_of_keys_stand_in_mongodbs_order() -> None:
    """Numbers, texts, binaries byte by byte, ObjectIds."""
    keys: dict[str, Any] = {
        "object id": ObjectId("00" * 12),
        "binary A": Binary(b"A" * 16, 4),
        "binary 1": Binary(b"\x01" * 16, 4),
        "uuid": Binary.from_uuid(uuid.UUID(int=2**120)),
        "text B": "B",
        "text é": "é",
        "text a": "a",
        "large": 2**62,
        "double": 1.5,
        "int": 1,
    }
    expected = ["int", "double", "large", "text B", "text a", "text é", "uuid", "binary 1", "binary A", "object id"]
    assert in_order(*(row(id, NOON, key) for id, key in keys.items())) == expected
