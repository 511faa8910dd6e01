"""The metadata filters of recall, threads and nested pages, held against an oracle over random rows of both forms.

The oracle is plain Python, written from the documented rules. It never reads what is stored: every row is made
together with what it means, so that a mistake in reading one of the many spellings shows as well.
"""

import asyncio
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from store.filters import MetadataFilter
from store.indexes import create_indexes
from store.memory import Memory
from store.messages import MessageFilter
from store.nested_pages import NestedRequest
from store.paging import Needs, PageRequest
from store.recall_request import RecallRequest
from store.scope import EVERYBODY, Scope
from store.windows import IncludeItem
from tests.zoo import NOON, message, thread

T = TypeVar("T")

# --- The oracle -------------------------------------------------------------------------------------------------


def is_same(stored: object, wanted: object) -> bool:
    """Exact type: text, number, boolean and null are four types; whole numbers beyond 64 bits are doubles."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if wanted is None or isinstance(wanted, str):
        return type(stored) is type(wanted) and stored == wanted
    return type(stored) in (int, Int64, float) and as_held(stored) == as_held(wanted)


def as_held(number: Any) -> int | float:
    return number if isinstance(number, float) or -(2**63) <= number < 2**63 else float(number)


@dataclass(frozen=True, slots=True)
class Row:
    """A stored value, what its metadata mean (None: it has none), and when the row was created."""

    stored: object
    metadata: dict[str, object] | None
    minute: int = 0

    def holds(self, entries: dict[str, Any]) -> bool:
        """Whether every entry is a top-level key with this very value."""
        found = self.metadata or {}
        return all(key in found and is_same(found[key], value) for key, value in entries.items())


# --- How programs spell JSON ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """A number as it stands in JSON, and the number it is."""

    text: str
    value: int | float


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as it is written: keys may be repeated, the last one counts."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A program that writes JSON: its white space, its slash, and the characters that it spells as escapes."""

    name: str
    comma: str = ","
    colon: str = ":"
    edge: str = ""
    slash: str = "/"
    escapes: Callable[[str], bool] = lambda character: False
    hexadecimal: str = "02x"
    backwards: bool = False

    def write(self, value: Any) -> str:
        """The value as JSON."""
        if isinstance(value, Written):
            return value.text
        if isinstance(value, str):
            return '"' + "".join(map(self._spell, value)) + '"'
        if isinstance(value, (Pairs, dict)):
            pairs = value if isinstance(value, Pairs) else sorted(value.items(), reverse=self.backwards)
            return self._enclose("{}", [f"{self.write(key)}{self.colon}{self.write(item)}" for key, item in pairs])
        if isinstance(value, list):
            return self._enclose("[]", [self.write(item) for item in value])
        return json.dumps(value)

    def _enclose(self, brackets: str, items: Sequence[str]) -> str:
        return f"{brackets[0]}{self.edge}{self.comma.join(items)}{self.edge}{brackets[1]}"

    def _spell(self, character: str) -> str:
        if character in '"\\':
            return "\\" + character
        if character == "/":
            return self.slash
        if character < " " or "\ud800" <= character <= "\udfff" or self.escapes(character):
            units = character.encode("utf-16-be", "surrogatepass")
            return "".join(
                f"\\u{units[i]:{self.hexadecimal}}{units[i + 1]:{self.hexadecimal}}" for i in range(0, len(units), 2)
            )
        return character


WRITERS = [
    Writer("JavaScript"),
    Writer("Python", ", ", ": ", escapes=lambda character: character > "~"),
    Writer("indented", ",\n  ", ": ", "\n  ", backwards=True),
    Writer("tabs", "\t,\r\n", "\t: \n", " "),
    Writer("PHP", slash="\\/", escapes=lambda character: character > "~"),
    Writer("HTML", slash="\\u002F", escapes=lambda character: character in "<>&'", hexadecimal="02X"),
    Writer("letters", escapes=lambda character: character in "kv1"),
    Writer("everything", escapes=lambda character: True, slash="\\u002f"),
]

# --- Values -----------------------------------------------------------------------------------------------------

