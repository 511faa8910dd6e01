"""Filling a collection of vectors: what is embedded, what is left alone, what is removed."""

import json
from typing import Any

import numpy as np
import pytest
from bson import ObjectId, json_util
from bson.binary import BinaryVectorDtype
from pymongo import AsyncMongoClient

from store.embedders.toy import ToyEmbedder
from store.embedding.filling import fill
from store.embedding.report import FillFailed, FillReport
from tests import zoo
from tests.store.embedding.filled import (
    VECTORS,
    BreakingEmbedder,
    Commands,
    HeardEmbedder,
    RenamedEmbedder,
    long_text,
    say,
    stored,
    texts_of,
)

# What is written


async def test_every_message_with_text_gets_a_vector_in_mastras_layout(database: Any) -> None:
    await zoo.fill(database, threads=[zoo.thread("t1", metadata={"plan": "pro"})], messages=zoo.ten_messages())
    assert await fill(database, ToyEmbedder()) == FillReport(seen=10, embedded=10, pieces=10, tokens=30)
    row = (await stored(database))[0]
    assert row["metadata"] == {"plan": "pro", "message_id": "m1", "thread_id": "t1", "resource_id": "res-a"}
    vector = row["embedding"].as_vector()
    expected = (await ToyEmbedder().embed(["text of m1"])).vectors[0]
    assert vector.dtype is BinaryVectorDtype.FLOAT32
    assert np.array_equal(vector.data, expected)


async def test_the_length_names_the_collection(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    await fill(plain_database, ToyEmbedder(1536))
    assert await plain_database.memory_messages.count_documents({}) == 10
    assert await plain_database.list_collection_names() == ["mastra_messages", "memory_messages"]


async def test_a_long_message_has_several_rows(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1", text=long_text(40))])
    report = await fill(database, embedder := HeardEmbedder())
    rows = await stored(database)
    assert report.pieces == len(rows) == len(embedder.texts) > 1
    assert [(row["source"]["piece"], row["source"]["pieces"]) for row in rows] == [
        (n, len(rows)) for n in range(len(rows))
    ]


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "narrator"])
async def test_every_role_is_embedded(plain_database: Any, role: str) -> None:
    await zoo.fill(plain_database, messages=[zoo.message("m1", role=role)])
    assert (await fill(plain_database, ToyEmbedder())).embedded == 1


async def test_text_and_documents_and_plain_words_are_read(database: Any) -> None:
    messages = [zoo.message("m1"), zoo.as_document(zoo.message("m2")), zoo.message("m3") | {"content": "plain words"}]
    await zoo.fill(database, messages=messages)
    await fill(database, embedder := HeardEmbedder())
    assert embedder.texts == ["text of m1", "m2", "plain words"]


async def test_messages_without_text_or_id_are_skipped(plain_database: Any) -> None:
    call = {"type": "tool-invocation", "toolInvocation": {"toolName": "weather"}}
    odd: list[Any] = [json.dumps({"format": 2, "parts": [call]}), "", None, 7.5, []]
    messages = [zoo.message(f"m{number}") | {"content": content} for number, content in enumerate(odd)]
    await zoo.fill(plain_database, messages=[*messages, zoo.message("m9") | {"id": None}])
    report = await fill(plain_database, embedder := HeardEmbedder())
    assert report == FillReport(seen=6, embedded=1, skipped=5, pieces=1, tokens=2)
    assert embedder.texts == ["7.5"]


async def test_a_message_without_owner_belongs_to_its_threads(database: Any) -> None:
    messages = [zoo.message("m1", "t9", resourceId=None), zoo.message("m2", "t0", resourceId=None)]
    await zoo.fill(database, threads=[zoo.thread("t9", "res-b")], messages=messages)
    await fill(database, ToyEmbedder())
    assert [row["metadata"]["resource_id"] for row in await stored(database)] == ["res-b", None]


