"""Plans: how a list of objects is completed, made once for each selection.

A field belongs into a plan when it is an attribute of the item and its type is a scalar, an enum, or an object or list
of such; or when it has a batch, which fetches its values for all items at once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from graphql import (
    FragmentDefinitionNode,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    is_leaf_type,
)
from graphql.execution.collect_fields import CollectedFields, FieldDetails
from strawberry.types.field import StrawberryField

from graph.columns import Column, Columns, Completion, Field, Given, Rows, leaves, lists, optional, required, unchanged
from graph.selection import Selection, merged

Details = list[FieldDetails]
Batch = Callable[..., Awaitable[Sequence[Any]]]
"""The values of a field for all these items; gets the items, the request's context, what is selected beneath the field,
and the field's arguments by name."""

BATCH = "batch"
"""The key of a field's batch in `strawberry.field(metadata=...)`. It gives what the field's resolver gives for each."""
JSON_TEXT = "json text"
"""The key of the attribute that gives a field's value as `JSONText` where it can; else it gives the value itself."""


@dataclass(frozen=True, slots=True)
class BoundBatch:
    """A batch with what is selected beneath its field, and the field, whose arguments may hold variables."""

    fetch: Batch
    selected: Selection
    field: GraphQLField
    definition: StrawberryField
    details: FieldDetails


@dataclass(frozen=True, slots=True)
class Plan:
    """How a list is completed: `join` puts together what `read` gives and what `batches` fetch for the items.

    The names are those of the fields in the answer. `is_deep`: a single item may hold very many others.
    """

    read: Callable[[Column], Columns]
    join: Callable[[Columns, Given], Column]
    batches: Mapping[str, BoundBatch]
    is_deep: bool = False

    def complete(self, items: Column, given: Given) -> Column:
        """The items of the answer."""
        return self.join(self.read(items), given)


class Planner:
    """Makes the plans of one execution."""

    def __init__(
        self,
        collect: Callable[[GraphQLObjectType, Details], CollectedFields],
        fragments: Mapping[str, FragmentDefinitionNode],
        takes_json_text: bool = False,
    ) -> None:
        self._collect = collect
        self._fragments = fragments
        self._takes_json_text = takes_json_text
        self._has_lists = False

    def plan(self, item_type: GraphQLOutputType, details: Details) -> Plan | None:
        """The plan of a list with items of this type; None where it holds anything that no plan covers."""
        if isinstance(item_type, GraphQLNonNull) and isinstance(item_type.of_type, GraphQLObjectType):
            return self._plan_objects(item_type.of_type, details)
        completion = self._complete(item_type, details)
        return completion and Plan(lambda items: {"": completion(items)}, lambda columns, given: columns[""], {})

    def _plan_objects(self, type_: GraphQLObjectType, details: Details) -> Plan | None:
        batches: dict[str, BoundBatch] = {}
        rows = self._rows(type_, details, batches)
        return Plan(required(rows.read), rows.join, batches, bool(batches) and self._has_lists) if rows else None

    def _complete(self, type_: GraphQLOutputType, details: Details) -> Completion | None:
        is_required = isinstance(type_, GraphQLNonNull)
        inner_type = type_.of_type if isinstance(type_, GraphQLNonNull) else type_
        inner = self._complete_inner(inner_type, details)
        if inner is None:
            return None
        return unchanged(inner_type, is_required, required(inner) if is_required else optional(inner))

    def _complete_inner(self, type_: GraphQLOutputType, details: Details) -> Completion | None:
        """The completion of a column without nulls."""
        if isinstance(type_, GraphQLList):
            self._has_lists = True
            item = self._complete(type_.of_type, details)
            return item and lists(item)
        if isinstance(type_, GraphQLObjectType):
            rows = self._rows(type_, details, None)
            return None if rows is None else lambda items: rows.join(rows.read(items), {})
        return leaves(type_) if is_leaf_type(type_) else None

    def _rows(self, type_: GraphQLObjectType, details: Details, batches: dict[str, BoundBatch] | None) -> Rows | None:
        """The fields of an object; batches are added to `batches`, or not covered without."""
        collected = self._collect(type_, details)
        if type_.is_type_of or collected.new_defer_usages:
            return None
        fields: dict[str, Field] = {}
        for name, field_details in collected.grouped_field_set.items():
            field = self._field(type_, name, field_details, batches)
            if field is None:
                return None
            fields[name] = field
        # Nothing may be left of a selection whose fields are all skipped.
        return Rows(fields) if fields else None

    def _field(
        self, type_: GraphQLObjectType, name: str, details: Details, batches: dict[str, BoundBatch] | None
    ) -> Field | None:
        field_name = details[0].node.name.value
        if field_name == "__typename":
            return Field(lambda item: type_.name, list)
        field = type_.fields.get(field_name)
        definition = field and field.extensions.get("strawberry-definition")
        if not field or not isinstance(definition, StrawberryField):
            return None
        completion = self._complete(field.type, details)
        if completion is None:
            return None
        if definition.is_basic_field:
            return Field(attrgetter(self._attribute(definition)), completion)
        batch = definition.metadata.get(BATCH)
        if batch is None or batches is None:
            return None
        selected = merged((each.node.selection_set for each in details), self._fragments)
        batches[name] = BoundBatch(batch, selected, field, definition, details[0])
        return Field(None, completion)

    def _attribute(self, definition: StrawberryField) -> str:
        json_text: str | None = definition.metadata.get(JSON_TEXT) if self._takes_json_text else None
        return json_text or definition.python_name


class Plans:
    """The plans of one operation, by the nodes of the document that they were made from."""

    def __init__(self) -> None:
        self._plans: dict[tuple[int, ...], tuple[object, Plan | None]] = {}

    def get(
        self, item_type: GraphQLOutputType, details: Details, kind: int, make: Callable[[], Plan | None]
    ) -> Plan | None:
        """The plan of this very selection and kind, made when it is first wanted."""
        nodes = [each.node for each in details]
        key = (kind, id(item_type), *map(id, nodes))
        found = self._plans.get(key)
        if found is None:
            # What the key names is kept, so that its identity is not given to others.
            found = self._plans[key] = ((item_type, nodes), make())
        return found[1]
