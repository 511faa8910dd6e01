"""Raw batches of stored vectors, decoded fast, against plain decoding."""

import math
from collections import Counter
from typing import Any

import bson
import numpy as np
import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from bson.binary import BinaryVectorDtype
from bson.errors import InvalidBSON
from hypothesis import given
from hypothesis import strategies as st

from store.vectors.batch import VectorBatch
from store.vectors.decoding import decode_batch

Document = dict[str, Any]


def stored(embedding: Any, message_id: Any = "m1", **metadata: Any) -> Document:
    return {"_id": f"v-{message_id}", "embedding": embedding, "metadata": {"message_id": message_id, **metadata}}


def decoded(*documents: Document, dimensions: int) -> VectorBatch:
    return decode_batch(b"".join(map(bson.encode, documents)), dimensions)


def test_arrays_of_doubles() -> None:
    batch = decoded(stored([1.5, -2.0], "m1", thread_id="t1", resource_id="r1"), stored([0.0, 4.0], "m2"), dimensions=2)
    assert batch.vectors.tolist() == [[1.5, -2.0], [0.0, 4.0]]
    assert batch.vectors.dtype == np.float32
    assert (batch.message_ids, batch.thread_ids, batch.resource_ids) == (["m1", "m2"], ["t1", None], ["r1", None])


@pytest.mark.parametrize("dimensions", [1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001, 1536])
def test_every_number_of_digits_in_the_keys(dimensions: int) -> None:
    numbers = np.random.default_rng(dimensions).standard_normal((3, dimensions))
    batch = decoded(*(stored(row, f"m{place}") for place, row in enumerate(numbers.tolist())), dimensions=dimensions)
    assert np.array_equal(batch.vectors, numbers.astype(np.float32))


def test_more_rows_than_are_read_at_a_time() -> None:
    batch = decoded(*(stored([float(place), 1.0], f"m{place}") for place in range(1000)), dimensions=2)
    assert batch.vectors[:, 0].tolist() == list(range(1000))
    assert batch.message_ids[-1] == "m999"


def test_whole_numbers_among_the_doubles() -> None:
    batch = decoded(stored([0, 1.5, Int64(2)]), stored([0.5, 1.5, 2.5], "m2"), dimensions=3)
    assert batch.vectors.tolist() == [[0, 1.5, 2], [0.5, 1.5, 2.5]]


def test_binary_vectors() -> None:
    floats = Binary.from_vector([0.5, -1.0], BinaryVectorDtype.FLOAT32)
    bytes_ = Binary.from_vector([127, -128], BinaryVectorDtype.INT8)
    assert decoded(stored(floats), stored(bytes_, "m2"), dimensions=2).vectors.tolist() == [[0.5, -1], [127, -128]]


@pytest.mark.parametrize(
    "embedding",
    [
        None,
        [],
        "0.5",
        {"0": 0.5, "1": 0.5},
        [0.5, None],
        [0.5, "0.5"],
        [True, False],
        [[0.5], [0.5]],
        [0.5, Decimal128("0.5")],
        b"\x27\x00" + bytes(8),
        Binary(b"", 9),
        Binary(b"\x27\x00" + bytes(7), 9),
        Binary(b"\x27\x01" + bytes(8), 9),
        Binary.from_vector([1, 2], BinaryVectorDtype.PACKED_BIT),
    ],
)
def test_what_is_no_vector_is_left_out(embedding: Any) -> None:
    batch = decoded(stored([1.0, 2.0], "before"), stored(embedding), stored([3.0, 4.0], "after"), dimensions=2)
    assert batch.message_ids == ["before", "after"]
    assert not batch.other_lengths


@pytest.mark.parametrize(
    "document",
    [
        {"_id": "__index_metadata__", "dimension": 2, "metric": "cosine"},
        {"_id": "__index_metadata__", "embedding": [0.0, 0.0], "metadata": {}},
        {"_id": "v", "metadata": {"message_id": "m"}},
        {"_id": "v", "embedding": [1.0, 2.0]},
        {"_id": "v", "embedding": [1.0, 2.0], "metadata": "m"},
        {"_id": "v", "embedding": [1.0, 2.0], "metadata": {"message_id": ObjectId()}},
        {},
    ],
)
def test_what_belongs_to_no_message_is_left_out(document: Document) -> None:
    batch = decoded(document, stored([3.0, 4.0]), dimensions=2)
    assert batch.vectors.tolist() == [[3, 4]]


def test_other_lengths_are_counted() -> None:
    other = Binary.from_vector([1.0, 2.0, 3.0, 4.0], BinaryVectorDtype.FLOAT32)
    batch = decoded(stored([1.0] * 3), stored([1.0] * 3), stored(other), stored([1.0] * 2), dimensions=2)
    assert batch.other_lengths == Counter({3: 2, 4: 1})
    assert len(batch.vectors) == 1


