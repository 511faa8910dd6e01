"""Recall by meaning: scope, range, threshold, and what is stored besides good vectors, alike on both engines."""

import json
from itertools import product
from typing import Any

import pytest

from store.embedders.wordllama import WordLlamaEmbedder
from tests.atlas.fixtures import set_index_state
from tests.graph.semantic import EMPTY, Place, ask, found, options, search, talk
from tests.store.vectors.test_engines import VECTORS, row
from tests.zoo import ids, message, serving, ten_messages, thread

NEWEST = "m10 m9 m8 m7 m6 m5 m4 m3 m2 m1"


# V1: the scope comes before topK


async def fill_two_owners(place: Place) -> None:
    """Six messages of res-b are nearest; of res-a there are a1 in t1 and a2 in t2."""
    others = [f"b{number}" for number in range(1, 7)]
    await place.fill(
        threads=[thread("t1"), thread("t2"), thread("t9", "res-b")],
        messages=[message("a1"), message("a2", "t2"), *(message(id, "t9", resourceId="res-b") for id in others)],
        vectors=[
            *(row(id, 0.99, owner="res-b", thread="t9") for id in others),
            row("a1", 0.5),
            row("a2", 0.4, thread="t2"),
        ],
    )


@pytest.mark.parametrize(("scope", "expected"), [("resource", "a1 a2"), ("thread", "a1")])
async def test_v1_the_scope_comes_before_the_cut(place: Place, scope: str, expected: str) -> None:
    """Without `resourceId` it is the owner of the thread that counts, never everybody."""
    await fill_two_owners(place)
    async with place.serving() as client:
        for owner in ("res-a", None):
            result = await search(client, resourceId=owner, threadConfig=options(topK=2, scope=scope))
            assert found(result) == expected
            assert sorted(ids(result["messages"]).split()) == expected.split()


# V2: only the hits and their range


@pytest.mark.parametrize(
    ("hit", "ranges"),
    [
        (
            15,
            [
                (1, "m14 m15 m16"),
                ({"before": 0, "after": 2}, "m15 m16 m17"),
                ({"before": 2, "after": 0}, "m13 m14 m15"),
                (0, "m15"),
            ],
        ),
        (1, [(2, "m1 m2 m3")]),
        (30, [(1, "m29 m30")]),
    ],
)
async def test_v2_only_the_hits_and_their_range(plain_place: Place, hit: int, ranges: list[tuple[Any, str]]) -> None:
    await talk(plain_place, {"m7": 0.2, f"m{hit}": 0.9, "m22": 0.1}, length=30)
    async with plain_place.serving() as client:
        for (reach, expected), page in product(ranges, (set(), {"m28", "m29", "m30"})):
            config = options(topK=1, scope="thread", messageRange=reach)
            result = await search(client, perPage=len(page), threadConfig=config)
            wanted = sorted({*expected.split(), *page}, key=lambda id: int(id[1:]))
            assert ids(result["transcript"]).split() == wanted
            assert (result["total"], result["hasMore"]) == (30, True)


async def test_v2_ranges_that_meet_give_each_message_once(plain_place: Place) -> None:
    await talk(plain_place, {"m4": 0.9, "m6": 0.8})
    async with plain_place.serving() as client:
        result = await search(client, threadConfig=options(messageRange=2))
    assert ids(result["transcript"]) == "m2 m3 m4 m5 m6 m7 m8"
    first, second = result["matches"]
    assert (ids(first["before"]), ids(first["after"])) == ("m2 m3", "m5 m6")
    assert (ids(second["before"]), ids(second["after"])) == ("m4 m5", "m7 m8")


# V3: threshold


THRESHOLDS = {0: "m1 m2", 0.7: "m1 m2", 0.75: "m1 m2", None: "m1 m2", 0.8: "m1", 0.95: "m1", 0.99: "", 1: ""}


async def test_v3_hits_below_the_threshold_are_left_out(plain_place: Place) -> None:
    """The scale is that of the scores: cosines of 0.9 and 0.5 are 0.95 and 0.75. The page is always there."""
    await talk(plain_place, {"m1": 0.9, "m2": 0.5})
    async with plain_place.serving() as client:
        for threshold, expected in THRESHOLDS.items():
            result = await search(client, perPage=False, threadConfig=options(topK=2, threshold=threshold))
            assert (found(result), ids(result["messages"])) == (expected, NEWEST), threshold
            assert [match["score"] for match in result["matches"]] == [0.95, 0.75][: len(expected.split())]


# V4: vectors whose message is gone


@pytest.mark.parametrize("dead", [1, 400])
async def test_v4_the_dead_take_no_places(plain_place: Place, dead: int) -> None:
    await plain_place.fill(
        threads=[thread("t1")],
        messages=[message("l1", minute=1), message("l2", minute=2)],
        vectors=[*(row(f"d{number}", 1.0) for number in range(dead)), row("l2", 0.5), row("l1", 0.6)],
    )
    async with plain_place.serving() as client:
        best = await ask(client, threadConfig=options(topK=1))
        both = await ask(client, threadConfig=options(topK=3))
    assert (found(best.data["recall"]), found(both.data["recall"])) == ("l1", "l1 l2")
    assert '"d0"' not in json.dumps(both.body)


