"""What a recall asks for, as one value."""

from dataclasses import dataclass

from store.messages import NO_FILTER, MessageFilter
from store.ordering import Order
from store.paging import PageRequest
from store.scope import Scope
from store.semantic import SemanticRecall
from store.windows import IncludeItem


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What is asked of a recall; `scope` holds the owner that the thread must have."""

    thread_id: str
    scope: Scope
    page: PageRequest
    matching: MessageFilter = NO_FILTER
    order: Order = Order()
    include: tuple[IncludeItem, ...] = ()
    search_text: str | None = None
    semantic: SemanticRecall | None = None
    conceals: bool = False
    """Whether a thread of somebody else counts as one that does not exist, instead of being forbidden."""
