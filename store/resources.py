"""Resources: the owners of threads, with their working memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from store.content import parse_metadata
from store.driver import Document, Pipeline
from store.lazy import lazy
from store.scope import Scope
from store.source import Source
from store.values import JSON, to_moment, to_text


@dataclass(frozen=True)
class Resource:
    """An owner of threads, as far as something is kept about it."""

    id: str
    working_memory: str | None
    created_at: datetime | None
    updated_at: datetime | None
    stored_metadata: object = field(repr=False)

    @classmethod
    def from_document(cls, document: Document) -> "Resource":
        """A stored document as a resource; odd or missing values never raise."""
        memory = document.get("workingMemory")
        return cls(
            id=to_text(document.get("id")),
            working_memory=None if memory is None else to_text(memory),
            created_at=to_moment(document.get("createdAt")),
            updated_at=to_moment(document.get("updatedAt")),
            stored_metadata=document.get("metadata"),
        )

    @lazy
    def metadata(self) -> dict[str, JSON]:
        """The resource's metadata, empty where there are none."""
        return parse_metadata(self.stored_metadata)


class Resources:
    """Reads the collection of resources."""

    def __init__(self, source: Source) -> None:
        self.source = source

    async def get_many(self, resource_ids: Iterable[str], scope: Scope) -> dict[str, Resource]:
        """Resources by id in one command; what does not exist or lies outside the scope is left out."""
        ids = sorted({resource_id for resource_id in resource_ids if scope.admits(resource_id)})
        if not ids:
            return {}
        pipeline: Pipeline = [
            {"$match": {"id": {"$in": ids}}},
            {"$sort": {"_id": -1}},
            {"$project": {"_id": 0}},
        ]
        rows = await self.source.rows(pipeline, batch_size=len(ids) + 1)
        return {resource.id: resource for resource in map(Resource.from_document, rows)}
