"""Which fields a query selects beneath the current one: what is not selected is not fetched."""

from collections.abc import Iterable, Iterator
from typing import Any

from graphql import FieldNode, FragmentSpreadNode, GraphQLResolveInfo, InlineFragmentNode, SelectionSetNode
from strawberry.types import Info

Selection = dict[str, Any]
"""Field name to the selection beneath it; fields of all fragments and aliases together."""


def selection(info: Info[Any, Any]) -> Selection:
    """The fields selected beneath the field being resolved.

    @skip and @include are not looked at: a field that may be wanted counts as wanted.
    """
    raw: GraphQLResolveInfo[Any] = info._raw_info
    merged: Selection = {}
    for node in raw.field_nodes:
        _merge(merged, node.selection_set, raw)
    return merged


def _merge(merged: Selection, selected: SelectionSetNode | None, raw: GraphQLResolveInfo[Any]) -> None:
    for field in _fields(selected, raw):
        _merge(merged.setdefault(field.name.value, {}), field.selection_set, raw)


def _fields(selected: SelectionSetNode | None, raw: GraphQLResolveInfo[Any]) -> Iterator[FieldNode]:
    for node in selected.selections if selected else ():
        if isinstance(node, FieldNode):
            yield node
        elif isinstance(node, InlineFragmentNode):
            yield from _fields(node.selection_set, raw)
        elif isinstance(node, FragmentSpreadNode):
            yield from _fields(raw.fragments[node.name.value].selection_set, raw)


def stored_fields(table: dict[str, tuple[str, ...]], selections: Iterable[Selection]) -> frozenset[str]:
    """The stored fields behind the selected ones, by a table from field to stored fields."""
    return frozenset(stored for selected in selections for name in selected for stored in table.get(name, ()))
