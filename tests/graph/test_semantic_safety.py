"""What recall by meaning must never show, whatever the vectors claim; and which filters hold for what it finds."""

import json
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from graph.api_keys import digest_of
from tests.graph.semantic import Place, Row, ask, found, options, search, talk
from tests.store.vectors.test_engines import VECTORS, row
from tests.zoo import NOON, as_document, ids, message, thread

SECRET = "the words of res-b"
MANY = options(topK=50, messageRange=5)


def foreign(id: str, thread_id: str = "t9", minute: float = 0, **fields: Any) -> Row:
    """A message of res-b."""
    return message(id, thread_id, minute, text=SECRET, **({"resourceId": "res-b"} | fields))


async def fill_two_owners(place: Place, vectors: list[Row], *more: Row) -> None:
    """res-a has t1 (m1, m2, m3) and t2 (a1); res-b has t9 (b1, b2, b3). Vectors and further messages are given."""
    await place.fill(
        threads=[thread("t1"), thread("t2"), thread("t9", "res-b", title=SECRET, metadata={"k": SECRET})],
        messages=[
            *(message(f"m{number}", minute=number) for number in (1, 2, 3)),
            message("a1", "t2", minute=10),
            *(foreign(f"b{number}", minute=number) for number in (1, 2, 3)),
            *more,
        ],
        vectors=vectors,
    )


# Vectors that claim too much


LIES = {
    "a foreign message": row("b1", 1.0),
    "a foreign message, and its thread": row("b2", 1.0, thread="t9"),
    "a foreign owner": row("m1", 1.0, owner="res-b"),
    "no owner": {"embedding": [1.0, 0.0, 0.0, 0.0], "metadata": {"message_id": "b3", "thread_id": "t9"}},
    "no metadata": {"embedding": [1.0, 0.0, 0.0, 0.0]},
    "metadata that are none": {"embedding": [1.0, 0.0, 0.0, 0.0], "metadata": "m1"},
    "an owner in a list": row("b1", 1.0) | {"metadata": {"message_id": "b1", "resource_id": ["res-a", "res-b"]}},
    "no message": {"embedding": [1.0, 0.0, 0.0, 0.0], "metadata": {"resource_id": "res-a", "thread_id": "t1"}},
    "a message that is a number": row("7", 1.0) | {"metadata": {"message_id": 7, "resource_id": "res-a"}},
}


async def test_vectors_that_lie_open_nothing(place: Place) -> None:
    """The message decides whose it is; what a vector says about it only narrows the search."""
    await fill_two_owners(place, [*LIES.values(), row("a1", 0.3, thread="t2"), row("m2", 0.2)])
    async with place.serving() as client:
        for owner in ("res-a", None):
            answer = await ask(client, resourceId=owner, threadConfig=MANY)
            assert found(answer.data["recall"]) == "a1 m2"
            assert ids(answer.data["recall"]["transcript"]) == "m1 m2 m3 a1"
            assert SECRET not in json.dumps(answer.body)


OWNERS: list[tuple[list[Row], str]] = [
    ([foreign("x", "t2")], ""),
    ([foreign("x", "t2", resourceId="res-a")], "x"),
    ([foreign("x", "t2", resourceId=None)], "x"),
    ([foreign("x", "t9", resourceId=None)], ""),
    ([foreign("x", "t9", resourceId="res-a")], ""),
    ([foreign("x", "gone", resourceId="res-a")], "x"),
    ([foreign("x", "gone", resourceId="res-b")], ""),
    ([foreign("x", "gone", resourceId=None)], ""),
    ([foreign("x", "t9"), foreign("x", "t2", resourceId="res-a")], "x"),
    ([foreign("x", "t2", resourceId="res-a"), foreign("x", "t9")], "x"),
]


