"""Files as `mongoexport` writes them, and files that went wrong, into a real collection."""

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient

from store.extended_json import read_documents
from store.importing import BATCH_SIZE, ImportFailed, ImportReport, import_documents

OID = "650000000000000000000001"


def _file(folder: Path, lines: Iterable[Any], name: str = "export.json") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


async def _all(collection: Any) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = await collection.find().sort("_id", 1).to_list(None)
    return documents


async def test_canonical_values_keep_their_types(database: Any, tmp_path: Path) -> None:
    line = {
        "_id": {"$oid": OID},
        "id": "thread-1",
        "createdAt": {"$date": {"$numberLong": "1700000000123"}},
        "tokens": {"$numberLong": "9007199254740993"},
        "turns": {"$numberInt": "3"},
        "score": {"$numberDouble": "0.5"},
        "price": {"$numberDecimal": "1.10"},
    }
    await import_documents(database.threads, [_file(tmp_path, [line])])
    (stored,) = await _all(database.threads)
    assert stored == {
        "_id": ObjectId(OID),
        "id": "thread-1",
        "createdAt": datetime(2023, 11, 14, 22, 13, 20, 123000),
        "tokens": Int64(9007199254740993),
        "turns": 3,
        "score": 0.5,
        "price": Decimal128("1.10"),
    }


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2023-11-14T22:13:20.123Z", datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)),
        ("2023-11-15T00:13:20.999+02:00", datetime(2023, 11, 14, 22, 13, 20, 999000, UTC)),
    ],
)
async def test_relaxed_dates_are_instants(plain_database: Any, tmp_path: Path, written: str, instant: datetime) -> None:
    await import_documents(plain_database.c, [_file(tmp_path, [{"id": "a", "at": {"$date": written}}])])
    aware = plain_database.c.with_options(CodecOptions[dict[str, Any]](tz_aware=True))
    assert (await aware.find_one())["at"] == instant


def test_a_date_past_the_year_9999_is_read(tmp_path: Path) -> None:
    line = {"id": "a", "at": {"$date": {"$numberLong": "300000000000000"}}}
    ((_, document),) = read_documents(_file(tmp_path, [line]))
    assert document["at"] == DatetimeMS(300000000000000)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "a"}\n{"id": "b"}\n',
        '\ufeff{"id": "a"}\r\n\r\n{"id": "b"}',
        '[{"id": "a"},\n{"id": "b"}]\n',
        '\n\ufeff  [{"id": "a"}, {"id": "b"}]'.replace("\ufeff", ""),
        '\ufeff[\n  {\n    "id": "a"\n  },\n  {"id": "b"}\n]',
        '{\n\t"id": "a"\n}\n{\n\t"id": "b"\n}\n',
    ],
    ids=["lines", "lines-bom-crlf", "array", "array-indented", "array-bom-pretty", "pretty"],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
async def test_every_form_of_file_is_read(plain_database: Any, tmp_path: Path, text: str, pack: Any) -> None:
    path = tmp_path / "export"
    path.write_bytes(pack(text.encode()))
    assert await import_documents(plain_database.c, [path]) == ImportReport(inserted=2)
    assert [row["id"] for row in await _all(plain_database.c)] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "\n \n", "[]", " [ ]\n"])
async def test_a_file_without_documents_is_no_error(plain_database: Any, tmp_path: Path, text: str) -> None:
    assert await import_documents(plain_database.c, [_file(tmp_path, [text])]) == ImportReport()


async def test_the_same_id_is_replaced_and_keeps_its_own_key(database: Any, tmp_path: Path) -> None:
    await database.threads.insert_one({"_id": 7, "id": "thread-1", "title": "old", "gone": True})
    line = {"_id": {"$oid": OID}, "id": "thread-1", "title": "new"}
    report = await import_documents(database.threads, [_file(tmp_path, [line])])
    assert report == ImportReport(replaced=1)
    assert await _all(database.threads) == [{"_id": 7, "id": "thread-1", "title": "new"}]


