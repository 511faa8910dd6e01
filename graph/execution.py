"""Completing lists of plain objects by a plan for each selection, column by column, instead of field by field.

graphql-core spends several microseconds on each field of each item: a path, an info object, argument values, checks
for awaitables. None of that is needed where a plan covers the whole selection (see `graph.planning`). Everything else
takes the stock path, and so does a whole list in which anything is unusual (a missing attribute, a null that may not
be null, a value that a scalar refuses, a batch that fails): errors, their paths and the propagation of nulls are
graphql-core's own.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from graphql import GraphQLNonNull, GraphQLOutputType, GraphQLResolveInfo, is_leaf_type
from graphql.execution.values import get_argument_values
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.arguments import convert_arguments

from graph.columns import Column, Columns, Given, Unusual
from graph.kept import Kept
from graph.planning import BoundBatch, Details, Plan, Planner, Plans
from graph.response import encode
from store.lazy import forget
from store.slices import SLICE
from store.values import JSONText

Stock = Callable[[], Awaitable[Column] | Column]

PLANS = "recallql plans"
"""The key of the plans among a schema's extensions."""
_TURN_SECONDS = 0.005
"""How long items that may hold very many others are completed without a pause."""


class PlanningExecutor(StrawberryGraphQLCoreExecutionContext):
    """Strawberry's executor, with lists of plain objects completed by a plan."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Middleware, such as tracing, wants to see every field.
        self._is_watched = bool(self.middleware_manager and self.middleware_manager.middlewares)
        self._plans = self._kept_plans()
        self._takes_json_text = getattr(self.context_value, "takes_json_text", False)

    def _kept_plans(self) -> Plans:
        """The plans of earlier executions, or this one's own where a directive may change what is selected."""
        place = self.operation.loc
        if place is None or "@" in place.source.body:
            return Plans()
        kept: Kept[Plans] = self.schema.extensions.setdefault(PLANS, Kept())
        return kept.of(self.operation, Plans)

    def complete_iterable_value(
        self,
        item_type: GraphQLOutputType,
        field_details_list: Details,
        info: GraphQLResolveInfo[Any],
        path: Path,
        items: Iterable[Any],
        position_context: Any,
    ) -> Awaitable[list[Any]] | list[Any]:
        """Complete a list by its plan, or in the stock way where there is none.

        A long list is completed in slices, between which other requests have their turn.
        """
        arguments = (item_type, field_details_list, info, path, items, position_context)
        in_stock_way: Stock = partial(super().complete_iterable_value, *arguments)
        # What is made while it is read can be read once only, and may fail midway.
        plan = self._plan_of(item_type, field_details_list, path) if isinstance(items, (list, tuple)) else None
        if plan is None:
            return in_stock_way()
        rows = list(items)
        if len(rows) > SLICE or plan.is_deep:
            return _or_in_stock_way(self._complete_in_slices(rows, plan), in_stock_way)
        try:
            columns = plan.read(rows)
            if plan.batches and rows:
                return _or_in_stock_way(self._complete_with_batches(rows, plan, columns), in_stock_way)
            return plan.join(columns, dict.fromkeys(plan.batches, ()))
        except Exception:
            # Attributes have no side effects: the stock path meets the same fault and tells of it properly.
            return in_stock_way()

    async def _complete_with_batches(self, rows: Column, plan: Plan, columns: Columns) -> Column:
        return plan.join(columns, await self._fetch(rows, plan))

    async def _complete_in_slices(self, rows: Column, plan: Plan) -> Any:
        """A long list; where the answer takes JSON text, each slice is written at once, and its objects are gone."""
        slices = _slices(rows, plan, await self._fetch(rows, plan) if rows else {})
        if self._takes_json_text:
            return await _written(slices)
        return [item async for _, completed in slices for item in completed]

    async def _fetch(self, rows: Column, plan: Plan) -> Given:
        """What the batches of a plan fetch for all rows, side by side."""
        bound = [(batch, self._arguments(batch)) for batch in plan.batches.values()]
        fetches = (batch.fetch(rows, self.context_value, batch.selected, **arguments) for batch, arguments in bound)
        fetched = await asyncio.gather(*fetches, return_exceptions=True)
        given: dict[str, Sequence[Any]] = {}
        for name, values in zip(plan.batches, fetched, strict=True):
            if isinstance(values, BaseException) or len(values) != len(rows):
                raise Unusual
            given[name] = values
        return given

    def _arguments(self, batch: BoundBatch) -> dict[str, Any]:
        """The arguments of a batch's field by their names in Python. Raises what the stock path tells of."""
        if not batch.field.args:
            return {}
        fragment_values = batch.details.fragment_variable_values
        values = get_argument_values(
            batch.field, batch.details.node, self.variable_values, fragment_values, self.hide_suggestions
        )
        schema = self.schema.extensions[GraphQLCoreConverter.DEFINITION_BACKREF]
        registry = schema.schema_converter.scalar_registry
        return convert_arguments(values, batch.definition.arguments, registry, schema.config)

    def _plan_of(self, item_type: GraphQLOutputType, details: Details, path: Path) -> Plan | None:
        """The plan of a selection; None where it holds anything that is not covered."""
        inner = item_type.of_type if isinstance(item_type, GraphQLNonNull) else item_type
        if self._is_watched or is_leaf_type(inner) or self.get_stream_usage(details, path):
            return None
        return self._plans.get(item_type, details, self._takes_json_text, make=lambda: self._plan(item_type, details))

    def _plan(self, item_type: GraphQLOutputType, details: Details) -> Plan | None:
        fragments = {name: fragment.definition for name, fragment in self.fragments.items()}
        return Planner(self.collect_subfields, fragments, self._takes_json_text).plan(item_type, details)


async def _or_in_stock_way(completing: Awaitable[Any], in_stock_way: Stock) -> Any:
    """Loaders remember, failures as well: what a plan has fetched is not fetched again when it fails."""
    try:
        return await completing
    except Exception:
        completed = in_stock_way()
        return completed if isinstance(completed, list) else await completed


async def _slices(rows: Column, plan: Plan, given: Given) -> AsyncIterator[tuple[Column, Column]]:
    """The rows and the completed rows, slice by slice, between which others have their turn."""
    size, began = 1 if plan.is_deep else SLICE, time.perf_counter()
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        items = rows[part]
        yield items, plan.complete(items, {name: values[part] for name, values in given.items()})
        if size == SLICE or time.perf_counter() - began > _TURN_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()


async def _written(slices: AsyncIterator[tuple[Column, Column]]) -> JSONText:
    """A list as JSON. What its items worked out is dropped at once: to drop all of it in the end takes long."""
    written: list[bytes] = []
    async for items, completed in slices:
        written.append(encode(completed))
        forget(items)
    if not written:
        return JSONText(b"[]")
    # Each slice is a list in itself: its closing bracket gives way to a comma, but for the last one's.
    return JSONText(b"[", *(b"%b," % each[1:-1] for each in written[:-1]), written[-1][1:])