async def test_thread_and_message_must_both_be_the_owner_s(plain_place: Place) -> None:
    """A message without owner belongs to its thread's; one whose thread is gone, to whom it names."""
    await fill_two_owners(plain_place, [row("x", 0.9, thread="t2")])
    async with plain_place.serving() as client:
        for rows, expected in OWNERS:
            await plain_place.database.mastra_messages.delete_many({"id": "x"})
            await plain_place.fill(messages=[dict(row) for row in rows])
            owned, unnamed = [await search(client, resourceId=owner) for owner in ("res-a", None)]
            assert found(owned) == found(unnamed) == expected, rows
            assert ids(owned["messages"]) == ids(unnamed["messages"]) == expected


async def test_neighbours_are_the_owner_s_as_well(plain_place: Place) -> None:
    rows = [foreign("x1", "t2", 9), foreign("x2", "t2", 11), message("a2", "t2", minute=12)]
    await fill_two_owners(plain_place, [row("a1", 0.9, thread="t2")], *rows)
    async with plain_place.serving() as client:
        answer = await ask(client, resourceId="res-a", threadConfig=MANY)
    (match,) = answer.data["recall"]["matches"]
    assert (match["before"], ids(match["after"])) == ([], "a2")
    assert SECRET not in json.dumps(answer.body)


async def test_a_foreign_thread_stays_closed(plain_place: Place) -> None:
    await fill_two_owners(plain_place, [row("b1", 0.9, owner="res-b", thread="t9"), row("a1", 0.5, thread="t2")])
    async with plain_place.serving() as client:
        for owner, scope in product(("res-a", "RES-B", "res-c"), ("thread", "resource")):
            answer = await ask(client, threadId="t9", resourceId=owner, threadConfig=options(scope=scope))
            assert answer.code == "FORBIDDEN"
            assert not {"res-b", SECRET} & set(json.dumps(answer.body).split('"'))


async def test_a_thread_that_does_not_exist_is_an_empty_page(plain_place: Place) -> None:
    """Front-ends make the id first; what the owner said elsewhere is found already, where an owner is named."""
    await fill_two_owners(plain_place, [row("a1", 0.9, thread="t2")])
    async with plain_place.serving() as client:
        owned, unnamed = [
            await search(client, threadId="t-new", resourceId=owner, perPage=20) for owner in ("res-a", None)
        ]
    assert (found(owned), found(unnamed)) == ("a1", "")
    assert [(result["total"], result["hasMore"]) for result in (owned, unnamed)] == [(0, False)] * 2


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_a_limited_caller_cannot_tell_foreign_from_missing(plain_place: Place, scope: str) -> None:
    await fill_two_owners(plain_place, [row("b1", 0.9, owner="res-b", thread="t9"), row("a1", 0.5, thread="t2")])
    key = f"sha256:{digest_of('alice')} res-a"
    async with plain_place.serving(auth="api-key", api_keys=key) as client:
        client.http.headers["x-api-key"] = "alice"
        foreign_thread, missing = [
            await ask(
                client, threadId=id, vectorSearchString=f"east {id}", perPage=5, threadConfig=options(scope=scope)
            )
            for id in ("t9", "t8")
        ]
    assert foreign_thread.body == missing.body
    assert foreign_thread.data["recall"]["total"] == 0


async def test_the_thread_of_a_message_decides_not_that_of_its_vector(plain_place: Place) -> None:
    await fill_two_owners(plain_place, [row("a1", 0.9, thread="t1"), row("m1", 0.5, thread="t1")])
    async with plain_place.serving() as client:
        assert found(await search(client, threadConfig=options(scope="thread"))) == "m1"
        assert found(await search(client, threadConfig=options(scope="resource"))) == "a1 m1"


async def test_a_deleted_thread_takes_nothing_along(plain_place: Place) -> None:
    """Its messages are gone at once, its vectors perhaps later."""
    await fill_two_owners(plain_place, [row("a1", 0.9, thread="t2"), row("m1", 0.5)])
    async with plain_place.serving() as client:
        assert found(await search(client)) == "a1 m1"
        await plain_place.database.mastra_threads.delete_one({"id": "t2"})
        await plain_place.database.mastra_messages.delete_many({"thread_id": "t2"})
        assert found(await search(client)) == "m1"


