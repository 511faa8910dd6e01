"""Planning a batch of stored messages: what belongs to them is read, and what is to be done for each worked out."""

from collections.abc import Sequence
from dataclasses import dataclass

from store.driver import Database, Document
from store.embedding.planning import Plan, plan_message
from store.embedding.reading import Beside, Readings
from store.embedding.rows import is_own
from store.values import to_text


@dataclass(frozen=True, slots=True)
class Draft:
    """The plans for a batch of `seen` messages; those whose id another message has as well are without one."""

    seen: int
    plans: Sequence[Plan]


class Drafting:
    """Plans messages for one collection of vectors and one model; see `plan_message`.

    With `resource_id` the messages of other owners are not seen at all.
    """

    def __init__(
        self,
        database: Database,
        collection: str,
        model: str | None,
        *,
        resource_id: str | None = None,
        replace_foreign: bool = False,
    ) -> None:
        self._readings = Readings(database, collection)
        self._model = model
        self._resource_id = resource_id
        self._replace_foreign = replace_foreign

    async def draft(self, messages: Sequence[Document]) -> Draft:
        """The plans for a batch of stored messages, in two commands, rarely three. Raises Unavailable."""
        beside = await self._readings.beside(messages)
        owner = self._resource_id
        seen = [message for message in messages if owner is None or beside.owner(message) == owner]
        return Draft(len(seen), [self._plan(message, beside) for message in await self._single(seen, beside)])

    def _plan(self, message: Document, beside: Beside) -> Plan:
        rows, thread = beside.rows(message), beside.thread(message)
        return plan_message(message, rows, self._model, thread, replace_foreign=self._replace_foreign)

    async def _single(self, messages: Sequence[Document], beside: Beside) -> list[Document]:
        """One message for each id: of several in the batch the first, and none whose rows belong to another that
        still exists. Otherwise every run would embed them in turn.
        """
        unique = {to_text(message.get("id")): message for message in reversed(messages)}
        others = {id: _other_keys(message, beside) for id, message in unique.items()}
        doubtful = [key for keys in others.values() for key in keys]
        there = await self._readings.are_there(doubtful) if doubtful else []
        return [message for id, message in reversed(unique.items()) if not any(key in there for key in others[id])]


def _other_keys(message: Document, beside: Beside) -> list[object]:
    """The keys of other messages that the rows of this one were made from."""
    keys = [row["source"].get("key") for row in beside.rows(message) if is_own(row)]
    return [key for key in keys if key != message["_id"]]