async def test_without_id_the_database_key_decides(database: Any, tmp_path: Path) -> None:
    lines = [{"_id": "vector-1", "embedding": [0.5]}, {"_id": {"$oid": OID}, "id": None}]
    path = _file(tmp_path, lines)
    assert await import_documents(database.vectors, [path]) == ImportReport(inserted=2)
    assert await import_documents(database.vectors, [path]) == ImportReport(replaced=2)
    assert {row["_id"] for row in await _all(database.vectors)} == {"vector-1", ObjectId(OID)}


async def test_a_second_import_changes_nothing(plain_database: Any, tmp_path: Path) -> None:
    path = _file(tmp_path, [{"id": f"m{number}"} for number in range(BATCH_SIZE + 1)])
    first = await import_documents(plain_database.c, [path])
    before = await _all(plain_database.c)
    second = await import_documents(plain_database.c, [path])
    assert (first.inserted, second.replaced) == (BATCH_SIZE + 1, BATCH_SIZE + 1)
    assert await _all(plain_database.c) == before


async def test_the_order_of_the_file_is_the_order_of_insertion(plain_database: Any, tmp_path: Path) -> None:
    names = [f"m{number * 7919 % 1000}" for number in range(1000)]
    await import_documents(plain_database.c, [_file(tmp_path, [{"id": name} for name in names])])
    assert [row["id"] for row in await _all(plain_database.c)] == names


async def test_the_last_of_several_with_one_id_wins(database: Any, tmp_path: Path) -> None:
    lines = [
        {"_id": 1, "id": "a", "title": "first"},
        {"_id": 2, "id": "a", "title": "second"},
        {"_id": 3, "id": "a", "title": "third"},
    ]
    assert await import_documents(database.c, [_file(tmp_path, lines)]) == ImportReport(inserted=1, replaced=2)
    assert await _all(database.c) == [{"_id": 1, "id": "a", "title": "third"}]


async def test_an_id_is_compared_exactly_under_any_collation(plain_database: Any, tmp_path: Path) -> None:
    await plain_database.create_collection("c", collation={"locale": "en", "strength": 2})
    await plain_database.c.insert_one({"_id": 1, "id": "ABC"})
    await import_documents(plain_database.c, [_file(tmp_path, [{"_id": 2, "id": "abc"}])])
    assert [row["id"] for row in await _all(plain_database.c)] == ["ABC", "abc"]


async def test_the_id_gets_the_unique_index_that_mastra_makes(database: Any, tmp_path: Path) -> None:
    await import_documents(database.threads, [_file(tmp_path, [{"id": "a"}])])
    await import_documents(database.vectors, [_file(tmp_path, [{"_id": "a"}])])
    assert (await database.threads.index_information())["id_1"]["unique"] is True
    assert list(await database.vectors.index_information()) == ["_id_"]


async def test_a_collection_that_already_repeats_an_id_can_be_written(database: Any, tmp_path: Path) -> None:
    await database.c.insert_many([{"_id": 1, "id": "a"}, {"_id": 2, "id": "a"}])
    report = await import_documents(database.c, [_file(tmp_path, [{"id": "a", "new": 1}, {"id": "b"}])])
    assert report == ImportReport(inserted=1, replaced=1)