def test_numbers_beyond_float32_become_infinite_in_either_way() -> None:
    batch = decoded(stored([1e300, math.nan]), stored([1, -1e300], "m2"), dimensions=2)
    assert np.array_equal(batch.vectors, [[math.inf, math.nan], [1, -math.inf]], equal_nan=True)


def test_other_keys_than_the_places_are_read_in_order() -> None:
    document = bson.encode(stored({"1": 1.0, "0": 2.0}))
    as_array = document.replace(b"\x03embedding", b"\x04embedding")
    assert decode_batch(as_array, 2).vectors.tolist() == [[1, 2]]


def test_ids_that_look_like_the_embedding_deceive_nobody() -> None:
    fake = bson.encode({"embedding": [9.0, 9.0], "metadata": {"message_id": "fake"}})[4:-1].decode("latin-1")
    document = stored([1.0, 2.0]) | {"_id": fake}
    assert decoded(document, stored([3.0, 4.0], fake), dimensions=2).vectors.tolist() == [[1, 2], [3, 4]]


def test_text_that_is_no_utf8_does_not_stop_the_batch() -> None:
    broken = bson.encode(stored([1.0, 2.0], "m1", thread_id="tXt")).replace(b"tXt", b"t\xfft")
    batch = decode_batch(broken + bson.encode(stored([3, 4], "m2")), 2)
    assert batch.thread_ids == ["t\ufffdt", None]


def test_an_empty_batch() -> None:
    batch = decode_batch(b"", 3)
    assert batch.vectors.shape == (0, 3)
    assert batch.message_ids == []


@pytest.mark.parametrize("cut", [1, 3, 4, 20, 60, -1, -20])
def test_half_a_document_is_an_error(cut: int) -> None:
    whole = bson.encode(stored([1.0, 2.0]))
    with pytest.raises(InvalidBSON):
        decode_batch(whole + whole[:cut], 2)


@pytest.mark.parametrize("dimensions", [0, -1, 100_001])
def test_impossible_dimensions_are_an_error(dimensions: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 100000 numbers"):
        decode_batch(b"", dimensions)


doubles = st.floats(width=32) | st.sampled_from([1e300, 5e-324])
numbers = doubles | st.integers(-(2**63), 2**63 - 1)
embeddings = (
    st.lists(doubles, min_size=11, max_size=11)
    | st.lists(numbers, min_size=9, max_size=12)
    | st.lists(numbers | st.none() | st.booleans(), max_size=11)
    | st.lists(st.floats(width=32, allow_nan=False), min_size=10, max_size=12).map(
        lambda values: Binary.from_vector(values, BinaryVectorDtype.FLOAT32)
    )
    | st.binary(max_size=50)
    | st.none()
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
documents = st.fixed_dictionaries(
    {},
    optional={
        "_id": texts | st.integers(0, 9) | st.builds(ObjectId),
        "more": texts,
        "embedding": embeddings,
        "metadata": st.fixed_dictionaries(
            {}, optional={name: texts | st.none() for name in ("message_id", "thread_id", "resource_id", "more")}
        ),
    },
)
shuffled = documents.flatmap(lambda document: st.permutations(list(document.items())).map(dict)) | documents


def expected_row(document: Document) -> tuple[list[float], str, Any, Any] | int | None:
    """What should become of a document of 11 numbers: a row, the length it has instead, or nothing."""
    metadata, embedding = document.get("metadata", {}), document.get("embedding")
    if isinstance(embedding, Binary):
        embedding = list(embedding.as_vector().data)
    if not isinstance(embedding, list) or not embedding or metadata.get("message_id") is None:
        return None
    if not all(type(number) in (int, float) for number in embedding):
        return None
    if len(embedding) != 11:
        return len(embedding)
    return embedding, metadata["message_id"], metadata.get("thread_id"), metadata.get("resource_id")


@given(st.lists(shuffled, max_size=6))
def test_any_batch_is_decoded_as_in_the_plain_way(batch: list[Document]) -> None:
    found = decoded(*batch, dimensions=11)
    expected = [row for row in map(expected_row, batch) if row is not None]
    rows = [row for row in expected if not isinstance(row, int)]
    with np.errstate(over="ignore"):
        vectors = np.array([row[0] for row in rows], dtype=np.float32).reshape(-1, 11)
    assert np.array_equal(found.vectors, vectors, equal_nan=True)
    owners = list(zip(found.message_ids, found.thread_ids, found.resource_ids, strict=True))
    assert owners == [row[1:] for row in rows]
    assert found.other_lengths == Counter(row for row in expected if isinstance(row, int))
