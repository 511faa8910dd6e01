"""What came of filling a collection of vectors."""

from dataclasses import dataclass, replace
from typing import Any

from store.errors import TaskFailed


@dataclass(frozen=True, slots=True)
class FillReport:
    """What was done, or would be done by a run that only counts.

    Messages: `seen`, of which `embedded` got vectors, `unchanged` had theirs already, `skipped` have no text (or an
    id that another message has as well), `refused` hold text that the embedder does not take. Rows: `pieces` were
    written with a vector, `corrected` only got the owner, thread or metadata of their message, `removed` had a text
    that is gone. `tokens` is None when the embedder does not count them.
    """

    seen: int = 0
    embedded: int = 0
    unchanged: int = 0
    skipped: int = 0
    refused: int = 0
    pieces: int = 0
    corrected: int = 0
    removed: int = 0
    tokens: int | None = 0

    def plus(self, **counts: int | None) -> "FillReport":
        """This report with these counts added; None makes a count unknown, as an embedder's tokens are."""
        sums: dict[str, Any] = {name: _added(getattr(self, name), count) for name, count in counts.items()}
        return replace(self, **sums)

    @property
    def has_effect(self) -> bool:
        """Whether any row was written or removed, or any text refused."""
        return bool(self.pieces or self.corrected or self.removed or self.refused)


def _added(count: int | None, more: int | None) -> int | None:
    return None if count is None or more is None else count + more


class FillFailed(TaskFailed):
    """Filling stopped early. `report` says what was done before, which is kept; the next run goes on from there."""

    def __init__(self, message: str, report: FillReport) -> None:
        super().__init__(f"{message} Messages embedded before: {report.embedded}; run it again to go on.")
        self.report = report
