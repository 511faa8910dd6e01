"""The promise: the argument object of the real library, unchanged, as variables gives what the library answered.

`recorded.json` holds calls of `listThreads` and `recall` on the very database in `tests/data`, of which only those
are kept in which the library does what its documentation says.
"""

import json
from typing import Any

import pytest

from tests.zoo import DATA, Client, load_dump, serving

RECALL = """
query Recall($threadId: ID!, $resourceId: ID, $perPage: PerPage, $page: Int, $include: [IncludeMessage!],
             $filter: MessageFilter, $orderBy: MessageOrder, $threadConfig: ThreadConfig) {
  found: recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page, include: $include,
                filter: $filter, orderBy: $orderBy, threadConfig: $threadConfig) {
    rows: transcript { id } total page perPage hasMore
  }
}
"""
THREADS = """
query Threads($filter: ThreadFilter, $perPage: PerPage, $page: Int, $orderBy: ThreadOrder) {
  found: threads(filter: $filter, perPage: $perPage, page: $page, orderBy: $orderBy) {
    rows: threads { id } total page perPage hasMore
  }
}
"""
CASES: list[dict[str, Any]] = json.loads((DATA / "recorded.json").read_text())


def is_decided_otherwise(case: dict[str, Any]) -> bool:
    """Where the API differs on purpose: null is "left out", text is no number, a page fits GraphQL's Int."""
    per_page = case["args"].get("perPage", 0)
    return per_page is None or isinstance(per_page, str) or case["page"] >= 2**31


async def times_of(database: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The time that sorts each row of the case's collection: among equal times the library promises no order."""
    if case["op"] == "recall":
        return {row["id"]: row["createdAt"] async for row in database["mastra_messages"].find()}
    field = case["args"].get("orderBy", {}).get("field", "createdAt")
    return {row["id"]: row[field] async for row in database["mastra_threads"].find()}


async def ask(client: Client, case: dict[str, Any]) -> Any:
    return await client.ask(RECALL if case["op"] == "recall" else THREADS, **case["args"])


@pytest.fixture(scope="module")
def answered() -> list[dict[str, Any]]:
    cases = [case for case in CASES if "queryVector" not in case and "error" not in case]
    return [case for case in cases if not is_decided_otherwise(case)]


async def test_the_library_and_the_api_agree(plain_database: Any, answered: list[dict[str, Any]]) -> None:
    await load_dump(plain_database)
    async with serving(plain_database) as client:
        for case in answered:
            times = await times_of(plain_database, case)
            found = (await ask(client, case)).data["found"]
            ids = [row["id"] for row in found["rows"]]
            assert sorted(ids) == sorted(case["ids"]), case
            assert [times[id] for id in ids] == [times[id] for id in case["ids"]], case
            # The library does not count an empty page of messages; the documentation of `total` knows no exception.
            if case["op"] != "recall" or case["perPage"] != 0:
                assert (found["total"], found["hasMore"]) == (case["total"], case["hasMore"]), case
            assert (found["page"], found["perPage"]) == (case["page"], case["perPage"]), case
    assert len(answered) > 60


async def test_what_the_library_refuses_is_refused_with_a_code(plain_database: Any) -> None:
    await load_dump(plain_database)
    refused = [case for case in CASES if case.get("error")]
    async with serving(plain_database) as client:
        codes = {(await ask(client, case)).code for case in refused}
    assert codes <= {"BAD_USER_INPUT", "FORBIDDEN"}
    assert len(refused) > 5


async def test_text_is_no_number_of_rows(plain_database: Any) -> None:
    async with serving(plain_database) as client:
        answer = await client.ask(THREADS, perPage="5")
    assert answer.code == "BAD_USER_INPUT"
    assert "perPage must be a whole number >= 0, or false" in answer.error["message"]


async def test_a_page_beyond_graphqls_int_is_refused_in_plain_words(plain_database: Any) -> None:
    async with serving(plain_database) as client:
        answer = await client.ask(THREADS, page=2**40, perPage=7)
    assert answer.code == "BAD_USER_INPUT"
    assert "32-bit" in answer.error["message"]
