"""Metadata filters over text: candidates narrowed by the database, verified here on the parsed value, streaming."""

from dataclasses import dataclass, field

from store.content import Stored, read_structure
from store.driver import Document, Pipeline, together
from store.filters import MetadataFilter
from store.paging import Needs, PageRequest, RawPage, Reading, check_rows

PARSED = "$parsed"
"""Key under which a verified row carries its parsed text, so that nothing is parsed twice."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What to verify: the stored `field` that may be text, and the `path` of the metadata in a document."""

    field: str
    path: str
    metadata: MetadataFilter
    wanted: set[str]

    def stage(self) -> Pipeline:
        """The condition that narrows; a stage of its own, so that the ones before it choose the index."""
        return [{"$match": self.metadata.to_candidates(self.field, self.path)}]

    def project(self) -> Pipeline:
        """The wanted fields, and the field itself only where it is text: documents are matched already."""
        is_text = {"$eq": [{"$type": f"${self.field}"}, "string"]}
        fields = dict.fromkeys(sorted(self.wanted - {self.field}), 1)
        return [{"$project": fields | {self.field: {"$cond": [is_text, f"${self.field}", "$$REMOVE"]}}}]

    def admits(self, row: Document) -> bool:
        """Whether a candidate matches; a text row keeps what was parsed under `PARSED`."""
        text = row.get(self.field)
        if not isinstance(text, str):
            return True
        stored = read_structure(text)
        if stored is None or not self.metadata.matches(self._metadata_of(stored).to_mapping()):
            return False
        row[PARSED] = stored
        return True

    def _metadata_of(self, stored: Stored) -> Stored:
        return stored if self.path == self.field else stored.get("metadata")


@dataclass(slots=True)
class Slice:
    """Rows collected from a stream: those of the page, and how many matched in all."""

    offset: int
    limit: int | None
    rows: list[Document] = field(default_factory=list)
    seen: int = 0

    def add(self, row: Document) -> None:
        """Count a matching row and keep it when it lies on the page."""
        if self.seen >= self.offset and (self.limit is None or self.seen < self.offset + self.limit):
            self.rows.append(row)
        self.seen += 1


async def read_verified(verification: Verification, reading: Reading, page: PageRequest, needs: Needs) -> RawPage:
    """Read a page whose matches must be verified: one streaming command, memory for the page alone.

    A second command fetches the wanted `field` of those rows of the page that hold a document.
    Raises LimitExceeded when rows without pages are too many.
    """
    return await reading.source.with_repair(lambda: _read_verified(reading, verification, page, needs))


async def _read_verified(reading: Reading, verification: Verification, page: PageRequest, needs: Needs) -> RawPage:
    limit = page.per_page if needs.rows else 0
    enough = None if needs.total or page.per_page is None else page.offset + page.per_page + needs.has_more
    found = await _collect(reading, verification, Slice(page.offset, limit), enough, is_unpaged=page.per_page is None)
    if needs.rows and verification.field in verification.wanted:
        await _add_documents(reading, verification, found.rows)
    end = found.seen if page.per_page is None else page.offset + page.per_page
    return RawPage(found.rows, found.seen if needs.total else None, found.seen > end)


async def _collect(
    reading: Reading, verification: Verification, found: Slice, enough: int | None, *, is_unpaged: bool
) -> Slice:
    pipeline = [*reading.matches(), *verification.stage(), {"$sort": reading.sort}, *verification.project()]
    async with reading.source.stream(pipeline) as rows:
        async for row in rows:
            if verification.admits(row):
                found.add(row)
                if is_unpaged:
                    check_rows(found.seen, reading.limits)
            if enough is not None and found.seen >= enough:
                break
    return found


async def _add_documents(reading: Reading, verification: Verification, rows: list[Document]) -> None:
    keys = [row["_id"] for row in rows if verification.field not in row]
    if not keys:
        return
    pipeline: Pipeline = [{"$match": {"_id": {"$in": keys}}}, {"$project": {verification.field: 1}}]
    stored = {row["_id"]: row for row in await reading.source.rows(pipeline, batch_size=len(keys) + 1)}
    for row in rows:
        if row["_id"] in stored:
            row[verification.field] = stored[row["_id"]].get(verification.field)


async def read_mostly_documents(
    verification: Verification, reading: Reading, page: PageRequest, needs: Needs
) -> RawPage:
    """Read a page of a collection in which text is the exception.

    The database cuts and counts as if there were no text, in the usual two commands; only when the count
    meets text among the candidates is the page read again by `read_verified`.
    """
    if not needs.total or page.per_page is None:
        return await read_verified(verification, reading, page, needs)
    return await reading.source.with_repair(lambda: _read_mostly_documents(reading, verification, page, needs))


async def _read_mostly_documents(
    reading: Reading, verification: Verification, page: PageRequest, needs: Needs
) -> RawPage:
    matches = [*reading.matches(), *verification.stage()]
    counting = _count(reading, verification, matches)
    rows: list[Document] = []
    if needs.rows and page.per_page:
        cut: Pipeline = [{"$sort": reading.sort}, {"$skip": page.offset}, {"$limit": page.per_page}]
        pipeline = [*matches, *cut, *reading.project]
        rows, (total, texts) = await together(reading.source.rows(pipeline, batch_size=page.per_page + 1), counting)
    else:
        total, texts = await counting
    if texts:
        reading.source.has_text_metadata = True
        return await read_verified(verification, reading, page, needs)
    return RawPage(rows, total, page.offset + (page.per_page or 0) < total)


async def _count(reading: Reading, verification: Verification, matches: Pipeline) -> tuple[int, int]:
    is_text = {"$eq": [{"$type": f"${verification.field}"}, "string"]}
    group = {"_id": None, "count": {"$sum": 1}, "texts": {"$sum": {"$cond": [is_text, 1, 0]}}}
    rows = await reading.source.rows([*matches, {"$group": group}], batch_size=2)
    return (int(rows[0]["count"]), int(rows[0]["texts"])) if rows else (0, 0)
