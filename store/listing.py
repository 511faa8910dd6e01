"""One page of a listing: by its number, or after a cursor."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from store.cursors import Cursor, Listing
from store.driver import together
from store.ordering import Order
from store.paging import Needs, PageRequest, RawPage, Reading

Read = Callable[[Reading, PageRequest, Needs], Awaitable[RawPage]]
"""How a page is read by its number."""

_COUNT = Needs(rows=False, has_more=False)


async def read_listing(read: Read, reading: Reading, page: PageRequest, cursor: Cursor | None, needs: Needs) -> RawPage:
    """Read a page, with `left` where it is needed.

    After a cursor one command more finds its place; the page is then the first one of what lies beyond, and the
    total counts everything all the same. Raises what `read` raises.
    """
    if cursor is None:
        found = await read(reading, page, replace(needs, total=needs.total or needs.left))
        return replace(found, left=None if found.total is None else found.total - page.offset)

    async def read_rest() -> RawPage:
        stages = await cursor.to_stages(reading.source, reading.matches())
        rest = replace(reading, matches=lambda: [*reading.matches(), *stages])
        return await read(rest, page, replace(needs, total=needs.left))

    async def count() -> int | None:
        return (await read(reading, PageRequest(0, 0), _COUNT)).total if needs.total else None

    found, total = await together(read_rest(), count())
    return RawPage(found.documents, total, found.has_more, left=found.total)


def to_cursor(page: PageRequest, listing: Listing, order: Order) -> Cursor | None:
    """The cursor that a page begins after. Raises InvalidArgument when it is none, or one of another order."""
    return None if page.after is None else Cursor.from_text(page.after, listing, order)


def end_of(page: RawPage, listing: Listing, order: Order, begin: Cursor | None) -> Cursor | None:
    """The place of the last row of a page, or where the page begins when it is empty.

    None for a row too odd to be named: the place before it would bring the same page again, for ever.
    """
    return Cursor.of(listing, order, page.documents[-1]) if page.documents else begin