async def test_the_ids_win_over_the_threads_metadata_and_working_memory_is_not_copied(plain_database: Any) -> None:
    metadata = {"message_id": "x", "resource_id": "y", "vip": True, "workingMemory": "# User", "essay": "long " * 500}
    await zoo.fill(plain_database, threads=[zoo.thread("t1", metadata=metadata)], messages=[zoo.message("m1")])
    await fill(plain_database, ToyEmbedder())
    expected = {"vip": True, "message_id": "m1", "thread_id": "t1", "resource_id": "res-a"}
    assert (await stored(plain_database))[0]["metadata"] == expected


async def test_metadata_kept_as_text_are_copied_as_far_as_they_can_be_stored(plain_database: Any) -> None:
    metadata = '{"status": "open", "$set": 1, "a.b": 2, "nul\\u0000": 3, "huge": 18446744073709551615}'
    await zoo.fill(plain_database, threads=[zoo.thread("t1", metadata=metadata)], messages=[zoo.message("m1")])
    await fill(plain_database, ToyEmbedder())
    assert [*(await stored(plain_database))[0]["metadata"]] == ["status", "message_id", "thread_id", "resource_id"]


async def test_the_indexes_are_made(database: Any) -> None:
    await fill(database, ToyEmbedder())
    indexes = await database[VECTORS].index_information()
    assert {"metadata.resource_id_1", "metadata.message_id_1", "source.key_1"} < indexes.keys()
    assert not any(index.get("unique") for name, index in indexes.items() if name != "_id_")


async def test_an_index_in_the_way_is_no_reason_to_stop(plain_database: Any) -> None:
    await plain_database[VECTORS].create_index("metadata.message_id", name="theirs")
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    assert (await fill(plain_database, ToyEmbedder())).embedded == 10


# What is left alone


async def test_a_second_run_writes_nothing(database: Any) -> None:
    messages = [*zoo.ten_messages(), zoo.message("long", text=long_text(40)), zoo.message("blank", text=" ")]
    await zoo.fill(database, threads=[zoo.thread("t1", metadata={"n": 1, "x": float("nan")})], messages=messages)
    await fill(database, ToyEmbedder())
    before = await stored(database)
    report = await fill(database, embedder := HeardEmbedder())
    assert report == FillReport(seen=12, unchanged=11, skipped=1)
    assert embedder.calls == []
    assert str(await stored(database)) == str(before)


async def test_a_second_run_sends_few_commands_and_none_that_writes(plain_database: Any, mongodb_uri: str) -> None:
    await zoo.fill(plain_database, messages=[zoo.message(f"m{number}") for number in range(190)])
    await fill(plain_database, ToyEmbedder())
    commands = Commands()
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, event_listeners=[commands]) as client:
        await fill(client[plain_database.name], ToyEmbedder())
    # Two batches of messages, each with its threads and its rows; then the keys of the rows, and what is under them.
    reads = [name for name in commands.names if name in ("find", "getMore")]
    assert len(reads) == 2 + 2 * 2 + 3
    assert set(commands.names) - {*reads, "hello", "endSessions"} == {"count", "createIndexes"}


async def test_rows_that_mastra_wrote_count_as_present(database: Any) -> None:
    await zoo.load_dump(database)
    lines = (zoo.DATA / "memory_messages_256.jsonl").read_text().splitlines()
    await database.memory_messages_256.insert_many([json_util.loads(line) for line in lines])
    before = await stored(database, "memory_messages_256")
    report = await fill(database, embedder := HeardEmbedder(256))
    assert report.unchanged == len({row["metadata"]["message_id"] for row in before})
    after = await stored(database, "memory_messages_256")
    assert [row for row in after if "source" not in row] == before
    assert report.pieces == len(after) - len(before) == len(embedder.texts) > 0


