"""Keeping vectors up to date: by change stream, by looking again and again, and through interruptions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from store.embedders.protocol import Embedder
from store.embedders.toy import ToyEmbedder
from store.embedding.following import follow
from store.embedding.report import FillFailed, FillReport
from tests import zoo
from tests.store.embedding.conftest import new_database, running_server
from tests.store.embedding.filled import VECTORS, BreakingEmbedder, HeardEmbedder, long_text, say, stored, texts_of


@asynccontextmanager
async def following(database: Any, embedder: Embedder | None = None, **options: Any) -> AsyncIterator[list[FillReport]]:
    """Follow for the length of the block, which begins after the first run; gives the reports as they come."""
    reports: list[FillReport] = []
    task = asyncio.create_task(follow(database, embedder or ToyEmbedder(), on_change=reports.append, **options))
    try:
        await until(lambda: bool(reports) or task.done())
        yield reports
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(is_so: Callable[[], Any]) -> None:
    """Wait until something is so, synchronous or not; for half a minute at most."""
    async with asyncio.timeout(30):
        while True:
            found = is_so()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)


def has_rows(database: Any, **rows: int) -> Callable[[], Awaitable[bool]]:
    """Whether these messages have so many rows, and no others have any."""

    async def look() -> bool:
        return await texts_of(database) == rows

    return look


async def test_the_first_run_fills(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    async with following(database) as reports:
        assert reports == [FillReport(seen=10, embedded=10, pieces=10, tokens=30)]


async def test_a_new_message_gets_its_vectors(database: Any) -> None:
    async with following(database) as reports:
        await zoo.fill(database, messages=[zoo.message("m1", text=long_text(40))])
        await until(has_rows(database, m1=3))
        await until(lambda: len(reports) == 2)
    assert (reports[1].embedded, reports[1].pieces) == (1, 3)


async def test_a_changed_text_is_embedded_again(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1", text=long_text(40)), zoo.message("m2")])
    async with following(database, embedder := HeardEmbedder()):
        await say(database, "m1", "short now")
        await until(has_rows(database, m1=1, m2=1))
    assert embedder.texts[-1] == "short now"


async def test_the_vectors_of_a_deleted_message_are_removed(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1"), zoo.message("m2")])
    foreign = {"_id": "theirs", "embedding": [1.0] * 64, "metadata": {"message_id": "m2", "resource_id": "res-a"}}
    async with following(database) as reports:
        await database[VECTORS].insert_one(foreign)
        await database.mastra_messages.delete_many({})
        await until(has_rows(database, m2=1))
        await until(lambda: sum(report.removed for report in reports) == 2)
    assert (await stored(database)) == [foreign]


async def test_a_message_that_is_written_anew_under_its_old_id(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1")])
    async with following(database):
        await database.mastra_messages.delete_one({"id": "m1"})
        await database.mastra_messages.insert_one({"_id": "new", **zoo.message("m1")})

        async def is_of_the_new_one() -> bool:
            return [row["source"]["key"] for row in await stored(database)] == ["new"]

        await until(is_of_the_new_one)


async def test_a_change_without_effect_is_not_told(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1")])
    async with following(database, embedder := HeardEmbedder()) as reports:
        await database.mastra_messages.update_one({"id": "m1"}, {"$set": {"role": "assistant"}})
        await zoo.fill(database, messages=[zoo.message("m2")])
        await until(lambda: len(reports) == 2)
    assert embedder.texts == ["text of m1", "text of m2"]


async def test_many_changes_at_once(database: Any) -> None:
    async with following(database):
        await zoo.fill(database, messages=[zoo.message(f"m{number}") for number in range(400)])
        await until(has_rows(database, **{f"m{number}": 1 for number in range(400)}))


async def test_what_is_written_during_the_first_run_is_not_missed(database: Any) -> None:
    class Slow(ToyEmbedder):
        async def embed(self, texts: Any) -> Any:
            if "text of m11" not in texts:
                await zoo.fill(database, messages=[zoo.message("m11")])
            return await super().embed(texts)

    await zoo.fill(database, messages=zoo.ten_messages())
    async with following(database, Slow()):
        await until(has_rows(database, **{f"m{number}": 1 for number in range(1, 12)}))


async def test_messages_that_are_dropped_and_made_anew(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    async with following(database, embedder := HeardEmbedder()):
        await database.mastra_messages.drop()
        await zoo.fill(database, messages=[*zoo.ten_messages(), zoo.message("m11")])
        await until(has_rows(database, **{f"m{number}": 1 for number in range(1, 12)}))
        await zoo.fill(database, messages=[zoo.message("m12")])
        await until(has_rows(database, **{f"m{number}": 1 for number in range(1, 13)}))
    assert sorted(embedder.texts) == sorted({f"text of m{number}" for number in range(1, 13)})


async def test_messages_that_are_renamed_away_and_back(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    async with following(database):
        await database.mastra_messages.rename("away")
        await database.away.rename("mastra_messages")
        await zoo.fill(database, messages=[zoo.message("m11")])
        await until(has_rows(database, **{f"m{number}": 1 for number in range(1, 12)}))


async def test_an_embedder_that_fails_for_a_while_is_asked_again(
    database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(database, embedder := BreakingEmbedder()):
        embedder.calls_left = 0
        await zoo.fill(database, messages=[zoo.message("m1")])
        await until(lambda: "interrupted" in caplog.text)
        embedder.calls_left = 100
        await until(has_rows(database, m1=1))


async def test_a_first_run_that_fails_is_told(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    with pytest.raises(FillFailed, match="status 503"):
        await follow(database, BreakingEmbedder(calls=0))


async def test_a_server_that_goes_away_and_comes_back(
    anyio_backend: str, driver: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as server:
        port = server.enter_context(running_server(tmp_path))
        async with new_database(port, driver) as database, following(database):
            server.close()
            await until(lambda: "interrupted" in caplog.text)
            server.enter_context(running_server(tmp_path, port=port))
            await zoo.fill(database, messages=[zoo.message("m1")])
            await until(has_rows(database, m1=1))
            await zoo.fill(database, messages=[zoo.message("m2")])
            await until(has_rows(database, m1=1, m2=1))


async def test_without_change_streams_messages_are_looked_at_again_and_again(
    standalone_database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database = standalone_database
    await zoo.fill(database, messages=[zoo.message("m1"), zoo.message("m2")])
    async with following(database, poll_seconds=0.05) as reports:
        assert "No change streams here" in caplog.text
        await zoo.fill(database, messages=[zoo.message("m3")])
        await database.mastra_messages.delete_one({"id": "m1"})
        await say(database, "m2", "something else")
        await until(has_rows(database, m2=1, m3=1))
        await until(lambda: sum(report.removed for report in reports) == 1)
    assert sum(report.embedded for report in reports) == 4


async def test_cancelling_leaves_nothing_behind(database: Any) -> None:
    # The first time the driver starts tasks of its own, which stay until the client is closed.
    for _ in range(2):
        before = asyncio.all_tasks()
        async with following(database):
            assert asyncio.all_tasks() > before
    assert asyncio.all_tasks() == before
