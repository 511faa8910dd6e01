"""Metadata filters as values: what is read, what is refused, and the conditions they become. No server needed."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import InvalidArgument
from store.filters import MetadataFilter

RESERVED = ["__proto__", "constructor", "prototype"]
ODD_KEYS = ["", "a.b", "$where", "$or", "1st", "a-b", "a b", "é", "kéy", "k\n", "k\0", "a" * 129]
STRUCTURES = [{}, {"$ne": ""}, {"$exists": True}, {"k": "billing"}, [], ["billing"], [None], (1,)]
NO_NUMBERS = [float("nan"), float("inf"), -float("inf"), 10**400]

KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True).filter(lambda key: key not in RESERVED)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)


def condition(**entries: Any) -> dict[str, Any]:
    """What the filter asks of messages."""
    return MetadataFilter.from_json(entries).to_candidates("content", "content.metadata")


def documents(**entries: Any) -> dict[str, Any]:
    """The half of the condition that is about documents."""
    half: dict[str, Any] = condition(**entries)["$or"][0]
    return half


def patterns(condition: Any) -> list[str]:
    """All regular expressions of a condition."""
    if isinstance(condition, list):
        return [pattern for each in condition for pattern in patterns(each)]
    if not isinstance(condition, dict):
        return []
    own = [condition["$regex"]] if "$regex" in condition else []
    return own + [pattern for value in condition.values() for pattern in patterns(value)]


def fulfils(text: str, condition: Any) -> bool:
    """Whether text fulfils a condition of the kinds that are used for it."""
    ((name, value),) = condition.items()
    if name == "$and":
        return all(fulfils(text, each) for each in value)
    if name == "$or":
        return any(fulfils(text, each) for each in value)
    assert name == "content"
    return value == {"$type": "string"} or bool(re.search(value["$regex"], text))


def is_candidate(text: str, **entries: Any) -> bool:
    """Whether stored text survives the narrowing."""
    return fulfils(text, condition(**entries)["$or"][1])


@pytest.mark.parametrize("value", ["open", "", "$ne", 0, -1, 2**63 - 1, 1.5, -0.0, True, False, None])
def test_scalars_are_kept_as_they_are(value: Any) -> None:
    ((key, kept),) = MetadataFilter.from_json({"status": value}).entries
    assert (key, kept, type(kept)) == ("status", value, type(value))


@pytest.mark.parametrize("key", ["a", "_", "A9_z", "a" * 128, "proto", "__proto"])
def test_plain_keys_are_accepted(key: str) -> None:
    assert MetadataFilter.from_json({key: 1}).entries == ((key, 1),)


@pytest.mark.parametrize("key", [*ODD_KEYS, *RESERVED])
def test_other_keys_are_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(repr(key))):
        MetadataFilter.from_json({key: 1})


@pytest.mark.parametrize("value", [*STRUCTURES, *NO_NUMBERS, b"x", object(), "half \ud83d"])
def test_other_values_are_refused_by_the_name_of_their_key(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="'tag'"):
        MetadataFilter.from_json({"fine": 1, "tag": value})


@pytest.mark.parametrize("value", [[], [{"a": 1}], "x", "", 1, 0, True, False])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="metadata must be an object"):
        MetadataFilter.from_json(value)


def test_an_argument_is_named_as_the_caller_calls_it() -> None:
    with pytest.raises(InvalidArgument, match=r"^threadConfig\.semanticRecall\.filter: "):
        MetadataFilter.from_json({"a.b": 1}, "threadConfig.semanticRecall.filter")


@pytest.mark.parametrize("value", [None, {}])
def test_no_entries_match_everything(value: Any) -> None:
    empty = MetadataFilter.from_json(value)
    assert not empty
    assert empty.matches({})


@pytest.mark.parametrize(("number", "kept"), [(2**63, 2.0**63), (-(2**63) - 1, -(2.0**63)), (2**64 + 1, 2.0**64)])
def test_whole_numbers_beyond_64_bits_are_doubles(number: int, kept: float) -> None:
    ((_, value),) = MetadataFilter.from_json({"n": number}).entries
    assert (value, type(value)) == (kept, float)


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1.0, True), (1, "1"), (None, False)])
def test_filters_of_other_types_are_other_filters(one: Any, other: Any) -> None:
    """Filters are keys of the loaders: filters that count as one share their rows."""
    assert MetadataFilter.from_json({"n": one}) != MetadataFilter.from_json({"n": other})


def test_documents_are_matched_by_equality_and_never_through_an_array() -> None:
    no_array = {"$not": {"$type": "array"}}
    assert documents(status="open") == {
        "content": {"$type": "object"} | no_array,
        "content.metadata": no_array,
        "content.metadata.status": {"$eq": "open", "$not": {"$type": ["array", "decimal"]}},
    }


def test_null_in_a_document_is_an_explicit_null() -> None:
    assert documents(reviewed=None)["content.metadata.reviewed"] == {"$type": "null", "$not": {"$type": "array"}}


@pytest.mark.parametrize("value", ["$gt", 1, 2.5, 2**63 - 1, True, False])
def test_a_value_is_an_operand_and_never_an_operator(value: Any) -> None:
    (operand,) = [documents(k=value)["content.metadata.k"]["$eq"]]
    assert (operand, type(operand)) == (value, type(value))


def test_every_entry_must_hold_in_documents_and_in_text() -> None:
    found = condition(a=1, b="x")
    documents, text = found["$or"]
    assert list(found) == ["$or"]
    assert {"content.metadata.a", "content.metadata.b"} < documents.keys()
    assert text["$and"][0] == {"content": {"$type": "string"}}
    assert is_candidate('{"a":1,"b":"x"}', a=1, b="x")
    assert not any(is_candidate(lacking, a=1, b="x") for lacking in ('{"a":1}', '{"b":"x"}', '{"a":1,"b":"y"}'))


def renamed(condition: Any) -> Any:
    """The condition on text of messages as one of threads."""
    return json.loads(json.dumps(condition).replace('"content"', '"metadata"'))


def test_metadata_of_threads_are_a_field_of_their_own() -> None:
    metadata = MetadataFilter.from_json({"vip": True}).to_candidates("metadata", "metadata")
    assert metadata["$or"] == [
        {
            "metadata": {"$type": "object", "$not": {"$type": "array"}},
            "metadata.vip": {"$eq": True, "$not": {"$type": ["array", "decimal"]}},
        },
        renamed(condition(vip=True)["$or"][1]),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"metadata":{"k":"v"}}', "v"),
        ('{"metadata": {"k" :\n\t"v"}}', "v"),
        ('{"metadata":{"k":"a\\/b"}}', "a/b"),
        ('{"metadata":{"k":"a/b"}}', "a/b"),
        ('{"metadata":{"k":"q\\"\\\\.*"}}', 'q"\\.*'),
        ('{"metadata":{"k":"\\u00e9"}}', "é"),
        ('{"metadata":{"k":"é"}}', "é"),
        ('{"metadata":{"\\u006b":"\\u0076"}}', "v"),
        ('{"metadata":{"k":"\\t"}}', "\t"),
        ('{"metadata":{"k":1e0}}', 1),
        ('{"metadata":{"k":-0.0}}', 0),
        ('{"metadata":{"k":true}}', True),
        ('{"metadata":{"k":null}}', None),
        ('{"metadata":{"k":2,"k":"v"}}', "v"),
    ],
)
def test_text_that_matches_is_a_candidate(text: str, value: Any) -> None:
    assert is_candidate(text, k=value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("see you at 5", "v"),
        ('{"metadata":{"k":"w"}}', "v"),
        ('{"metadata":{"k":"va"}}', "v"),
        ('{"metadata":{"k":".x"}}', ".*"),
        ('{"metadata":{"kk":"v"}}', "v"),
        ('{"metadata":{"k":"1"}}', 1),
        ('{"metadata":{"k":1}}', "1"),
        ('{"metadata":{"k":1}}', True),
        ('{"metadata":{"k":[null]}}', None),
        ('{"metadata":{"k":["v"]}}', "v"),
        ('{"metadata":{}}', None),
    ],
)
def test_other_text_is_left_in_the_database(text: str, value: Any) -> None:
    assert not is_candidate(text, k=value)


@given(
    entries=st.dictionaries(KEYS, SCALARS, min_size=1, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
def test_what_python_writes_is_a_candidate_for_what_it_wrote(
    entries: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps({"metadata": entries}, indent=indent, ensure_ascii=ascii_only)
    assert is_candidate(text, **entries)


@pytest.mark.parametrize("text", ["a" * 999, "." * 999, '"' * 40_000, "€" * 40_000, "a" * 1_000_000])
def test_no_pattern_outgrows_what_servers_accept(text: str) -> None:
    """MongoDB refuses patterns of more than 32764 bytes, the embedded server those of more than 1000 characters."""
    found = patterns(condition(**{"k" * 128: text}))
    assert found
    assert max(map(len, found)) <= 1000


@pytest.mark.parametrize(
    ("stored", "wanted", "same"),
    [
        (1, 1.0, True),
        (-0.0, 0, True),
        (2**53 + 1, 2**53 + 1, True),
        (2**53 + 1, 2.0**53, False),
        (2**63 - 1, 2.0**63, False),
        (2**63, 2**63 + 1, True),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        ("1", 1, False),
        ("true", True, False),
        (None, False, False),
        (False, None, False),
        ("", None, False),
        ([1], 1, False),
        ([None], None, False),
        ({"k": 1}, 1, False),
        ("É", "é", False),
        ("e\u0301", "é", False),
    ],
)
def test_values_match_by_exact_type(stored: Any, wanted: Any, same: bool) -> None:
    assert MetadataFilter.from_json({"k": wanted}).matches({"k": stored}) is same


def test_a_missing_key_is_no_null() -> None:
    assert not MetadataFilter.from_json({"k": None}).matches({"other": None})


def test_all_entries_must_match() -> None:
    metadata: dict[str, Any] = {"a": 1, "b": "x", "more": None}
    assert MetadataFilter.from_json({"a": 1, "b": "x"}).matches(metadata)
    assert not MetadataFilter.from_json({"a": 1, "b": "y"}).matches(metadata)
