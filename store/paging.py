"""Pages: what was asked for, what of it must be known, and how a page is read in as few commands as that takes."""

from collections.abc import Callable
from dataclasses import dataclass

from store.driver import Document, Pipeline, together
from store.errors import InvalidArgument, LimitExceeded
from store.source import Source

_BATCH = 2000
"""Rows without pages that one command brings: a reply is taken apart without a pause."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most rows of one page, and of one answer without pages."""

    max_page_size: int = 1000
    max_rows: int = 50_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A zero-based page of `per_page` rows; `per_page` None is every row, without pages.

    `after` is a cursor's text: the page is then the first one of what lies beyond.
    """

    page: int
    per_page: int | None
    after: str | None = None

    def check(self, limits: Limits) -> "PageRequest":
        """Return the request itself; raises InvalidArgument or LimitExceeded naming the argument."""
        if self.page < 0:
            raise InvalidArgument(f"page must be a whole number >= 0, not {self.page}.")
        if self.after is not None and self.page:
            raise InvalidArgument("after begins where the last page ended and goes with page 0 only.")
        if self.per_page is None and self.page:
            raise InvalidArgument("perPage: false returns every row and goes with page 0 only.")
        if self.per_page is not None and self.per_page < 0:
            raise InvalidArgument(f"perPage must be a whole number >= 0, or false, not {self.per_page}.")
        if self.per_page is not None and self.per_page > limits.max_page_size:
            raise LimitExceeded(
                f"perPage is {self.per_page}, but a page holds at most {limits.max_page_size} rows "
                "(RECALLQL_MAX_PAGE_SIZE)."
            )
        return self

    @property
    def offset(self) -> int:
        """Rows before this page."""
        return self.page * (self.per_page or 0)


@dataclass(frozen=True, slots=True)
class Needs:
    """What the caller will look at; nothing else is asked of the database."""

    rows: bool = True
    total: bool = True
    has_more: bool = True
    fields: frozenset[str] | None = None
    """Names of the stored fields wanted of each row; None is all of them."""
    left: bool = False
    """Whether to count the matches from the beginning of the page on."""


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as documents; numbers are None where they were not needed.

    `left` counts the matches from the beginning of the page on.
    """

    documents: list[Document]
    total: int | None
    has_more: bool | None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How one listing is read: the pipeline of all its matches, their order, and the wanted fields."""

    source: Source
    matches: Callable[[], Pipeline]
    sort: dict[str, int]
    project: Pipeline
    limits: Limits

    def ordered(self) -> Pipeline:
        """All matches in order."""
        return [*self.matches(), {"$sort": self.sort}]

    def rows(self, skip: int, limit: int) -> Pipeline:
        """A slice of the matches, with the wanted fields only."""
        cut: Pipeline = [{"$skip": skip}] if skip else []
        return [*self.ordered(), *cut, {"$limit": limit}, *self.project]


async def read_page(reading: Reading, request: PageRequest, needs: Needs) -> RawPage:
    """Read one page of a listing whose conditions the database decides alone.

    At most two commands, side by side: the rows, and the count where `total` is needed. `has_more` alone is
    answered by one row more. Raises LimitExceeded when rows without pages are too many.
    """
    return await reading.source.with_repair(lambda: _read_page(reading, request, needs))


async def _read_page(reading: Reading, request: PageRequest, needs: Needs) -> RawPage:
    if request.per_page is None and needs.rows:
        return await _read_everything(reading)
    if not request.per_page or not needs.rows:
        return await _read_numbers(reading, request, needs)
    if not needs.total:
        documents = await _read_rows(reading, request.offset, request.per_page + needs.has_more)
        return RawPage(documents[: request.per_page], None, len(documents) > request.per_page)
    documents, total = await together(
        _read_rows(reading, request.offset, request.per_page), read_count(reading.source, reading.matches())
    )
    return RawPage(documents, total, request.offset + len(documents) < total)


async def _read_rows(reading: Reading, skip: int, limit: int) -> list[Document]:
    return await reading.source.rows(reading.rows(skip, limit), batch_size=limit + 1)


async def _read_everything(reading: Reading) -> RawPage:
    most = reading.limits.max_rows
    documents = await reading.source.many_rows(reading.rows(0, most + 1), batch_size=_BATCH)
    check_rows(len(documents), reading.limits)
    return RawPage(documents, len(documents), False)


async def _read_numbers(reading: Reading, request: PageRequest, needs: Needs) -> RawPage:
    """Total and has_more without rows: for an empty page, or when nobody looks at the rows."""
    if not (needs.total or needs.has_more):
        return RawPage([], None, None)
    total = await read_count(reading.source, reading.matches())
    if request.per_page is None:
        check_rows(total, reading.limits)
        return RawPage([], total, False)
    return RawPage([], total, request.offset + request.per_page < total)


async def read_count(source: Source, matches: Pipeline) -> int:
    """How many rows a pipeline of conditions matches."""
    rows = await source.rows([*matches, {"$group": {"_id": None, "count": {"$sum": 1}}}], batch_size=2)
    return int(rows[0]["count"]) if rows else 0


def check_rows(count: int, limits: Limits) -> None:
    """Raises LimitExceeded when an answer without pages would hold too many rows."""
    if count > limits.max_rows:
        raise LimitExceeded(
            f"perPage: false returns at most {limits.max_rows} rows (RECALLQL_MAX_ROWS) and there are more; use pages."
        )
