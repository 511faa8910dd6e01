"""The layout of a vector's row: Mastra's, with `source` beside it, which says what the vector was made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid5

import bson
import numpy as np
from bson.binary import Binary, BinaryVectorDtype
from bson.errors import BSONError
from numpy.typing import NDArray

from store.content import parse_metadata
from store.driver import Document
from store.values import to_text

_NAMESPACE = UUID("5f0d5b7e-8d0f-4c0e-9a53-2a0a4a2f7f6c")
_WORKING_MEMORY = "workingMemory"
_LARGEST_COPY = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of a message, and everything that its row holds except the vector.

    `key` is MongoDB's own key of the message: all that is known of a message when it is deleted. `thread_metadata`
    is copied into the row as Mastra does; the ids win over keys of the same name. `model` None compares with the
    vectors of any model, and can only be compared.
    """

    message_id: str
    thread_id: str
    resource_id: str | None
    key: object
    model: str | None
    text: str
    number: int
    count: int
    thread_metadata: Mapping[str, Any]

    @property
    def row_id(self) -> str:
        """The row's `_id`: the same in every run, so that writing twice changes nothing."""
        return row_id(self.message_id, self.number)

    def is_embedded_by(self, row: Document) -> bool:
        """Whether a stored row holds the vector of this very text, made by this model."""
        source = row["source"]
        is_same_model = self.model is None or source.get("model") == self.model
        return is_same_model and bool(source.get("text_hash") == text_hash(self.text))

    def is_described_by(self, row: Document) -> bool:
        """Whether a stored row says the same of this piece; compared as BSON, in which 1, 1.0 and true differ."""
        stored = {name: row.get(name) for name in ("metadata", "source")}
        return bson.encode(stored) == bson.encode(self.to_description())

    def to_description(self) -> Document:
        """The row's `metadata` and `source`."""
        ids = {"message_id": self.message_id, "thread_id": self.thread_id, "resource_id": self.resource_id}
        source = {
            "key": self.key,
            "model": self.model,
            "text_hash": text_hash(self.text),
            "piece": self.number,
            "pieces": self.count,
        }
        return {"metadata": {**self.thread_metadata, **ids}, "source": source}

    def to_document(self, vector: NDArray[np.float32]) -> Document:
        """The whole row, its vector binary float32."""
        return {"_id": self.row_id, "embedding": to_binary(vector), **self.to_description()}


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What a thread adds to the rows of its messages."""

    resource_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Document) -> "ThreadFacts":
        """The facts of a stored thread: its owner, and the metadata that are worth a copy.

        Left out are working memory and values above 1 KB, which nobody filters by and which would lie beside every
        vector of the thread, and what cannot be stored or asked for.
        """
        owner, stored = document.get("resourceId"), document.get("metadata")
        metadata = stored if isinstance(stored, dict) else parse_metadata(stored)
        copied = {name: value for name, value in metadata.items() if _is_worth_a_copy(name, value)}
        return cls(None if owner is None else to_text(owner), copied)


NO_THREAD = ThreadFacts()


def is_own(row: Document) -> bool:
    """Whether this product wrote the row."""
    source = row.get("source")
    return isinstance(source, dict) and "text_hash" in source


def row_id(message_id: str, number: int) -> str:
    """The `_id` of the row of a message's piece, counted from 0."""
    return str(uuid5(_NAMESPACE, f"{number} {message_id}"))


def text_hash(text: str) -> str:
    """A digest of a text, to see whether it changed."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def to_binary(vector: NDArray[np.float32]) -> Binary:
    """A vector as BSON keeps it most compactly: subtype 9, float32."""
    return Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)


def _is_worth_a_copy(name: str, value: object) -> bool:
    if name == _WORKING_MEMORY or name.startswith("$") or "." in name:
        return False
    try:
        return len(bson.encode({name: value})) <= _LARGEST_COPY
    except (BSONError, OverflowError):
        # Metadata kept as text may hold whole numbers and names that BSON does not.
        return False