async def test_v4_nothing_alive_is_no_error(plain_place: Place) -> None:
    await plain_place.fill(threads=[thread("t1")], messages=ten_messages(), vectors=[row("d1", 1.0)])
    async with plain_place.serving() as client:
        result = await search(client, perPage=2)
    assert (result["matches"], ids(result["messages"])) == ([], "m10 m9")


# V5: lengths that disagree


@pytest.mark.parametrize("other", [None, "empty", "described"])
async def test_v5_vectors_of_another_length_are_an_error_that_names_both(plain_place: Place, other: str | None) -> None:
    vectors = [row("m1", [1.0] * 256), row("m2", [1.0, *[0.0] * 255])]
    await plain_place.fill(
        threads=[thread("t1")],
        messages=ten_messages(),
        vectors=vectors,
        collection="memory_messages_256",
        dimensions=256,
    )
    if other:
        await plain_place.database.create_collection(VECTORS)
        await plain_place.index()
    if other == "described":
        await plain_place.database[VECTORS].insert_one(
            {"_id": "__index_metadata__", "dimension": 4, "metric": "cosine"}
        )
    async with plain_place.serving() as client:
        answer = await ask(client, perPage=3)
    assert answer.code == "EMBEDDING_MISMATCH"
    assert "256 numbers" in answer.error["message"]
    assert "gives 4" in answer.error["message"]


async def test_v5_a_collection_that_holds_another_length_than_its_name_says(plain_place: Place) -> None:
    await plain_place.fill(
        threads=[thread("t1")], messages=ten_messages(), vectors=[row("m1", [1.0] * 6)], dimensions=6
    )
    async with plain_place.serving() as client:
        answer = await ask(client)
    assert answer.code == "EMBEDDING_MISMATCH"
    assert "6 numbers" in answer.error["message"]
    assert "gives 4" in answer.error["message"]


async def test_v5_the_owner_s_vectors_of_another_length_are_no_silence(plain_place: Place) -> None:
    """Another owner's messages were embedded anew already; those of this one were not."""
    await talk(plain_place, {})
    await plain_place.fill(vectors=[row("m1", [1.0] * 256)], collection="memory_messages_256", dimensions=256)
    await plain_place.fill(vectors=[row("b1", 0.9, owner="res-b", thread="t9")])
    async with plain_place.serving() as client:
        answer = await ask(client)
    assert answer.code == "EMBEDDING_MISMATCH"


async def test_v5_what_an_earlier_model_left_is_no_obstacle(plain_place: Place) -> None:
    await talk(plain_place, {"m1": 0.9})
    await plain_place.fill(vectors=[row("m2", [1.0] * 256)], collection="memory_messages_256", dimensions=256)
    async with plain_place.serving() as client:
        assert found(await search(client)) == "m1"


async def test_v5_without_a_search_text_lengths_do_not_matter(plain_place: Place) -> None:
    await talk(plain_place, {})
    await plain_place.fill(vectors=[row("m1", [1.0] * 256)], collection="memory_messages_256", dimensions=256)
    async with plain_place.serving() as client:
        result = await search(client, vectorSearchString=" ", perPage=1)
    assert ids(result["messages"]) == "m10"


# V6: vectors without direction


async def test_v6_zero_and_nan_are_never_hits(plain_place: Place) -> None:
    odd = {"m2": [0.0] * 4, "m3": [float("nan"), 1.0, 0.0, 0.0], "m5": [float("inf"), 0.0, 0.0, 0.0]}
    vectors = [row("m1", 1.0), *(row(id, vector) for id, vector in odd.items()), row("m4", [0.6, 0.8, 0.0, 0.0])]
    await plain_place.fill(threads=[thread("t1")], messages=ten_messages(), vectors=vectors)
    async with plain_place.serving() as client:
        two, many = [await search(client, threadConfig=options(topK=count)) for count in (2, 9)]
    assert found(two) == found(many) == "m1 m4"
    assert [match["score"] for match in two["matches"]] == [1.0, 0.8]


async def test_v6_a_search_without_direction_has_no_hits(plain_place: Place) -> None:
    await talk(plain_place, {"m1": 0.9})
    async with plain_place.serving() as client:
        answer = await ask(client, vectorSearchString=EMPTY, perPage=2)
    result = answer.data["recall"]
    assert (result["matches"], ids(result["messages"])) == ([], "m10 m9")
    assert "NaN" not in json.dumps(answer.body)


# V7: few vectors, and a document that is none