async def test_progress_counts_what_is_written(plain_database: Any, tmp_path: Path) -> None:
    files = [_file(tmp_path, [{"id": f"{name}{number}"} for number in range(400)], name) for name in ("a", "b", "c")]
    told: list[int] = []
    await import_documents(plain_database.c, files, progress=told.append)
    assert told == [500, 1000, 1200]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "x"', "not JSON"),
        ('{"id": "x"} {"id": "y"}', "something follows the document, from column 12"),
        ('{"id": "x", "n": NaN}', "must be written as .numberDouble"),
        ('{"id": "x", "_id": {"$oid": "short"}}', "not Extended JSON"),
        ('{"id": "x", "at": {"$date": "yesterday"}}', "not Extended JSON"),
        ('{"id": "x", "n": {"$numberDecimal": "many"}}', "not Extended JSON"),
        ('"text"', "not a document"),
        ("null", "not a document"),
        ('{"$oid": "650000000000000000000001"}', "not a document"),
        ('{"id": "x", "$set": {"a": 1}}', "begins with a dollar sign: .set"),
        ('{"id": "x", "n": 99999999999999999999}', "cannot be stored"),
        ('{"id": "x", "a\\u0000b": 1}', "cannot be stored"),
        ('{"id": "x", "text": "\\ud800"}', "cannot be stored"),
        ('{"id": "x", "deep": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"id": "x", "text": "' + "a" * 17_000_000 + '"}', "more than MongoDB's 16777216"),
        ('{"title": "nameless"}', "neither id nor _id"),
        ('{"id": 5}', "id must be text"),
        ('{"id": " "}', "id must be text"),
        ('{"id": {"$gt": ""}}', "id must be text"),
    ],
    ids=lambda value: value[:30],
)
async def test_a_bad_line_is_named(plain_database: Any, tmp_path: Path, line: str, reason: str) -> None:
    path = _file(tmp_path, [{"id": "good"}, line])
    with pytest.raises(ImportFailed, match=rf"export\.json, line 2: .*{reason}"):
        await import_documents(plain_database.c, [path])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"id": "a"},\n{"id": "b"}\n{"id": "c"}]', "line 3: the array is cut off, or a comma is missing"),
        ('\n[{"id": "a"},\n{"id": "b"}', "line 3: the array is cut off"),
        ('[{"id": "a"},\n]', "line 2: not JSON"),
        ('[{"id": "a"}]\n\n{"id": "b"}', "line 3: something follows the array"),
        ('[\n{"id": "a"},\n\n  {"id": 1}]', "line 4: id must be text"),
        ('{\n"id": "a"\n}\n{\n"id": oops\n}', "line 5: not JSON"),
    ],
)
async def test_a_bad_place_in_an_array_is_named(plain_database: Any, tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ImportFailed, match=rf"export\.json, {place}"):
        await import_documents(plain_database.c, [_file(tmp_path, [text])])


async def test_a_bad_line_costs_its_batch_and_no_other(database: Any, tmp_path: Path) -> None:
    good = [{"id": f"m{number}"} for number in range(BATCH_SIZE + 10)]
    with pytest.raises(ImportFailed, match=r"line 511: .* Documents written before: 500\.") as failure:
        await import_documents(database.c, [_file(tmp_path, [*good, "oops"])])
    assert failure.value.report == ImportReport(inserted=BATCH_SIZE)
    assert await database.c.count_documents({}) == BATCH_SIZE


async def test_a_refusal_by_the_database_names_the_line(database: Any, tmp_path: Path) -> None:
    lines = [{"_id": 1, "id": "a"}, {"_id": 1, "id": "b"}, {"_id": 3, "id": "c"}]
    with pytest.raises(ImportFailed, match=r"line 2: the database refuses the document: .*duplicate") as failure:
        await import_documents(database.c, [_file(tmp_path, lines)])
    assert failure.value.report == ImportReport(inserted=1)
    assert [row["id"] for row in await _all(database.c)] == ["a"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"id": "ä"}'.encode("latin-1"), "line 1: not UTF-8 text"),
        ('{"id": "a"}'.encode("utf-16"), "line 1: not UTF-8 text"),
        ('[{"id": "a"},\n{"id": "ä"}]'.encode("latin-1"), "line 2: not UTF-8 text"),
        (gzip.compress(b'{"id": "a"}\n' * 9)[:-9], "cannot be read"),
        (gzip.compress(b"")[:4] + b"nonsense", "cannot be read"),
    ],
)
async def test_a_damaged_file_is_named(plain_database: Any, tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match=f"damaged, .*{reason}"):
        await import_documents(plain_database.c, [path])


async def test_a_missing_file_is_named(plain_database: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="nowhere, after line 0: cannot be read: No such file"):
        await import_documents(plain_database.c, [tmp_path / "nowhere"])


async def test_a_database_that_is_away_is_told_with_what_was_written(tmp_path: Path) -> None:
    async with AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=50) as client:
        with pytest.raises(ImportFailed, match=r"does not answer\. Documents written before: 0\."):
            await import_documents(client.memory.threads, [_file(tmp_path, [{"id": "a"}])])
