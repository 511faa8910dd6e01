"""Which fields a query selects beneath the current one: what is not selected is not fetched."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLResolveInfo,
    InlineFragmentNode,
    SelectionSetNode,
)
from strawberry.types import Info

Fragments = Mapping[str, FragmentDefinitionNode]
Selection = dict[str, Any]
"""Field name to the selection beneath it; fields of all fragments and aliases together."""


def selection(info: Info[Any, Any]) -> Selection:
    """The fields selected beneath the field being resolved.

    @skip and @include are not looked at: a field that may be wanted counts as wanted.
    """
    raw: GraphQLResolveInfo[Any] = info._raw_info
    return merged([node.selection_set for node in raw.field_nodes], raw.fragments)


def merged(selected: Iterable[SelectionSetNode | None], fragments: Fragments) -> Selection:
    """The fields of some selections together."""
    beneath: dict[str, list[SelectionSetNode | None]] = {}
    seen: set[str] = set()
    for one in selected:
        for field in _fields(one, fragments, seen):
            beneath.setdefault(field.name.value, []).append(field.selection_set)
    return {name: merged(sets, fragments) for name, sets in beneath.items()}


def _fields(selected: SelectionSetNode | None, fragments: Fragments, seen: set[str]) -> Iterator[FieldNode]:
    """The fields of a selection, each fragment's once however often it is spread."""
    for node in selected.selections if selected else ():
        if isinstance(node, FieldNode):
            yield node
        elif isinstance(node, InlineFragmentNode):
            yield from _fields(node.selection_set, fragments, seen)
        elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
            seen.add(node.name.value)
            yield from _fields(fragments[node.name.value].selection_set, fragments, seen)


def stored_fields(table: dict[str, tuple[str, ...]], selections: Iterable[Selection]) -> frozenset[str]:
    """The stored fields behind the selected ones, by a table from field to stored fields."""
    return frozenset(stored for selected in selections for name in selected for stored in table.get(name, ()))