async def test_v7_few_vectors_and_a_row_that_is_none(plain_place: Place) -> None:
    await plain_place.database[VECTORS].insert_one({"_id": "__index_metadata__", "dimension": 4, "metric": "cosine"})
    await talk(plain_place, {"m1": 0.1, "m2": 0.2, "m3": 0.3})
    async with plain_place.serving() as client:
        for top_k, expected in {2: "m3 m2", 3: "m3 m2 m1", 10: "m3 m2 m1", 1000: "m3 m2 m1"}.items():
            assert found(await search(client, threadConfig=options(topK=top_k))) == expected


# V8: no vectors, no index, no search server


@pytest.mark.parametrize("collection", [None, "empty", "indexed", "described"])
async def test_v8_no_vectors_give_the_ordinary_page(plain_place: Place, collection: str | None) -> None:
    await talk(plain_place, {})
    vectors = plain_place.database[VECTORS]
    if collection:
        await plain_place.database.create_collection(VECTORS)
    if collection == "indexed":
        await plain_place.index()
    if collection == "described":
        await vectors.insert_one({"_id": "__index_metadata__", "dimension": 4, "metric": "cosine"})
    for choice in ("auto", plain_place.engine):
        async with plain_place.serving(vector_engine=choice) as client:
            result = await search(client, perPage=2)
        assert (result["matches"], ids(result["messages"])) == ([], "m10 m9")
        assert (result["total"], result["hasMore"]) == (10, True)


async def test_v8_a_plain_server_answers_by_the_exact_engine(database: Any) -> None:
    await talk(Place(database, "exact"), {"m1": 0.5, "m2": 0.9})
    async with serving(database, embedder="toy", embedder_dimensions=4) as client:
        result = await search(client)
    assert (found(result), result["engine"]) == ("m2 m1", "EXACT")


async def test_v8_atlas_alone_on_a_plain_server_is_not_available(plain_database: Any) -> None:
    await talk(Place(plain_database, "exact"), {"m1": 0.5})
    async with Place(plain_database, "atlas").serving() as client:
        answer = await ask(client)
        page = await search(client, vectorSearchString=None, perPage=1)
    assert (answer.code, ids(page["messages"])) == ("UNAVAILABLE", "m10")
    assert "Semantic recall is not available" in answer.error["message"]


async def test_v8_an_index_under_construction_is_no_empty_answer(atlas_database: Any) -> None:
    await talk(Place(atlas_database, "atlas"), {"m1": 0.5, "m2": 0.9})
    await set_index_state(atlas_database, VECTORS, f"{VECTORS}_vector_index", "BUILDING")
    async with Place(atlas_database, "atlas").serving() as client:
        assert (await ask(client)).code == "UNAVAILABLE"
    async with Place(atlas_database, "auto").serving() as client:
        result = await search(client)
    assert (found(result), result["engine"]) == ("m2 m1", "EXACT")


async def test_v8_an_index_that_is_ready_is_chosen(atlas_database: Any) -> None:
    await talk(Place(atlas_database, "atlas"), {"m1": 0.5, "m2": 0.9})
    async with Place(atlas_database, "auto").serving() as client:
        result = await search(client)
    assert (found(result), result["engine"]) == ("m2 m1", "ATLAS")


# V9: blank and very long search text


async def test_v9_blank_is_as_if_left_out(plain_place: Place) -> None:
    """Not even semantic recall must be enabled, and included messages have no neighbours."""
    await talk(plain_place, {"m1": 0.9})
    async with plain_place.serving() as client:
        for text, config in product(("", "   ", "\t\n", None), (options(), None)):
            asked = {"vectorSearchString": text, "threadConfig": config}
            result = await search(client, include=[{"id": "m5"}], perPage=1, **asked)
            assert ids(result["messages"]) == "m10 m5"
            assert (result["matches"], result["usage"], result["engine"]) == ([], None, None)


async def test_v9_odd_text_is_no_server_error(plain_place: Place) -> None:
    await talk(plain_place, {"m1": 0.9})
    async with plain_place.serving() as client:
        for text, expected in {"x" * 100_000: "m1", "😀": "", "\0": "", "\u202e east": "m1"}.items():
            result = await search(client, vectorSearchString=text, perPage=2)
            assert (found(result), ids(result["messages"]).split()[:2]) == (expected, ["m10", "m9"])


async def test_v9_long_text_is_shortened(plain_place: Place) -> None:
    texts = {"m1": "It rained all day on the island.", "m2": "We pay your money back to the card."}
    embedded = await WordLlamaEmbedder().embed(list(texts.values()))
    vectors = [row(id, vector.tolist()) for id, vector in zip(texts, embedded.vectors, strict=True)]
    await plain_place.fill(
        threads=[thread("t1")],
        messages=ten_messages(),
        vectors=vectors,
        collection="memory_messages_256",
        dimensions=256,
    )
    text = "I want a refund of my money. " * 4000
    async with plain_place.serving(embedder="wordllama", embedder_dimensions=None) as client:
        assert found(await search(client, vectorSearchString=text)) == "m2 m1"