TEXTS = ["", "v", "V", "1", "true", "null", "$ne", ".*", "a/b", 'q"\\', "é", "e\u0301", "😀", "a\ufffd", "two\nlines"]
ANY_FORM: list[Any] = [None, True, False, 0, 1, -1, 0.1, *TEXTS, [], [None], ["v"], [1], [["v"]], {}, {"k": "v"}]
NUMBERS = {
    "1.0": 1.0,
    "1e0": 1.0,
    "10E-1": 1.0,
    "-0": 0,
    "-0.0": -0.0,
    "9007199254740993": 2**53 + 1,
    "9007199254740992.0": 2.0**53,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "9223372036854775809": 2**63 + 1,
    "18446744073709551617": 2**64 + 1,
    "1e400": math.inf,
    "NaN": math.nan,
    "-Infinity": -math.inf,
}
IN_TEXT: list[Any] = [*ANY_FORM, *(Written(text, value) for text, value in NUMBERS.items()), "half \ud83d", {"$ne": ""}]
MOMENT = datetime(2024, 3, 10, 12)
IN_DOCUMENTS: list[Any] = [
    *ANY_FORM,
    *(Int64(1), 1.0, -0.0, Int64(2**53 + 1), 2.0**53, Int64(2**63 - 1), Int64(-(2**63)), 2.0**63, 2.0**64),
    *(math.nan, math.inf, -math.inf, Decimal128("1"), Decimal128("1.10"), Decimal128("NaN"), [Decimal128("1")]),
    *(ObjectId("65f0c0ffee65f0c0ffee65f0"), MOMENT, Binary(b"v"), Regex("v"), Code("v"), Timestamp(1, 1), MaxKey()),
]
WANTED: list[Any] = [
    *(None, True, False, 0, -0.0, 1, 1.0, -1, 0.1, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, -(2**63), 2.0**63, 2**63),
    *(2**64, 2**70, 1e308, *TEXTS, "NaN", "1.10", "dg==", "65f0c0ffee65f0c0ffee65f0", "2024-03-10T12:00:00.000Z"),
]

# --- Rows -------------------------------------------------------------------------------------------------------

MISSING = object()
KEYS = ["k", "n", "status"]
ALPHABET = 'kv1 /"\\<&é😀\x00\t\x7f\u2028'
NO_METADATA: list[object] = [MISSING, None, 5, True, "", "see you at 5", '"k": "v"', [], {}, "[]", "{", "null"]

Shape = tuple[Callable[[Any], Any], bool]
"""What is built around metadata, and whether they are still the metadata of the row."""
AROUND_CONTENT: list[Shape] = [
    (lambda metadata: {"format": 2, "parts": [{"type": "text", "text": '"k": "v"'}], "metadata": metadata}, True),
    (lambda metadata: {"metadata": metadata, "k": "v", "n": 1, "status": None}, True),
    (lambda metadata: [{"metadata": metadata}], False),
    (lambda metadata: {"metadata": [metadata]}, False),
    (lambda metadata: {"metadata": {"metadata": metadata}}, False),
    (lambda metadata: {"metadata": None, "content": {"metadata": metadata}}, False),
    (lambda metadata: {"metadata": '{"k": "v", "n": 1, "status": null}'}, False),
]
AROUND_THREAD: list[Shape] = [
    (lambda metadata: metadata, True),
    (lambda metadata: [metadata], False),
    (lambda metadata: {"metadata": metadata}, False),
]
AROUND_TEXT: list[Shape] = [
    (lambda text: text, True),
    (lambda text: f" \n{text}\t\r\n", True),
    (lambda text: text[:-1], False),
    (lambda text: text + "}", False),
    (lambda text: json.dumps(text), False),
]


class Author(Random):
    """Makes rows up."""

    def row(self, around: list[Shape]) -> Row:
        """A row in either form."""
        minute = self.randrange(50)
        if self.random() < 0.05:
            return Row(self.choice(NO_METADATA), None, minute)
        is_text = self.random() < 0.6
        build, is_found = self.shape(around)
        pairs = [(key, self.value(IN_TEXT if is_text else IN_DOCUMENTS)) for key in self.choices(KEYS, k=3)]
        metadata = {key: meaning(value) for key, value in pairs} if is_found else None
        if not is_text:
            return Row(build(dict(pairs)), metadata, minute)
        enclose, is_json = self.shape(AROUND_TEXT)
        text = enclose(self.choice(WRITERS).write(build(Pairs(pairs))))
        return Row(text, metadata if is_json else None, minute)

    def shape(self, around: list[Shape]) -> Shape:
        """A shape; mostly one that keeps the metadata, so that filters have something to find."""
        keeping = [shape for shape in around if shape[1]]
        return self.choice(around if self.random() < 0.2 else keeping)

    def value(self, values: list[Any]) -> Any:
        """One of these values, or some text."""
        return self.choice(values) if self.random() < 0.9 else "".join(self.choices(ALPHABET, k=self.randrange(5)))