async def test_rows_of_others_give_way_when_asked(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    foreign = {"_id": "theirs", "embedding": [1.0] * 64, "metadata": {"message_id": "m1", "resource_id": "res-a"}}
    gone = {"_id": "gone", "embedding": [1.0] * 64, "metadata": {"message_id": "m99", "resource_id": "res-a"}}
    await database[VECTORS].insert_many([foreign, gone])
    report = await fill(database, ToyEmbedder(), replace_foreign=True)
    assert (report.embedded, report.removed) == (10, 1)
    assert await texts_of(database) == {**{f"m{n}": 1 for n in range(1, 11)}, "m99": 1}
    assert await database[VECTORS].find_one({"_id": "theirs"}) is None


async def test_other_collections_are_not_touched(database: Any) -> None:
    await zoo.fill(database, threads=[zoo.thread("t1")], messages=zoo.ten_messages())
    await database.memory_messages_384.insert_one({"_id": "x", "source": {"text_hash": "", "key": ObjectId()}})
    names = ["mastra_threads", "mastra_messages", "memory_messages_384"]
    before = [await database[name].find().to_list(None) for name in names]
    await fill(database, ToyEmbedder())
    assert [await database[name].find().to_list(None) for name in names] == before
    assert set(await database.list_collection_names()) == {*names, VECTORS}


async def test_only_the_messages_of_an_owner(database: Any) -> None:
    threads = [zoo.thread("t1"), zoo.thread("t9", "res-b")]
    theirs = [zoo.message("b1", "t9", resourceId="res-b"), zoo.message("b2", "t9", resourceId=None)]
    await zoo.fill(database, threads=threads, messages=[*theirs, zoo.message("a1"), zoo.message("a2", resourceId=None)])
    assert await fill(database, ToyEmbedder(), resource_id="res-b") == FillReport(
        seen=2, embedded=2, pieces=2, tokens=6
    )
    assert await texts_of(database) == {"b1": 1, "b2": 1}


async def test_a_dry_run_counts_only(database: Any) -> None:
    await zoo.fill(database, messages=[*zoo.ten_messages(), zoo.message("long", text=long_text(40))])
    counted = await fill(database, embedder := HeardEmbedder(), dry_run=True)
    assert embedder.calls == []
    assert await database.list_collection_names() == ["mastra_messages"]
    done = await fill(database, embedder)
    assert (counted.seen, counted.embedded, counted.pieces) == (done.seen, done.embedded, done.pieces) == (11, 11, 13)


async def test_a_dry_run_counts_what_would_be_removed_and_corrected(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    await fill(plain_database, ToyEmbedder())
    await say(plain_database, "m1", "")
    await plain_database.mastra_messages.delete_one({"id": "m2"})
    await plain_database.mastra_messages.update_one({"id": "m3"}, {"$set": {"resourceId": "res-b"}})
    expected = FillReport(seen=9, unchanged=8, skipped=1, corrected=1, removed=2)
    assert await fill(plain_database, ToyEmbedder(), dry_run=True) == expected
    assert await fill(plain_database, ToyEmbedder()) == expected


# What changes


async def test_a_changed_text_is_embedded_again(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())
    await say(database, "m3", "something else altogether")
    report = await fill(database, embedder := HeardEmbedder())
    assert (report.embedded, report.unchanged) == (1, 9)
    assert embedder.texts == ["something else altogether"]
    assert await database[VECTORS].count_documents({}) == 10


async def test_a_longer_text_costs_only_its_new_pieces(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=[zoo.message("m1", text=long_text(60))])
    first = await fill(plain_database, ToyEmbedder())
    await say(plain_database, "m1", long_text(80))
    report = await fill(plain_database, ToyEmbedder())
    rows = await stored(plain_database)
    assert (first.pieces, report.pieces, report.corrected, len(rows)) == (4, 2, 3, 5)
    assert {row["source"]["pieces"] for row in rows} == {5}


async def test_the_surplus_of_a_shorter_text_is_removed(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1", text=long_text(60)), zoo.message("m2")])
    first = await fill(database, ToyEmbedder())
    await say(database, "m1", "short now")
    report = await fill(database, ToyEmbedder())
    assert (report.embedded, report.pieces, report.removed) == (1, 1, first.pieces - 2)
    assert await texts_of(database) == {"m1": 1, "m2": 1}


async def test_the_vectors_of_a_text_that_became_blank_are_removed(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())
    await say(database, "m1", "  ")
    assert await fill(database, ToyEmbedder()) == FillReport(seen=10, unchanged=9, skipped=1, removed=1)
    assert "m1" not in await texts_of(database)


async def test_another_model_embeds_everything_again(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())
    assert (await fill(database, RenamedEmbedder())).embedded == 10
    assert {row["source"]["model"] for row in await stored(database)} == {"another-model"}


async def test_an_owner_or_a_thread_that_changes_reaches_the_rows_without_embedding(database: Any) -> None:
    await zoo.fill(database, threads=[zoo.thread("t1", metadata={"vip": 1})], messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())
    await database.mastra_threads.update_one({"id": "t1"}, {"$set": {"metadata": {"vip": True}}})
    await database.mastra_messages.update_one({"id": "m1"}, {"$set": {"resourceId": "res-b"}})
    report = await fill(database, embedder := HeardEmbedder())
    assert report == FillReport(seen=10, unchanged=10, corrected=10)
    assert embedder.calls == []
    rows = await stored(database)
    assert [row["metadata"]["resource_id"] for row in rows[:2]] == ["res-b", "res-a"]
    assert all(row["metadata"]["vip"] is True for row in rows)


async def test_the_vectors_of_a_deleted_message_are_removed_and_those_of_others_kept(database: Any) -> None:
    await zoo.fill(database, messages=[*zoo.ten_messages(), zoo.message("long", text=long_text(40))])
    await fill(database, ToyEmbedder())
    foreign = {"_id": "theirs", "embedding": [1.0] * 64, "metadata": {"message_id": "long", "resource_id": "res-a"}}
    await database[VECTORS].insert_one(foreign)
    await database.mastra_messages.delete_many({"id": {"$in": ["long", "m2"]}})
    report = await fill(database, ToyEmbedder())
    assert report == FillReport(seen=9, unchanged=9, removed=4)
    assert await texts_of(database) == {"long": 1, **{f"m{n}": 1 for n in range(1, 11) if n != 2}}


async def test_only_the_orphans_of_the_owner_are_removed(plain_database: Any) -> None:
    messages = [zoo.message("a1"), zoo.message("b1", resourceId="res-b"), zoo.message("b2", resourceId="res-b")]
    await zoo.fill(plain_database, messages=messages)
    await fill(plain_database, ToyEmbedder())
    await plain_database.mastra_messages.delete_many({"id": {"$in": ["a1", "b1"]}})
    assert (await fill(plain_database, ToyEmbedder(), resource_id="res-b")).removed == 1
    assert await texts_of(plain_database) == {"a1": 1, "b2": 1}


async def test_nothing_is_removed_where_there_are_no_messages_at_all(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    await fill(plain_database, ToyEmbedder())
    await plain_database.mastra_messages.delete_many({})
    assert await fill(plain_database, ToyEmbedder()) == FillReport()
    assert await plain_database[VECTORS].count_documents({}) == 10


async def test_messages_that_were_restored_keep_their_vectors(database: Any) -> None:
    await zoo.fill(database, messages=zoo.ten_messages())
    await fill(database, ToyEmbedder())
    await database.mastra_messages.delete_many({})
    await zoo.fill(database, messages=zoo.ten_messages())
    report = await fill(database, embedder := HeardEmbedder())
    assert (report.unchanged, report.corrected, report.removed, embedder.calls) == (10, 10, 0, [])
    assert await fill(database, ToyEmbedder()) == FillReport(seen=10, unchanged=10)


async def test_of_messages_with_one_id_the_first_is_embedded_once(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message("m1", text="first"), zoo.message("m1", text="second")])
    report = await fill(database, embedder := HeardEmbedder())
    assert (report.embedded, report.skipped, embedder.texts) == (1, 1, ["first"])
    assert await fill(database, embedder) == FillReport(seen=2, unchanged=1, skipped=1)


# What goes wrong


async def test_a_run_that_fails_midway_is_gone_on_with(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message(f"m{number}") for number in range(100)])
    with pytest.raises(FillFailed, match=r"status 503\. Messages embedded before: 30;") as failure:
        await fill(database, BreakingEmbedder(calls=3), batch_size=10)
    assert failure.value.report.pieces == len(await stored(database)) == 30
    report = await fill(database, embedder := HeardEmbedder(), batch_size=10)
    assert (report.embedded, report.unchanged, len(embedder.texts)) == (70, 30, 70)
    assert [*(await texts_of(database)).values()] == [1] * 100


async def test_half_a_message_is_gone_on_with(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=[zoo.message("m1", text=long_text(100))])
    with pytest.raises(FillFailed) as failure:
        await fill(plain_database, BreakingEmbedder(calls=2), batch_size=1)
    assert (failure.value.report.embedded, failure.value.report.pieces) == (0, 2)
    assert (await fill(plain_database, ToyEmbedder())).pieces == len(await stored(plain_database)) - 2


async def test_one_text_that_is_refused_does_not_stop_the_others(database: Any) -> None:
    messages = [
        zoo.message(f"m{number}", text=f"poison {number}" if number in (3, 40) else "fine") for number in range(70)
    ]
    await zoo.fill(database, messages=messages)
    report = await fill(database, BreakingEmbedder(refused="poison"))
    assert (report.embedded, report.refused, report.pieces) == (68, 2, 68)
    assert not {"m3", "m40"} & (await texts_of(database)).keys()
    assert (await fill(database, ToyEmbedder())).embedded == 2


async def test_the_old_vector_of_a_refused_text_is_removed(plain_database: Any) -> None:
    await zoo.fill(plain_database, messages=zoo.ten_messages())
    await fill(plain_database, ToyEmbedder())
    await say(plain_database, "m1", "poison")
    report = await fill(plain_database, BreakingEmbedder(refused="poison"))
    assert report == FillReport(seen=10, unchanged=9, refused=1, removed=1, tokens=0)


async def test_a_database_that_is_away_is_told(mongodb_uri: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri) as client:
        await client.close()
        with pytest.raises(FillFailed, match=r"is closed\. Messages embedded before: 0"):
            await fill(client.memory, ToyEmbedder())


async def test_an_embedder_that_never_works_is_told(plain_database: Any) -> None:
    embedder = BreakingEmbedder(calls=0)
    embedder._dimensions = None  # type: ignore[assignment]
    with pytest.raises(FillFailed, match="status 503"):
        await fill(plain_database, embedder)


# How it goes about it


async def test_the_embedder_gets_full_batches_across_messages(database: Any) -> None:
    messages = [zoo.message(f"m{number}") for number in range(300)]
    await zoo.fill(database, messages=[*messages, zoo.message("long", text=long_text(200))])
    report = await fill(database, embedder := HeardEmbedder(), batch_size=50)
    assert [len(call) for call in embedder.calls[:-1]] == [50] * (report.pieces // 50)
    assert len(embedder.texts) == len(set(embedder.texts)) == report.pieces > 310


async def test_progress_ends_at_the_total(database: Any) -> None:
    await zoo.fill(database, messages=[zoo.message(f"m{number}") for number in range(300)])
    told: list[tuple[int, int]] = []
    await fill(database, ToyEmbedder(), progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert {total for _, total in told} == {300}
    assert told[-1] == (300, 300)


async def test_keys_of_any_kind(database: Any) -> None:
    keys: list[Any] = ["text", 7, {"a": 1}, ObjectId()]
    await zoo.fill(database, messages=[zoo.message(f"m{n}") | {"_id": key} for n, key in enumerate(keys)])
    assert (await fill(database, ToyEmbedder())).embedded == 4
    await database.mastra_messages.delete_many({"id": {"$in": ["m0", "m1", "m2"]}})
    assert await fill(database, ToyEmbedder()) == FillReport(seen=1, unchanged=1, removed=3)