# Filters


async def test_the_filter_of_messages_comes_before_the_cut(place: Place) -> None:
    """The nearest three do not match; neighbours and included messages need not match."""
    rows = [message(f"n{number}", minute=number, metadata={"open": number > 3}) for number in range(1, 6)]
    vectors = [row(f"n{number}", 1 - number / 10) for number in range(1, 6)]
    await place.fill(threads=[thread("t1")], messages=[*rows, message("plain", minute=9)], vectors=vectors)
    asked: Row = {"filter": {"metadata": {"open": True}}, "include": [{"id": "n1", "withNextMessages": 0}]}
    async with place.serving() as client:
        result = await search(client, threadConfig=options(topK=1, messageRange={"before": 1, "after": 0}), **asked)
    assert found(result) == "n4"
    assert ids(result["matches"][0]["before"]) == "n3"
    assert (ids(result["transcript"]), result["total"]) == ("n1 n3 n4", 2)


async def test_a_metadata_filter_holds_for_text_and_documents_of_any_thread(plain_place: Place) -> None:
    texts = [message(f"x{number}", "t2", number, metadata={"n": value}) for number, value in enumerate((1, "1", True))]
    documents = [as_document(message("d1", minute=5), n=1), as_document(message("d2", minute=6), n=[1])]
    rows = [*texts, *documents]
    vectors = [row(each["id"], 0.9 - nth / 10, thread=each["thread_id"]) for nth, each in enumerate(rows)]
    await plain_place.fill(threads=[thread("t1"), thread("t2")], messages=rows, vectors=vectors)
    async with plain_place.serving() as client:
        assert found(await search(client, filter={"metadata": {"n": 1}})) == "x0 d1"
        assert found(await search(client, filter={"metadata": {"n": "1"}})) == "x1"
        assert found(await search(client, filter={"metadata": {"n": None}})) == ""


RANGES: list[tuple[Row, str]] = [
    ({"start": "2024-03-10T12:03:00Z"}, "m3 m4 m5"),
    ({"end": "2024-03-10T12:02:00Z"}, "m1 m2"),
    ({"end": "2024-03-10T12:02:00Z", "endExclusive": True}, "m1"),
    ({"start": "2024-03-10T12:02:00Z", "end": "2024-03-10T12:04:00Z", "startExclusive": True}, "m3 m4"),
    ({"start": "2024-03-10T12:04:00Z", "end": "2024-03-10T12:02:00Z"}, ""),
]


async def test_a_range_of_dates_holds_for_matches_alone(plain_place: Place) -> None:
    await talk(plain_place, {f"m{number}": 1 - number / 10 for number in range(1, 6)})
    config = options(topK=3, messageRange={"before": 1, "after": 0})
    async with plain_place.serving() as client:
        for dates, expected in RANGES:
            result = await search(client, filter={"dateRange": dates}, threadConfig=config)
            assert found(result) == expected
            before = [ids(match["before"]) for match in result["matches"]]
            assert before == ["" if id == "m1" else f"m{int(id[1:]) - 1}" for id in expected.split()]


async def test_many_that_are_filtered_out_take_no_places(plain_place: Place) -> None:
    rows = [message(f"n{number}", metadata={"open": number >= 300}) for number in range(302)]
    vectors = [row(f"n{number}", 1 - number / 1000) for number in range(302)]
    await plain_place.fill(threads=[thread("t1")], messages=rows, vectors=vectors)
    async with plain_place.serving() as client:
        assert found(await search(client, filter={"metadata": {"open": True}})) == "n300 n301"


THREAD_FILTERS: list[tuple[Row, str]] = [
    ({"project": "a"}, "x1"),
    ({"project": "b"}, "x2"),
    ({"project": "b", "vip": True}, "x2"),
    ({"project": "b", "vip": "true"}, ""),
    ({"project": None}, ""),
    ({}, "x0 x1 x2 x3"),
]