def meaning(value: object) -> object:
    return value.value if isinstance(value, Written) else value


MESSAGES = [Author(number).row(AROUND_CONTENT) for number in range(450)]
THREADS = [Author(number).row(AROUND_THREAD) for number in range(1000, 1200)]

Entries = dict[str, Any]


def matches(rows: list[Row], entries: Entries, first: int = 0, step: int = 1) -> list[int]:
    """Those of every `step`th row that match, newest first, among equal times the last inserted first."""
    found = [index for index in range(first, len(rows), step) if rows[index].holds(entries)]
    return newest_first(rows, found)


def newest_first(rows: list[Row], indexes: Iterable[int]) -> list[int]:
    return sorted(indexes, key=lambda index: (rows[index].minute, index), reverse=True)


def is_filterable(value: object) -> bool:
    """Whether a filter may ask for this value."""
    if isinstance(value, float):
        return math.isfinite(value)
    is_text = type(value) is str and not any("\ud800" <= character <= "\udfff" for character in value)
    return value is None or is_text or isinstance(value, int)


def entries(rows: list[Row]) -> st.SearchStrategy[Entries]:
    """Filters of one to three entries, most of which find something."""
    known = [
        {key: value for key, value in row.metadata.items() if is_filterable(value)} for row in rows if row.metadata
    ]
    values = st.sampled_from(WANTED) | st.sampled_from([None, 0, 1, True, False, "1"])
    one = st.builds(lambda key, value: {key: value}, st.sampled_from(KEYS), values)
    some = st.sampled_from([item for item in known if item])
    first = some.map(lambda item: dict(list(item.items())[:1]))
    return one | some | first | st.builds(lambda left, right: left | right, first, one)


PAGES = st.builds(PageRequest, st.integers(0, 3), st.just(2)) | st.sampled_from(
    [PageRequest(0, None), PageRequest(0, 0), PageRequest(1, 7)]
)


def needs(*fields: str) -> st.SearchStrategy[Needs]:
    """Any combination of what is looked at, and of the stored fields that are wanted."""
    return st.builds(Needs, *[st.booleans()] * 3, st.none() | st.frozensets(st.sampled_from(fields)))


Seen = tuple[list[str] | None, int | None, bool | None]
"""Ids, total and hasMore, as far as somebody looks at them."""


def seen(ids: Sequence[str], total: int | None, has_more: bool | None, needs: Needs) -> Seen:
    return list(ids) if needs.rows else None, total if needs.total else None, has_more if needs.has_more else None


def expect(matches: Sequence[int], page: PageRequest, needs: Needs) -> Seen:
    """The page of a list of matches: filter, then count, then cut."""
    end = len(matches) if page.per_page is None else page.offset + page.per_page
    return seen([str(index) for index in matches[page.offset : end]], len(matches), end < len(matches), needs)


# --- The store under test ---------------------------------------------------------------------------------------


