"""Both ways to find targets and their neighbours give the same: look-ups by an index, and the keys of whole threads."""

import random
from typing import Any

import pytest

from store.memory import Memory
from store.scope import EVERYBODY, Scope
from store.targets import Target, TargetQuery
from store.thread_keys import find_in_threads, to_pipeline
from store.windows import find_by_look_up
from tests.zoo import fill, message, thread


async def fill_threads(database: Any, dice: random.Random) -> list[tuple[str, str]]:
    """Three threads of two owners with many equal times, some rows without owner or with another's."""
    rows = [
        message(f"m{number}", dice.choice(["t1", "t2", "t9"]), dice.randrange(6), resourceId=owner)
        for number, owner in enumerate(dice.choices(["res-a", None, "res-b"], [6, 2, 1], k=60))
    ]
    await fill(database, threads=[thread("t1"), thread("t2"), thread("t9", "res-b")], messages=rows)
    return [(row["id"], row["thread_id"]) for row in rows]


def told(targets: list[Target]) -> dict[str, Any]:
    """What was found of each target."""
    return {
        target.message.id: (target.owner, target.thread_metadata, target.message.key, target.before, target.after)
        for target in targets
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scope", [EVERYBODY, Scope("res-a")])
async def test_both_ways_find_the_same(database: Any, seed: int, scope: Scope) -> None:
    dice = random.Random(seed)
    rows = await fill_threads(database, dice)
    wanted = [(id, dice.randrange(4), dice.randrange(4)) for id, _ in dice.sample(rows, 12)]
    query = TargetQuery.of([*wanted, ("nobody", 1, 1)], [*rows, ("nobody", "t1")])
    memory = Memory(database)
    sources = memory.messages.source, memory.threads.source
    by_keys, by_look_up = await find_in_threads(*sources, query, scope), await find_by_look_up(*sources, query, scope)
    assert told(by_keys) == told(by_look_up)
    assert by_keys


def shown(targets: list[Target]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that came along with each target: the target, then its neighbours, nearest first."""
    return {
        target.message.id: [(row["_id"], row["id"], row["content"], row["createdAt"]) for row in target.rows]
        for target in targets
    }


async def test_both_ways_bring_the_wanted_fields_along(database: Any) -> None:
    rows = await fill_threads(database, random.Random(9))
    query = TargetQuery.of([(id, 2, 1) for id, _ in rows[:9]], rows).showing(frozenset({"id", "content"}))
    memory = Memory(database)
    sources = memory.messages.source, memory.threads.source
    by_keys, by_look_up = [await find(*sources, query, EVERYBODY) for find in (find_in_threads, find_by_look_up)]
    assert shown(by_keys) == shown(by_look_up)
    for target in by_keys:
        assert [row["_id"] for row in target.rows] == [target.message.key, *target.before, *target.after]


def test_many_rows_are_not_brought_along() -> None:
    few = TargetQuery.of([("m1", 99, 100)], []).showing(frozenset({"content"}))
    many = TargetQuery.of([("m1", 100, 100)], []).showing(frozenset({"content"}))
    assert (few.shown, many.shown) == (frozenset({"content"}), frozenset())


async def test_a_target_lies_in_the_thread_that_is_named(plain_database: Any) -> None:
    await fill(plain_database, threads=[thread("t1"), thread("t2")], messages=[message("m1"), message("m2", "t2")])
    memory = Memory(plain_database)
    query = TargetQuery.of([("m1", 1, 1)], [("m1", "t2")])
    assert await find_in_threads(memory.messages.source, memory.threads.source, query, EVERYBODY) == []


def test_targets_that_are_said_to_lie_in_two_threads_are_not_known() -> None:
    query = TargetQuery.of([("m1", 1, 0), ("m2", 0, 1)], [("m1", "t1"), ("m1", "t2"), ("m2", "t2"), ("m3", None)])
    assert query.thread_ids == {"m2": "t2"}
    assert query.sizes == {"m1": (1, 0), "m2": (0, 1)}


async def test_the_embedded_server_is_asked_for_keys(plain_database: Any) -> None:
    memory = Memory(plain_database)
    await memory.survey()
    assert not memory.messages.source.joins_ranges
    query = TargetQuery.of([("m1", 1, 1)], [("m1", "t1")])
    pipeline = to_pipeline(memory.messages.source, memory.threads.source, query, EVERYBODY)
    assert pipeline[0] == {"$match": {"thread_id": {"$in": ["t1"]}}}
