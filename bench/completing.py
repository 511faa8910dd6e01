"""From documents to the bytes of the answer, without a database: what a message costs our process.

Run: python -m bench.completing [ROUNDS]

Documents as the driver decodes them become messages (`from_documents`), the executor completes the selected fields, and
the answer is encoded; beside it the stock executor with the JSON of the standard library. CPU time in milliseconds,
medians, the ways taking turns. Documents are new in every round, because a message keeps what it has parsed. `around`
is what an execution costs without any message: its share of the two that follow is not the messages'.
"""

# Strawberry types its decorators as Any.
# mypy: disable-error-code="untyped-decorator"

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import bson
import strawberry
from strawberry.schema.config import StrawberryConfig

from bench.rows import LONG_OWNER, LONG_TEXT, messages
from bench.stock import encode as encode_plainly
from graph.execution import PlanningExecutor
from graph.messages import Message
from graph.operation import CachedParsing, CachedValidation
from graph.response import encode
from graph.scalars import SCALARS
from graph.serving import calm_garbage_collector as calm_garbage_collector
from store.messages import Message as StoredMessage
from store.messages import MessageOrigin
from store.scope import EVERYBODY
from store.slices import in_slices
from store.values import CODEC

SELECTIONS = {
    "8 plain fields": "id threadId resourceId role type createdAt origin key: id",
    "8 with text": "id threadId resourceId role type createdAt text metadata",
    "8, __typename": "id threadId resourceId role type createdAt text __typename",
    "uiMessage": "id uiMessage",
}
COUNTS = (100, 10_000)
TURN = 5
"""Answers in a row: after the other way's the processor's caches hold nothing of this one, as in no busy server."""


async def resolve_messages(info: strawberry.Info[list[Any], None]) -> list[StoredMessage]:
    """The messages of the context."""
    return info.context


@strawberry.type
class Query:
    """A list of messages, and nothing around it."""

    messages: list[StoredMessage] = strawberry.field(resolver=resolve_messages, graphql_type=list[Message])


@dataclass(frozen=True, slots=True)
class Way:
    """An executor and an encoder."""

    schema: strawberry.Schema
    encode: Callable[[object], bytes]

    async def answer(self, documents: list[dict[str, Any]], query: str) -> list[float]:
        """Milliseconds of CPU of each step: messages, completion, encoding, and all of them."""
        times = [time.process_time()]
        rows = await in_slices(
            documents, lambda part: StoredMessage.from_documents(part, EVERYBODY, repeat(MessageOrigin.PAGE))
        )
        times.append(time.process_time())
        result = await self.schema.execute(query, context_value=rows)
        times.append(time.process_time())
        assert not result.errors
        self.encode({"data": result.data})
        times.append(time.process_time())
        steps = [(end - begin) * 1e3 for begin, end in pairwise(times)]
        return [*steps, sum(steps)]


def make_schema(executor: type[Any] | None) -> strawberry.Schema:
    """The tiny schema with an executor; None is the stock one."""
    extensions = [CachedParsing, CachedValidation]
    config = StrawberryConfig(scalar_map=SCALARS)
    return strawberry.Schema(query=Query, config=config, execution_context_class=executor, extensions=extensions)


async def compare(ways: list[Way], stored: list[bytes], query: str, rounds: int) -> list[list[float]]:
    """The median of each step, for each way."""
    taken: list[list[list[float]]] = [[] for _ in ways]
    for number in range(rounds // TURN + 1):
        for way, times in zip(ways, taken, strict=True):
            for _ in range(TURN):
                documents = [bson.decode(document, CODEC) for document in stored]
                times.append(await way.answer(documents, query))
            if number == 0:
                # The first ones fill the caches.
                times.clear()
    return [[statistics.median(step) for step in zip(*times, strict=True)] for times in taken]


async def run(rounds: int) -> None:
    """Prints the table."""
    ways = [Way(make_schema(PlanningExecutor), encode), Way(make_schema(None), encode_plainly)]
    stored = [bson.encode(row | {"_id": bson.ObjectId()}) for row in messages(LONG_TEXT, LONG_OWNER, max(COUNTS))]
    print(f"{'':<25}{'here, ms of CPU':>36}{'stock, ms of CPU':>36}")
    steps = "".join(f"{step:>9}" for step in ("messages", "complete", "encode", "all"))
    print(f"{'messages  fields':<25}{steps}{steps}    ratio   around", flush=True)
    calm_garbage_collector()
    for count in COUNTS:
        for name, selection in SELECTIONS.items():
            query = f"{{ messages {{ {selection} }} }}"
            repeated = rounds if count <= 1000 else TURN
            here, stock = await compare(ways, stored[:count], query, repeated)
            (around, *_), _ = [each[1:] for each in await compare(ways, [], query, 30)]
            figures = "".join(f"{step:>9.2f}" for step in [*here, *stock])
            print(f"{count:>8}  {name:<15}{figures}{stock[-1] / here[-1]:>9.1f}{around:>9.2f}", flush=True)


def main() -> None:
    """Prints the table."""
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 100))


if __name__ == "__main__":
    main()