class World:
    """One database, filled once: messages in three threads by turns, and threads of one owner."""

    def __init__(self, uri: str) -> None:
        self.runner = asyncio.Runner()
        self.client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
        self.database = self.client[f"recallql_test_{secrets.token_hex(6)}"]
        self.memory = Memory(self.database)
        self.run(self.fill())

    async def fill(self) -> None:
        """Insert every row under its number as id."""
        messages = [
            _document(message(str(number), f"t{number % 3}", row.minute), "content", row)
            for number, row in enumerate(MESSAGES)
        ]
        threads = [
            _document(thread(str(number), createdAt=NOON + timedelta(minutes=row.minute)), "metadata", row)
            for number, row in enumerate(THREADS)
        ]
        await self.database.mastra_messages.insert_many(messages)
        await self.database.mastra_threads.insert_many(threads)
        await create_indexes(self.database)

    def close(self) -> None:
        """Drop the database."""
        self.run(self.client.drop_database(self.database.name))
        self.run(self.client.close())
        self.runner.close()

    def run(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """The result of an awaitable, on the one loop of this world."""
        return self.runner.run(awaitable)


def _document(row: dict[str, Any], field: str, stored: Row) -> dict[str, Any]:
    rest = {key: value for key, value in row.items() if key != field}
    return rest if stored.stored is MISSING else rest | {field: stored.stored}


@pytest.fixture(scope="module")
def world(mongodb_uri: str) -> Iterator[World]:
    """One client and one event loop for every example of this module."""
    world = World(mongodb_uri)
    yield world
    world.close()


thorough = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def assert_same(found: Seen, expected: Seen, rows: list[Row]) -> None:
    """Equal; else the rows that are found or missed by mistake are shown."""
    mistaken = {int(id) for id in set(found[0] or ()) ^ set(expected[0] or ())}
    assert found == expected, [rows[index] for index in mistaken]


@given(entries=entries(MESSAGES), page=PAGES, needs=needs("id", "content"))
@thorough
def test_messages(world: World, entries: Entries, page: PageRequest, needs: Needs) -> None:
    expected = matches(MESSAGES, entries, 0, 3)
    matching = MessageFilter(metadata=MetadataFilter.from_json(entries))
    for part, looked_at in ((PageRequest(0, None), Needs()), (page, needs)):
        find = world.memory.messages.find("t0", EVERYBODY, part, matching=matching, needs=looked_at)
        found = world.run(find)
        shown = seen([each.id for each in found.messages], found.total, found.has_more, looked_at)
        assert_same(shown, expect(expected, part, looked_at), MESSAGES)


@given(entries=entries(THREADS), page=PAGES, needs=needs("id", "metadata"))
@thorough
def test_threads(world: World, entries: Entries, page: PageRequest, needs: Needs) -> None:
    expected = matches(THREADS, entries)
    metadata = MetadataFilter.from_json(entries)
    for part, looked_at in ((PageRequest(0, None), Needs()), (page, needs)):
        found = world.run(world.memory.threads.find(Scope("res-a"), part, metadata=metadata, needs=looked_at))
        shown = seen([each.id for each in found.threads], found.total, found.has_more, looked_at)
        assert_same(shown, expect(expected, part, looked_at), THREADS)


@given(entries=entries(MESSAGES), page=PAGES, needs=needs("id", "content"))
@thorough
def test_nested_pages(world: World, entries: Entries, page: PageRequest, needs: Needs) -> None:
    matching = MessageFilter(metadata=MetadataFilter.from_json(entries))
    request = NestedRequest(EVERYBODY, page, matching, needs=needs)
    found = world.run(world.memory.nested_pages.find(["t2", "t1"], request))
    for number in (1, 2):
        shown = found[f"t{number}"]
        ids = [each.id for each in shown.messages]
        expected = expect(matches(MESSAGES, entries, number, 3), page, needs)
        assert_same(seen(ids, shown.total, shown.has_more, needs), expected, MESSAGES)


@given(entries=entries(MESSAGES), page=PAGES, include=st.sets(st.integers(0, 149), min_size=1, max_size=3))
@thorough
def test_recall_with_included_messages(world: World, entries: Entries, page: PageRequest, include: set[int]) -> None:
    """The list ends early when what later pages would bring is included already."""
    included = {3 * number for number in include}
    items = tuple(IncludeItem(str(number), "t0", 0, 0) for number in included)
    matching = MessageFilter(metadata=MetadataFilter.from_json(entries))
    found = world.run(world.memory.recall(RecallRequest("t0", EVERYBODY, page, matching=matching, include=items)))
    expected = matches(MESSAGES, entries, 0, 3)
    end = len(expected) if page.per_page is None else page.offset + page.per_page
    shown = newest_first(MESSAGES, included.union(expected[page.offset : end]))
    has_more = not included.issuperset(expected[end:])
    assert [int(each.id) for each in found.messages] == shown
    assert (found.total, found.has_more) == (len(expected), has_more)
