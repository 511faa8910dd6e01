"""The rows that are written are the rows that are read."""

import bson
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.embedding.planning import State, plan_message, to_pieces
from store.embedding.rows import ThreadFacts, row_id
from store.vectors.decoding import decode_batch
from tests import zoo

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3)


@given(FLOATS)
def test_a_written_vector_is_read_bit_by_bit(numbers: list[float]) -> None:
    vector = np.array(numbers, dtype=np.float32)
    (piece,) = to_pieces({"_id": 1, **zoo.message("m1")}, "toy", ThreadFacts("res-a", {"embedding": [1.0]}))
    batch = decode_batch(bson.encode(piece.to_document(vector)), 3)
    assert batch.vectors.tobytes() == vector.tobytes()
    assert (batch.message_ids, batch.thread_ids, batch.resource_ids) == (["m1"], ["t1"], ["res-a"])


def test_the_key_of_a_row_never_changes() -> None:
    # Rows that were written stay in databases: another key would leave them behind, doubled.
    assert row_id("m1", 0) == "887c24ff-7774-5b0a-b955-d82e48e1cf49"
    assert len({row_id(id, number) for id in ("m1", "m11", "1 m1") for number in (0, 1, 11)}) == 9


@pytest.mark.parametrize("value", [1, 1.0, True, "1", None, [1], {"a": 1}, bson.Int64(1), float("nan")])
def test_what_a_row_says_is_compared_by_type(value: object) -> None:
    document = {"_id": 1, **zoo.message("m1")}
    values = [1, 1.0, True, "1", None, [1], {"a": 1}, bson.Int64(1), float("nan")]
    facts = [ThreadFacts("res-a", {"value": other}) for other in values]
    (piece,) = to_pieces(document, "toy", ThreadFacts("res-a", {"value": value}))
    rows = [
        bson.decode(bson.encode(to_pieces(document, "toy", fact)[0].to_document(np.ones(3, dtype=np.float32))))
        for fact in facts
    ]
    same = [other for other, row in zip(values, rows, strict=True) if piece.is_described_by(row)]
    assert list(map(repr, same)) == [repr(value)]


def test_a_row_of_another_program_with_a_source_of_its_own_is_foreign() -> None:
    row = {"_id": "theirs", "metadata": {"message_id": "m1"}, "source": "a page"}
    assert plan_message({"_id": 1, **zoo.message("m1")}, [row], "toy").state is State.FOREIGN
