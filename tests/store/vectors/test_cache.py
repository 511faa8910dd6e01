"""The memory for vectors: bounded, loaded once however many ask, forgotten when told, and never stale."""

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from store.vectors.batch import VectorBatch
from store.vectors.cache import RowsCache
from store.vectors.rows import VectorRows

FOREVER = 3600.0


def make_rows(count: int = 1, first: float = 1.0) -> VectorRows:
    """Vectors of messages m0, m1, ... of one thread, in four dimensions; `first` is the first number of each."""
    vectors = np.tile(np.array([first, 1.0, 0.0, 0.0], dtype=np.float32), (count, 1))
    names = [f"m{number}" for number in range(count)]
    return VectorRows.from_batches([VectorBatch(vectors, names, ["t1"] * count, ["res-a"] * count, Counter())], 4)


SIZE = make_rows(10).nbytes


class Loads:
    """Loading that can be held up: what was loaded, in order; each load gives rows of its own."""

    def __init__(self, count: int = 10) -> None:
        self.count = count
        self.begun: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def of(self, owner: str) -> Callable[[], Awaitable[VectorRows]]:
        """The load of an owner's rows."""

        async def load() -> VectorRows:
            self.begun.append(owner)
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            return make_rows(self.count)

        return load


@pytest.fixture
async def loads(anyio_backend: str) -> Loads:
    """Loads, not held up."""
    return Loads()


