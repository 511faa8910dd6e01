"""Values kept for an object as long as it lives: plans of an operation, errors of a document."""

import gc
from functools import partial

from graphql import parse

from graph.execution import PlanningExecutor
from graph.kept import Kept
from graph.operation import VALIDATED, CachedParsing, CachedValidation
from tests.graph.misbehaving import item, make_schema


def test_a_value_is_worked_out_once_for_each_object() -> None:
    kept: Kept[list[int]] = Kept()
    first, equal = parse("{ items { id } }"), parse("{ items { id } }")
    assert first == equal
    values = [kept.of(document, list) for document in (first, equal, first)]
    assert values[0] is values[2]
    assert values[0] is not values[1]


def test_a_value_is_forgotten_with_its_object() -> None:
    kept: Kept[str] = Kept()
    document = parse("{ items { id } }")
    assert kept.of(document, lambda: "worked out") == "worked out"
    assert len(kept) == 1
    del document
    gc.collect()
    assert len(kept) == 0


async def test_a_document_is_validated_once_and_its_errors_are_kept_with_it() -> None:
    schema = make_schema(PlanningExecutor, partial(CachedParsing, maxsize=3), CachedValidation)  # type: ignore[arg-type]
    for number in range(10):
        for _ in range(3):
            result = await schema.execute(f"{{ items {{ zzz{number} }} }}", context_value={"items": [item()]})
            assert [error.message for error in result.errors or ()] == [
                f"Cannot query field 'zzz{number}' on type 'Item'."
            ]
    gc.collect()
    assert 1 <= len(schema._schema.extensions[VALIDATED]) <= 4
