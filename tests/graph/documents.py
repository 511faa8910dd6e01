"""Random documents over a schema: fields, aliases, arguments, fragments of both kinds, @skip and @include.

Every document is valid. The same response name always means the same field with the same arguments, so that fields
which meet in one object can be merged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphql import GraphQLObjectType, GraphQLSchema, get_named_type
from hypothesis import strategies as st

Arguments = Mapping[tuple[str, str], Sequence[str]]
"""By type and field, what may stand between the brackets; for other fields nothing does."""

CONDITIONS: dict[str, tuple[str, bool | None]] = {
    "yes": ("Boolean!", True),
    "no": ("Boolean!", False),
    "unsaid": ("Boolean = true", None),
}
"""The variables of @skip and @include: their type, and the value that is sent, if any."""
DIRECTIVES = [
    "",
    *(
        f" @{name}(if: {condition})"
        for name in ("skip", "include")
        for condition in ("true", "false", *(f"${variable}" for variable in CONDITIONS))
    ),
    " @include(if: $yes) @skip(if: $no)",
]
ALIASES = ("", "", "", "x_", "y_")
KINDS = ("field",) * 5 + ("inline fragment", "fragment without type", "named fragment")


@dataclass(slots=True)
class Author:
    """Writes one document; `draw` decides."""

    schema: GraphQLSchema
    arguments: Arguments
    draw: st.DrawFn
    fragments: list[tuple[str, str]] = field(default_factory=list)
    """The type of each named fragment and its selection; finished ones only, so that none spreads itself."""

    def selection_set(self, parent: GraphQLObjectType, depth: int, *, only_fields: bool = False) -> str:
        """Some selections of a type, at most `depth` levels of fields; a fragment holds fields, never a fragment."""
        count = self.draw(st.integers(1, 3))
        return "{ " + " ".join(self._selection(parent, depth, only_fields) for _ in range(count)) + " }"

    def _selection(self, parent: GraphQLObjectType, depth: int, only_fields: bool) -> str:
        kind = "field" if only_fields else self.draw(st.sampled_from(KINDS))
        if kind == "field":
            return self._field(parent, depth)
        if kind == "named fragment":
            return f"...{self._fragment(parent, depth)}{self._directive()}"
        condition = f" on {parent.name}" if kind == "inline fragment" else ""
        return f"...{condition}{self._directive()} {self.selection_set(parent, depth, only_fields=True)}"

    def _fragment(self, parent: GraphQLObjectType, depth: int) -> str:
        known = [f"F{number}" for number, (name, _) in enumerate(self.fragments) if name == parent.name]
        is_new = self.draw(st.booleans())
        if known and not is_new:
            return self.draw(st.sampled_from(known))
        selected = self.selection_set(parent, depth, only_fields=True)
        self.fragments.append((parent.name, selected))
        return f"F{len(self.fragments) - 1}"

    def _field(self, parent: GraphQLObjectType, depth: int) -> str:
        name = self.draw(st.sampled_from(self._names(parent, depth)))
        if name == "__typename":
            return self.draw(st.sampled_from(["", "x_kind: ", "y_kind: "])) + name
        choices = self.arguments.get((parent.name, name), ("",))
        number = self.draw(st.integers(0, len(choices) - 1))
        answered = self.draw(st.sampled_from(ALIASES)) + name + (str(number) if number else "")
        alias = "" if answered == name else f"{answered}: "
        brackets = f"({choices[number]})" if choices[number] else ""
        type_ = get_named_type(parent.fields[name].type)
        beneath = f" {self.selection_set(type_, depth - 1)}" if isinstance(type_, GraphQLObjectType) else ""
        return f"{alias}{name}{brackets}{self._directive()}{beneath}"

    def _names(self, parent: GraphQLObjectType, depth: int) -> list[str]:
        objects: list[str] = []
        leaves = ["__typename"]
        for name, of in parent.fields.items():
            (objects if isinstance(get_named_type(of.type), GraphQLObjectType) else leaves).append(name)
        # Objects thrice: else most documents would end in the upper levels.
        return leaves + objects * 3 if depth > 1 else leaves

    def _directive(self) -> str:
        return self.draw(st.sampled_from(DIRECTIVES)) if self.draw(st.integers(0, 3)) == 0 else ""


@st.composite
def documents(
    draw: st.DrawFn, schema: GraphQLSchema, arguments: Arguments, variables: Mapping[str, str], depth: int = 5
) -> str:
    """A document of one query; `variables` are the types of those that `arguments` name."""
    assert schema.query_type is not None
    author = Author(schema, arguments, draw)
    body = author.selection_set(schema.query_type, depth)
    parts = [body, *(f"fragment F{number} on {name} {text}" for number, (name, text) in enumerate(author.fragments))]
    types = {**variables, **{name: type_ for name, (type_, _) in CONDITIONS.items()}}
    used = dict.fromkeys(re.findall(r"\$(\w+)", " ".join(parts)))
    declared = ", ".join(f"${name}: {types[name]}" for name in used)
    return "\n".join([f"query({declared}) {body}" if declared else f"query {body}", *parts[1:]])
