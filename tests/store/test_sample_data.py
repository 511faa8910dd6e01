"""The conversations that ship with the package, and the corpus that judges retrieval: both are as promised."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from bson import json_util

Document = dict[str, Any]
KINDS = ("threads", "messages", "resources")


def lines(kind: str) -> list[str]:
    return (files("store") / "sample" / f"{kind}.jsonl").read_text("utf-8").splitlines()


def load(kind: str) -> list[Document]:
    return [json_util.loads(line) for line in lines(kind)]


@pytest.fixture(scope="module")
def threads() -> dict[str, Document]:
    return {row["id"]: row for row in load("threads")}


@pytest.fixture(scope="module")
def messages() -> list[Document]:
    return load("messages")


def is_plain(message: Document) -> bool:
    return "type" not in message


def content(message: Document) -> Document:
    """The content of a message that is not plain words, whichever form it is stored in."""
    stored = message["content"]
    parsed: Document = json.loads(stored) if isinstance(stored, str) else stored
    return parsed


def parts(messages: list[Document]) -> list[Document]:
    return [part for message in messages if not is_plain(message) for part in content(message)["parts"]]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_mongodb_keeps_its_own(kind: str) -> None:
    rows = load(kind)
    assert rows
    assert not [row for row in rows if "_id" in row]
    assert max(Counter(row["id"] for row in rows).values()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_date_is_an_instant_of_2026_with_its_offset(kind: str) -> None:
    for line, row in zip(lines(kind), load(kind), strict=True):
        written = json.loads(line)
        for name in row.keys() & {"createdAt", "updatedAt"}:
            assert row[name].year == 2026, row["id"]
            assert written[name]["$date"].endswith("Z"), row["id"]


def test_a_message_belongs_to_a_thread_of_its_owner(threads: dict[str, Document], messages: list[Document]) -> None:
    strangers = [m["id"] for m in messages if threads[m["thread_id"]]["resourceId"] != m["resourceId"]]
    assert strangers == []


def test_messages_lie_in_the_order_of_their_thread_and_within_its_life(
    threads: dict[str, Document], messages: list[Document]
) -> None:
    for ident, thread in threads.items():
        times = [m["createdAt"] for m in messages if m["thread_id"] == ident]
        span = [thread["createdAt"], *times, thread["updatedAt"]]
        assert span == sorted(span), ident


def test_resources_with_working_memory_own_threads(threads: dict[str, Document]) -> None:
    owners = {thread["resourceId"] for thread in threads.values()}
    remembered = {row["id"] for row in load("resources") if row["workingMemory"].startswith("# ")}
    assert remembered == owners - {"customer-luc"}


def test_content_is_format_2_except_in_two_rows_of_plain_words(messages: list[Document]) -> None:
    plain = [m for m in messages if is_plain(m)]
    assert [m["id"] for m in plain] == ["gifts-01", "gifts-02"]
    for message in plain:
        with pytest.raises(json.JSONDecodeError):
            json.loads(message["content"])
    assert {content(m)["format"] for m in messages if not is_plain(m)} == {2}
    assert {m["type"] for m in messages if not is_plain(m)} == {"v2"}


def test_one_thread_holds_both_forms_of_content(messages: list[Document]) -> None:
    forms = Counter(type(m["content"]) for m in messages if m["thread_id"] == "thread-incident")
    assert forms == {str: 16, dict: 3}


def test_every_kind_of_part_occurs(messages: list[Document]) -> None:
    kinds = {part["type"].split("-")[0] for part in parts(messages)}
    assert kinds == {"text", "step", "reasoning", "tool", "file", "source", "data"}
    assert {m["role"] for m in messages} == {"user", "assistant", "system"}


def test_tool_calls_are_done_waiting_and_failed(messages: list[Document]) -> None:
    calls = [part["toolInvocation"] for part in parts(messages) if part["type"] == "tool-invocation"]
    assert {call["state"] for call in calls} == {"result", "call", "output-error"}
    assert all(call["errorText"] for call in calls if call["state"] == "output-error")
    assert [call["toolName"] for call in calls if call["toolCallId"] == "call-r2"] == ["issueRefund"] * 2


def test_message_metadata_have_every_type_and_are_sometimes_missing(messages: list[Document]) -> None:
    metadata = [content(m).get("metadata") for m in messages if not is_plain(m)]
    values = [value for entry in metadata if entry for value in entry.values()]
    assert {str, int, float, bool, type(None), list, dict} <= {type(value) for value in values}
    assert None in metadata
    assert {} in metadata


def test_thread_metadata_have_every_type(threads: dict[str, Document]) -> None:
    metadata = [thread["metadata"] for thread in threads.values()]
    values = [value for entry in metadata for value in entry.values()]
    assert {str, int, float, bool, type(None), list, dict} <= {type(value) for value in values}
    assert [entry["workingMemory"][:8] for entry in metadata if "workingMemory" in entry] == ["# Runner"]
    assert "region" not in threads["thread-capacity"]["metadata"]


def test_the_edges_a_listing_must_bear_are_there(threads: dict[str, Document], messages: list[Document]) -> None:
    assert set(threads) - {m["thread_id"] for m in messages} == {"thread-handover"}
    assert [ident for ident, thread in threads.items() if not thread["title"]] == ["thread-capacity"]
    (shared,) = [at for at, count in Counter(m["createdAt"] for m in messages).items() if count > 1]
    assert [m["id"] for m in messages if m["createdAt"] == shared] == ["running-09", "running-10"]


@pytest.mark.parametrize("thread", ["thread-tainan", "thread-exchange"])
def test_chinese_threads_are_written_in_traditional_characters(messages: list[Document], thread: str) -> None:
    own = [m for m in messages if m["thread_id"] == thread]
    words = "".join(part["text"] for part in parts(own) if part["type"] == "text")
    chinese = [sign for sign in words if "\u4e00" <= sign <= "\u9fff"]
    assert len(chinese) > len(words) / 2
    # Big5 has the traditional characters and lacks nearly all the simplified ones.
    assert "".join(chinese).encode("big5")


def test_two_threads_are_french(threads: dict[str, Document], messages: list[Document]) -> None:
    french = [ident for ident, thread in threads.items() if thread["metadata"].get("locale") == "fr"]
    assert french == ["thread-abonnement", "thread-recette"]
    for ident in french:
        own = [m for m in messages if m["thread_id"] == ident]
        words = [part["text"] for part in parts(own) if part["type"] == "text"]
        assert sum(" de " in text or "é" in text for text in words) > len(words) / 2


def test_the_guide_names_every_thread_with_its_number_of_messages(
    threads: dict[str, Document], messages: list[Document]
) -> None:
    guide = (files("store") / "sample" / "README.md").read_text("utf-8")
    counts = Counter(m["thread_id"] for m in messages)
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in guide.splitlines() if "| `thread-" in line]
    assert {row[2]: int(row[4]) for row in rows} == {ident: counts[ident] for ident in threads}
    assert f"{len(threads)} threads, {len(messages)} messages and 3 resources" in guide


def test_each_question_of_the_corpus_has_one_answer_of_its_own() -> None:
    corpus = json.loads((Path(__file__).parents[1] / "data" / "quality.json").read_text("utf-8"))
    ids = [message["id"] for message in corpus["messages"]]
    answers = [question["answer"] for question in corpus["questions"]]
    assert (len(set(ids)), len(set(answers))) == (len(ids), len(answers)) == (60, 24)
    assert set(answers) <= set(ids)
