"""Every workload that is measured is answered, in as few commands as the budgets allow, by both applications."""

import json
from typing import Any

import pytest

from bench.__main__ import Place, counting, running
from bench.callers import InProcess, WholeThread
from bench.measuring import Samples, Sampling, measure
from bench.queries import Workload, workloads
from bench.results import HERE, STOCK, Result
from bench.rows import LONG_TEXT, Size, load
from bench.stock import create_stock_app, stock_encoder
from graph.app import create_app

SIZE = Size(owners=3, threads=4, messages=5, long=300)
WORKLOADS = workloads(SIZE)
MOST_COMMANDS = {"semantic": 6, "dashboard": 4, "five includes": 3, "newest 3": 3, "after row": 3}
"""Two for all others. A search that is cold reads the vectors as well."""


@pytest.fixture
async def place(plain_database: Any, mongodb_uri: str) -> Place:
    """A small database of the rows that are measured."""
    await load(plain_database, SIZE)
    return Place(mongodb_uri, plain_database.name)


async def test_every_workload_is_answered_in_few_commands(place: Place) -> None:
    for is_cold in (False, True):
        async with counting(place, is_cold=is_cold) as counted:
            for workload in (each for each in WORKLOADS if each.is_cold == is_cold):
                traffic, size = await counted.count(workload, counted.here)
                most = next((most for name, most in MOST_COMMANDS.items() if name in workload.name), 2)
                assert 1 <= traffic.commands <= most, workload.name
                assert traffic.bytes >= traffic.documents > 0
                assert size > 300


async def test_both_applications_give_the_same(place: Place) -> None:
    settings = place.settings()
    async with running(create_app(settings)) as here, running(create_stock_app(settings)) as stock:
        for workload in WORKLOADS:
            expected = json.loads(await InProcess(stock, stock_encoder).ask(workload))
            assert json.loads(await InProcess(here).ask(workload)) == expected


async def test_a_filter_finds_what_reading_the_whole_thread_finds(place: Place, plain_database: Any) -> None:
    async with running(create_app(place.settings())) as app:
        for workload in (each for each in WORKLOADS if each.topic):
            answer = json.loads(await InProcess(app).ask(workload))
            ids = json.loads(await WholeThread(plain_database).ask(workload))
            assert [row["id"] for row in answer["data"]["recall"]["messages"]] == ids
            assert len(ids) == SIZE.long / 100


async def test_callers_take_their_turns(place: Place) -> None:
    async with running(create_app(place.settings())) as app:
        samples = await measure(WORKLOADS[0], {HERE: InProcess(app), STOCK: InProcess(app)}, Sampling(7, 0))
    assert [len(each.waited) for each in samples.values()] == [5, 5]


async def test_an_answer_with_errors_is_no_sample(place: Place) -> None:
    wrong = Workload(
        "wrong", "query($threadId: ID!) { recall(threadId: $threadId, page: -1) { total } }", {"threadId": LONG_TEXT}
    )
    async with running(create_app(place.settings())) as app:
        with pytest.raises(RuntimeError, match="page must be"):
            await InProcess(app).ask(wrong)


def test_a_line_tells_how_many_times_as_much_the_stock_takes() -> None:
    samples = {HERE: Samples([0.002], [0.001]), STOCK: Samples([0.003], [0.004])}
    result = Result("a workload", "in process", samples, 2000)
    (line,) = result.lines()
    assert line.split() == ["a", "workload", "2.0", "3.0", "2.0", "3.0", "1.0", "4.0", "1.5", "4.0", "2"]
    assert result.to_json()["stock"]["cpu_ms"] == 4.0
