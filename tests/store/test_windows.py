"""Windows: what may be asked for, and the one command that finds targets and neighbours. No server is asked."""

from typing import Any

import pytest
from bson import MaxKey, MinKey
from hypothesis import given
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from store.errors import InvalidArgument, LimitExceeded, StoreError
from store.scope import EVERYBODY, Scope
from store.source import Source
from store.targets import TargetQuery, Window, widest
from store.windows import IncludeItem, check_items, check_window, to_pipeline

# What may be asked for


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_windows_within_the_limits(size: int) -> None:
    check_window(size, "withNextMessages")
    with pytest.raises(InvalidArgument, match=r"withNextMessages must be a whole number >= 0, not -\d+\."):
        check_window(-1 - size, "withNextMessages")
    with pytest.raises(LimitExceeded, match=r"withNextMessages is \d+, but a window holds at most 1000 messages\."):
        check_window(1001 + size, "withNextMessages")


@pytest.mark.parametrize(
    ("items", "error", "words"),
    [
        ([IncludeItem("", "t1")], InvalidArgument, "include.id"),
        ([IncludeItem(" \t", "t1")], InvalidArgument, "include.id"),
        ([IncludeItem("m1", "")], InvalidArgument, "include.threadId"),
        ([IncludeItem("m1", "t1", before=-1)], InvalidArgument, "include.withPreviousMessages"),
        ([IncludeItem("m1", "t1", after=-1)], InvalidArgument, "include.withNextMessages"),
        ([IncludeItem("m1", "t1", before=1001)], LimitExceeded, "include.withPreviousMessages"),
        ([IncludeItem("m1", "t1", after=1001)], LimitExceeded, "include.withNextMessages"),
        ([IncludeItem("m1", "t1"), IncludeItem("\ud83d", "t1")], InvalidArgument, "include.id"),
        ([IncludeItem("m1", "t1")] * 101, LimitExceeded, "include holds 101 items, but at most 100"),
    ],
)
def test_items_beyond_the_limits(items: list[IncludeItem], error: type[StoreError], words: str) -> None:
    with pytest.raises(error) as refused:
        check_items(items)
    assert words in str(refused.value)


def test_items_within_them() -> None:
    check_items([])
    check_items([IncludeItem("m1", "t1", 1000, 1000)] * 100)


# Windows unite


@pytest.mark.parametrize(
    ("sizes", "united"),
    [
        ([], {}),
        ([("m1", 1, 2)], {"m1": (1, 2)}),
        ([("m1", 1, 0), ("m1", 0, 2)], {"m1": (1, 2)}),
        ([("m1", 5, 5), ("m1", 2, 2)], {"m1": (5, 5)}),
        ([("m1", 1, 0), ("m2", 3, 4)], {"m1": (1, 0), "m2": (3, 4)}),
        ([("m1", 0, 0)], {"m1": (0, 0)}),
    ],
)
def test_windows_around_one_message_unite(
    sizes: list[tuple[str, int, int]], united: dict[str, tuple[int, int]]
) -> None:
    assert widest(sizes) == united


SIZES = st.lists(st.tuples(st.sampled_from(["m1", "m2", "m3"]), st.integers(0, 9), st.integers(0, 9)), max_size=8)


@given(SIZES, st.randoms())
def test_neither_order_nor_repetition_matters(sizes: list[tuple[str, int, int]], random: Any) -> None:
    shuffled = sizes * 2
    random.shuffle(shuffled)
    assert widest(shuffled) == widest(sizes)
    assert all(widest(sizes)[id][0] >= before and widest(sizes)[id][1] >= after for id, before, after in sizes)


def test_a_window_names_its_target_first_and_then_the_nearest() -> None:
    assert Window("k5", ["k4", "k3"], ["k6"]).keys == ["k5", "k4", "k3", "k6"]


# The command


def source(name: str) -> Source:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)
    return Source(client["unasked"], name, timeout=1, date_fields=("createdAt",))


def pipeline(sizes: dict[str, tuple[int, int]], scope: Scope = EVERYBODY, *fields: str) -> list[dict[str, Any]]:
    query = TargetQuery(sizes, frozenset(fields))
    return to_pipeline(source("mastra_messages"), source("mastra_threads"), query, scope)