async def turn() -> None:
    """Let everything that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


# Kept, and how long


async def test_what_was_loaded_is_kept(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    first, second = [await cache.get("a", loads.of("a")) for _ in range(2)]
    assert first is second
    assert loads.begun == ["a"]
    assert cache.nbytes == SIZE


async def test_each_owner_has_rows_of_its_own(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    first, second = [await cache.get(owner, loads.of(owner)) for owner in "ab"]
    assert first is not second
    assert (loads.begun, cache.nbytes) == (["a", "b"], 2 * SIZE)


async def test_a_lifetime_of_nothing_loads_every_time(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, 0)
    for _ in range(3):
        await cache.get("a", loads.of("a"))
    assert (loads.begun, cache.nbytes) == (["a"] * 3, SIZE)


async def test_while_changes_are_told_rows_do_not_age(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, 0)
    cache.is_told = True
    for _ in range(3):
        await cache.get("a", loads.of("a"))
    assert loads.begun == ["a"]
    cache.is_told = False
    await cache.get("a", loads.of("a"))
    assert loads.begun == ["a", "a"]


async def test_what_is_forgotten_is_loaded_anew(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    for owner in "ab":
        await cache.get(owner, loads.of(owner))
    cache.forget("a")
    cache.forget("unknown")
    assert cache.nbytes == SIZE
    for owner in "ab":
        await cache.get(owner, loads.of(owner))
    assert loads.begun == ["a", "b", "a"]


async def test_everything_may_be_forgotten(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    for owner in "abc":
        await cache.get(owner, loads.of(owner))
    cache.forget_all()
    assert cache.nbytes == 0
    for owner in "abc":
        await cache.get(owner, loads.of(owner))
    assert loads.begun == [*"abcabc"]


# The bound


async def test_the_least_recently_used_go_first(loads: Loads) -> None:
    cache = RowsCache(3 * SIZE, FOREVER)
    for owner in ("a", "b", "c", "a", "d"):
        await cache.get(owner, loads.of(owner))
    loads.begun.clear()
    for owner in ("a", "c", "d", "b"):
        await cache.get(owner, loads.of(owner))
    assert loads.begun == ["b"]


async def test_room_is_made_for_larger_rows(loads: Loads) -> None:
    cache = RowsCache(3 * SIZE, FOREVER)
    for owner in "abc":
        await cache.get(owner, loads.of(owner))
    loads.count = 15
    large = await cache.get("large", loads.of("large"))
    assert large.nbytes <= cache.nbytes <= 3 * SIZE
    loads.begun.clear()
    await cache.get("large", loads.of("large"))
    await cache.get("a", loads.of("a"))
    assert loads.begun == ["a"]


async def test_rows_beyond_the_bound_are_given_but_not_kept(loads: Loads) -> None:
    cache = RowsCache(3 * SIZE, FOREVER)
    await cache.get("a", loads.of("a"))
    loads.count = 100
    for _ in range(2):
        assert len(await cache.get("huge", loads.of("huge"))) == 100
    await cache.get("a", loads.of("a"))
    assert (loads.begun, cache.nbytes) == (["a", "huge", "huge"], SIZE)


async def test_rows_that_grew_beyond_the_bound_leave_nothing_behind(loads: Loads) -> None:
    cache = RowsCache(3 * SIZE, 0)
    await cache.get("a", loads.of("a"))
    loads.count = 100
    assert len(await cache.get("a", loads.of("a"))) == 100
    assert cache.nbytes == 0


async def test_without_room_nothing_is_kept(loads: Loads) -> None:
    cache = RowsCache(0, FOREVER)
    for _ in range(2):
        assert len(await cache.get("a", loads.of("a"))) == 10
    assert (loads.begun, cache.nbytes) == (["a", "a"], 0)


async def test_rows_weigh_what_their_arrays_weigh() -> None:
    rows = make_rows(1000)
    arrays = rows.columns.nbytes + rows.message_of.nbytes
    assert arrays <= rows.nbytes <= arrays + 1000 * 200


@pytest.mark.parametrize("seed", range(4))
async def test_the_bound_is_never_passed_by_many_at_once(seed: int) -> None:
    """50 callers over 12 owners whose rows have any size, while some of the owners change."""
    chance = random.Random(seed)
    cache = RowsCache(4 * SIZE, FOREVER)
    seen: list[int] = []

    async def call(owner: str) -> None:
        async def load() -> VectorRows:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            return make_rows(chance.randrange(60))

        for _ in range(10):
            assert (await cache.get(owner, load)).dimensions == 4
            seen.append(cache.nbytes)
            if not chance.randrange(8):
                cache.forget(owner)
            if not chance.randrange(200):
                cache.forget_all()
            seen.append(cache.nbytes)

    await asyncio.gather(*(call(f"owner {number % 12}") for number in range(50)))
    assert 0 < max(seen) <= 4 * SIZE
    cache.forget_all()
    assert cache.nbytes == 0


# One load


async def test_many_callers_share_one_load(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, 0)
    loads.gate.clear()
    calls = [asyncio.create_task(cache.get("a", loads.of("a"))) for _ in range(50)]
    await turn()
    loads.gate.set()
    rows = await asyncio.gather(*calls)
    assert loads.begun == ["a"]
    assert all(each is rows[0] for each in rows)


async def test_a_caller_who_leaves_takes_nothing_from_the_others(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.gate.clear()
    leaving, staying = [asyncio.create_task(cache.get("a", loads.of("a"))) for _ in range(2)]
    await turn()
    leaving.cancel()
    await turn()
    loads.gate.set()
    assert len(await staying) == 10
    assert (leaving.cancelled(), loads.begun) == (True, ["a"])


async def test_a_load_that_everybody_left_is_kept(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.gate.clear()
    only = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    only.cancel()
    loads.gate.set()
    await turn()
    await cache.get("a", loads.of("a"))
    assert loads.begun == ["a"]


# Change while loading


async def test_a_change_during_a_load_is_not_lost(loads: Loads) -> None:
    """Who asked before gets what was read; who asks after the change reads anew, and that is kept."""
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.gate.clear()
    before = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    cache.forget("a")
    after = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    loads.gate.set()
    old, new = await before, await after
    assert old is not new
    assert (loads.begun, await cache.get("a", loads.of("a")) is new) == (["a", "a"], True)
    assert cache.nbytes == SIZE


async def test_a_load_from_before_a_change_is_not_kept(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.gate.clear()
    before = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    cache.forget_all()
    loads.gate.set()
    await before
    assert cache.nbytes == 0
    await cache.get("a", loads.of("a"))
    assert loads.begun == ["a", "a"]


async def test_the_older_load_does_not_displace_the_newer(anyio_backend: str) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    slow, quick = Loads(), Loads()
    slow.gate.clear()
    before = asyncio.create_task(cache.get("a", slow.of("a")))
    await turn()
    cache.forget("a")
    new = await cache.get("a", quick.of("a"))
    slow.gate.set()
    assert await before is not new
    assert await cache.get("a", quick.of("a")) is new


# Failure and end


async def test_a_failure_is_everybody_s_and_is_not_kept(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.failure = OSError("away")
    loads.gate.clear()
    calls = [asyncio.create_task(cache.get("a", loads.of("a"))) for _ in range(3)]
    await turn()
    loads.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(result) for result in results] == ["away"] * 3
    loads.failure = None
    assert len(await cache.get("a", loads.of("a"))) == 10
    assert loads.begun == ["a", "a"]


async def test_a_failure_leaves_the_others_alone(loads: Loads) -> None:
    cache = RowsCache(10 * SIZE, FOREVER)
    kept = await cache.get("a", loads.of("a"))
    loads.failure = OSError("away")
    with pytest.raises(OSError, match="away"):
        await cache.get("b", loads.of("b"))
    assert await cache.get("a", loads.of("a")) is kept


async def test_a_failure_that_nobody_waits_for_is_quiet(loads: Loads) -> None:
    """Warnings are errors here: a failure that was never retrieved would be told when the task is collected."""
    cache = RowsCache(10 * SIZE, FOREVER)
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    loads.gate.clear()
    loads.failure = OSError("away")
    only = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    only.cancel()
    loads.gate.set()
    await turn()
    del only
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert told == []


@pytest.mark.parametrize("is_changed", [False, True])
async def test_closing_ends_every_load(loads: Loads, is_changed: bool) -> None:
    """Also one from before a change, which nobody else will use."""
    cache = RowsCache(10 * SIZE, FOREVER)
    loads.gate.clear()
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(cache.get("a", loads.of("a")))
    await turn()
    if is_changed:
        cache.forget("a")
    waiting.cancel()
    await cache.aclose()
    await turn()
    assert asyncio.all_tasks() <= before
