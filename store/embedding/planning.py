"""What is to be done for a message: its text compared with the rows that are there. Pure, and the same for a run
that writes, one that only counts, and the inventory."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from store.content import parse_content
from store.driver import Document
from store.embedding.pieces import cut_pieces
from store.embedding.rows import NO_THREAD, Piece, ThreadFacts, is_own
from store.texts import readable_text
from store.values import to_text


class State(StrEnum):
    """How the vectors of a message stand."""

    BLANK = "BLANK"
    """There is no text to embed."""
    MISSING = "MISSING"
    """There are no vectors."""
    STALE = "STALE"
    """The vectors are of another text or by another model, or some are missing."""
    CURRENT = "CURRENT"
    """The vectors are those of the text."""
    FOREIGN = "FOREIGN"
    """The vectors were written by Mastra or another program, which alone knows what they were made from."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is to be done for one message: pieces to embed, rows to describe anew, and rows to remove afterwards."""

    message_id: str
    state: State
    pieces: Sequence[Piece] = ()
    corrections: Sequence[Piece] = ()
    surplus: Sequence[str] = ()


def plan_message(
    message: Document,
    rows: Sequence[Document],
    model: str | None,
    thread: ThreadFacts = NO_THREAD,
    *,
    replace_foreign: bool = False,
) -> Plan:
    """The plan for a stored message.

    `rows` are all that name the message, in the collection of the model's vectors and without their vectors. Rows
    of other programs are as good as ours unless `replace_foreign`; then they are removed once ours are written.
    """
    own = {row["_id"]: row for row in rows if is_own(row)}
    foreign = [row["_id"] for row in rows if not is_own(row)]
    pieces = to_pieces(message, model, thread)
    id = to_text(message.get("id"))
    if not pieces:
        return Plan(id, State.BLANK, surplus=list(own))
    if foreign and not own and not replace_foreign:
        return Plan(id, State.FOREIGN)
    had_own = bool(own)
    absent: list[Piece] = []
    corrections: list[Piece] = []
    for piece in pieces:
        row = own.pop(piece.row_id, None)
        if row is None or not piece.is_embedded_by(row):
            absent.append(piece)
        elif not piece.is_described_by(row):
            corrections.append(piece)
    surplus = [*own, *(foreign if replace_foreign else ())]
    state = State.MISSING if not had_own else State.STALE if absent or own else State.CURRENT
    return Plan(id, state, absent, corrections, surplus)


def to_pieces(message: Document, model: str | None, thread: ThreadFacts = NO_THREAD) -> list[Piece]:
    """The pieces of a stored message's readable text, whatever its role; none without text or without an id."""
    id, owner = message.get("id"), message.get("resourceId")
    texts = cut_pieces(readable_text(parse_content(message.get("content")))) if isinstance(id, str) else []
    return [
        Piece(
            message_id=to_text(id),
            thread_id=to_text(message.get("thread_id")),
            resource_id=thread.resource_id if owner is None else to_text(owner),
            key=message["_id"],
            model=model,
            text=text,
            number=number,
            count=len(texts),
            thread_metadata=thread.metadata,
        )
        for number, text in enumerate(texts)
    ]
