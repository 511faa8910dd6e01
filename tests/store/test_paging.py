"""Pages: what may be asked for, and the stages that read it. No server is asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from store.errors import InvalidArgument, LimitExceeded, StoreError
from store.ordering import Order
from store.paging import Limits, PageRequest, Reading, check_rows
from store.source import Source

LIMITS = Limits(max_page_size=100, max_rows=500)


def source() -> Source:
    """Threads of a database that nobody connects to."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)
    return Source(client["unasked"], "mastra_threads", timeout=1, date_fields=("createdAt", "updatedAt"))


# What may be asked for


@pytest.mark.parametrize("request_", [(0, 0), (0, 1), (7, 0), (7, 100), (2**31 - 1, 100), (0, None)])
def test_requests_within_the_limits(request_: tuple[int, int | None]) -> None:
    asked = PageRequest(*request_)
    assert asked.check(LIMITS) is asked


@pytest.mark.parametrize(
    ("page", "per_page", "error", "message"),
    [
        (-1, 10, InvalidArgument, "page must be a whole number >= 0, not -1."),
        (-1, None, InvalidArgument, "page must be a whole number >= 0, not -1."),
        (0, -5, InvalidArgument, "perPage must be a whole number >= 0, or false, not -5."),
        (1, None, InvalidArgument, "perPage: false returns every row and goes with page 0 only."),
        (0, 101, LimitExceeded, "perPage is 101, but a page holds at most 100 rows (RECALLQL_MAX_PAGE_SIZE)."),
        (0, 2**63, LimitExceeded, f"perPage is {2**63}, but a page holds at most 100 rows (RECALLQL_MAX_PAGE_SIZE)."),
    ],
)
def test_requests_beyond_them(page: int, per_page: int | None, error: type[StoreError], message: str) -> None:
    with pytest.raises(error) as refused:
        PageRequest(page, per_page).check(LIMITS)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("page", "per_page", "offset"),
    [(0, 10, 0), (3, 10, 30), (3, 0, 0), (0, None, 0), (2**31 - 1, 1000, 2_147_483_647_000)],
)
def test_rows_before_a_page(page: int, per_page: int | None, offset: int) -> None:
    assert PageRequest(page, per_page).offset == offset


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 200))
def test_pages_cover_a_list_without_gap_or_repeat(pages: int, per_page: int, rows: int) -> None:
    listed = list(range(rows))
    cut = [listed[PageRequest(page, per_page).offset :][:per_page] for page in range(pages)]
    assert [row for page in cut for row in page] == listed[: pages * per_page]


@pytest.mark.parametrize("count", [0, 1, 499, 500])
def test_as_many_rows_as_allowed(count: int) -> None:
    check_rows(count, LIMITS)
    with pytest.raises(LimitExceeded, match=r"at most 500 rows \(RECALLQL_MAX_ROWS\)"):
        check_rows(501 + count, LIMITS)


# The stages


def reading(sort: dict[str, int]) -> Reading:
    return Reading(source(), lambda: [{"$match": {"resourceId": "res-a"}}], sort, [{"$project": {"id": 1}}], LIMITS)


@pytest.mark.parametrize(
    ("order", "sort"),
    [
        (Order(), {"createdAt": -1, "_id": -1}),
        (Order("createdAt", descending=False), {"createdAt": 1, "_id": 1}),
        (Order("updatedAt"), {"updatedAt": -1, "_id": -1}),
        (Order("updatedAt", descending=False), {"updatedAt": 1, "_id": 1}),
    ],
)
def test_an_order_ends_in_the_unique_key(order: Order, sort: dict[str, int]) -> None:
    """The time first: MongoDB sorts by the keys in their order."""
    assert list(order.to_sort().items()) == list(sort.items())


def test_the_first_page_skips_nothing() -> None:
    assert reading(Order().to_sort()).rows(0, 3) == [
        {"$match": {"resourceId": "res-a"}},
        {"$sort": {"createdAt": -1, "_id": -1}},
        {"$limit": 3},
        {"$project": {"id": 1}},
    ]


def test_a_later_page_filters_then_sorts_then_cuts() -> None:
    assert reading(Order("updatedAt", descending=False).to_sort()).rows(6, 3) == [
        {"$match": {"resourceId": "res-a"}},
        {"$sort": {"updatedAt": 1, "_id": 1}},
        {"$skip": 6},
        {"$limit": 3},
        {"$project": {"id": 1}},
    ]


def test_matches_are_asked_for_each_time() -> None:
    """What is learnt between two reads (times kept as text) counts for the second."""
    stages = [{"$match": {"n": 1}}]
    listing = Reading(source(), lambda: stages, {"_id": 1}, [], LIMITS)
    assert listing.ordered() == [{"$match": {"n": 1}}, {"$sort": {"_id": 1}}]
    stages = [{"$match": {"n": 2}}]
    assert listing.ordered() == [{"$match": {"n": 2}}, {"$sort": {"_id": 1}}]


def test_times_kept_as_text_are_turned_into_dates_once_some_are_known() -> None:
    threads = source()
    assert threads.repair_stage() == []
    threads.note([{"createdAt": None}, {"id": "2024-03-10T12:00:00Z"}])
    assert threads.repair_stage() == []
    threads.note([{"id": "t1", "updatedAt": "2024-03-10T12:00:00Z"}])
    (stage,) = threads.repair_stage()
    assert list(stage["$set"]) == ["createdAt", "updatedAt"]