async def test_the_filter_of_semantic_recall_is_one_of_threads(plain_place: Place) -> None:
    """By the metadata that the thread has now, also where they are text; what the vectors copied does not count."""
    kept: list[Any] = [{}, {"project": "a"}, json.dumps({"project": "b", "vip": True}), {"project": ["a"]}]
    vectors = [row(f"x{number}", 0.9 - number / 10, thread=f"t{number}") for number in range(4)]
    vectors[0]["metadata"] |= {"project": "a"}
    await plain_place.fill(
        threads=[thread(f"t{number}", metadata=metadata) for number, metadata in enumerate(kept)],
        messages=[message(f"x{number}", f"t{number}", number) for number in range(4)],
        vectors=vectors,
    )
    async with plain_place.serving() as client:
        for wanted, expected in THREAD_FILTERS:
            assert found(await search(client, threadConfig=options(filter=wanted))) == expected, wanted


async def test_times_kept_as_text_are_filtered_and_ordered(plain_place: Place) -> None:
    rows = [message(f"m{number}", minute=number) for number in range(1, 6)]
    rows[2]["createdAt"] = (NOON + timedelta(minutes=3)).isoformat().replace("+00:00", ".000Z")
    await plain_place.fill(threads=[thread("t1")], messages=rows, vectors=[row("m3", 0.9), row("m5", 0.8)])
    dates = {"start": "2024-03-10T12:03:00Z", "end": "2024-03-10T12:04:00Z"}
    async with plain_place.serving() as client:
        result = await search(client, filter={"dateRange": dates}, threadConfig=options(messageRange=1))
    assert (found(result), ids(result["transcript"])) == ("m3", "m2 m3 m4")


# One match a message, and ties


async def test_top_k_counts_messages_not_vectors(plain_place: Place) -> None:
    vectors = [row("m1", 0.9 - number / 100) for number in range(30)]
    await talk(plain_place, {})
    await plain_place.fill(vectors=[*vectors, row("m2", 0.5), row("m2", 0.7), row("m3", 0.4)])
    async with plain_place.serving() as client:
        result = await search(client, threadConfig=options(topK=3))
    assert [(match["message"]["id"], match["score"]) for match in result["matches"]] == [
        ("m1", 0.95),
        ("m2", 0.85),
        ("m3", 0.7),
    ]


@pytest.mark.parametrize("vectors_are", ["in order", "reversed"])
async def test_ties_are_in_the_order_of_insertion(plain_place: Place, vectors_are: str) -> None:
    """The messages' order, whatever their ids are and in whatever order they were embedded."""
    names = [f"m{number:02}" for number in reversed(range(30))]
    vectors = [row(name, 0.5) for name in (names if vectors_are == "in order" else reversed(names))]
    await plain_place.fill(threads=[thread("t1")], messages=[message(name) for name in names], vectors=vectors)
    async with plain_place.serving() as client:
        every, three = [found(await search(client, threadConfig=options(topK=count))).split() for count in (30, 3)]
    assert every == names
    assert three == names[:3]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("per_page", [0, 10])
async def test_a_message_saved_twice_is_one_match(plain_place: Place, direction: str, per_page: int) -> None:
    rows = [message("m1", minute=1), message("m2", minute=2), message("m1", minute=3)]
    await plain_place.fill(threads=[thread("t1")], messages=rows, vectors=[row("m1", 0.9), row("m2", 0.8)])
    async with plain_place.serving() as client:
        result = await search(client, perPage=per_page, orderBy={"field": "createdAt", "direction": direction})
    assert found(result) == "m1 m2"
    assert sorted(ids(result["messages"]).split()) == ["m1", "m2"]


async def test_a_vector_whose_row_is_no_use_hides_none_of_the_others(plain_place: Place) -> None:
    await talk(plain_place, {"m1": 0.9})
    await plain_place.database[VECTORS].insert_many([{"embedding": None}, {"embedding": "x"}, {"metadata": {}}])
    async with plain_place.serving() as client:
        assert found(await search(client)) == "m1"