def look_ups(stages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The look-ups of neighbours by the name of their result."""
    found = [stage["$lookup"] for stage in stages if "$lookup" in stage]
    return {look_up["as"]: look_up for look_up in found if look_up["from"] == "mastra_messages"}


def test_the_command_for_a_target_with_both_neighbours() -> None:
    stages = pipeline({"m5": (2, 1)}, Scope("res-a"))
    owned = {"resourceId": {"$in": ["res-a", None]}}
    before, after = look_ups(stages)["before_2"], look_ups(stages)["after_1"]
    assert stages[:3] == [
        {"$match": {"id": {"$in": ["m5"]}}},
        {"$match": owned},
        {"$project": {"_id": 1, "createdAt": 1, "id": 1, "resourceId": 1, "thread_id": 1}},
    ]
    assert before == {
        "from": "mastra_messages",
        "localField": "thread_id",
        "foreignField": "thread_id",
        "let": {"at": {"$cond": [{"$in": ["$id", {"$literal": ["m5"]}]}, "$createdAt", MinKey()]}, "key": "$_id"},
        "pipeline": [
            {"$match": owned},
            {
                "$match": {
                    "$expr": {
                        "$and": [
                            {"$lte": ["$createdAt", "$$at"]},
                            {"$or": [{"$lt": ["$createdAt", "$$at"]}, {"$lt": ["$_id", "$$key"]}]},
                        ]
                    }
                }
            },
            {"$sort": {"createdAt": -1, "_id": -1}},
            {"$limit": 2},
            {"$project": {"_id": 1, "createdAt": 1}},
        ],
        "as": "before_2",
    }
    assert after["let"]["at"] == {"$cond": [{"$in": ["$id", {"$literal": ["m5"]}]}, "$createdAt", MaxKey()]}
    assert after["pipeline"][1]["$match"]["$expr"]["$and"][0] == {"$gte": ["$createdAt", "$$at"]}
    assert after["pipeline"][2:4] == [{"$sort": {"createdAt": 1, "_id": 1}}, {"$limit": 1}]


def test_one_look_up_for_each_size_and_none_for_no_window() -> None:
    found = look_ups(pipeline({"m1": (2, 0), "m2": (2, 3), "m3": (0, 0), "m4": (5, 3)}))
    ids_at = {name: look_up["let"]["at"]["$cond"][0]["$in"][1]["$literal"] for name, look_up in found.items()}
    assert ids_at == {"before_2": ["m1", "m2"], "before_5": ["m4"], "after_3": ["m2", "m4"]}


def test_without_windows_there_is_no_look_up_of_neighbours() -> None:
    assert look_ups(pipeline({"m1": (0, 0)})) == {}


def test_for_everybody_no_owner_is_asked_for() -> None:
    stages = pipeline({"m1": (1, 1)})
    assert stages[0] == {"$match": {"id": {"$in": ["m1"]}}}
    assert "resourceId" not in str(look_ups(stages)["before_1"]["pipeline"])


def test_the_thread_of_a_target_says_whose_it_is() -> None:
    (owner,) = [
        stage["$lookup"]
        for stage in pipeline({"m1": (0, 0)}, Scope("res-a"))
        if stage.get("$lookup", {}).get("from") == "mastra_threads"
    ]
    assert (owner["localField"], owner["foreignField"]) == ("thread_id", "id")


def test_wanted_fields_of_targets_are_fetched_with_them() -> None:
    assert "content" in pipeline({"m1": (1, 0)}, EVERYBODY, "content")[1]["$project"]
    assert "content" not in str(pipeline({"m1": (1, 0)}))


def test_user_text_is_never_a_path_nor_an_operator() -> None:
    """Ids stand in lists of values alone, where `$` means nothing to a match."""
    stages = pipeline({"$where": (0, 0), "{$ne: 1}": (0, 0)})
    assert stages[0] == {"$match": {"id": {"$in": ["$where", "{$ne: 1}"]}}}


def test_an_id_with_a_dollar_is_a_literal_among_expressions() -> None:
    """An expression would read "$createdAt" as a field; a literal keeps it a text."""
    condition = look_ups(pipeline({"$createdAt": (1, 0)}))["before_1"]["let"]["at"]["$cond"][0]
    assert condition == {"$in": ["$id", {"$literal": ["$createdAt"]}]}
