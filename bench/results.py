"""The figures of one workload, as a line of the table and as JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from bench.measuring import Samples
from bench.traffic import Traffic

HERE, STOCK, WHOLE = "here", "stock", "whole thread"
_WIDTH = 34
HEADER = "\n".join(
    [
        f"{'':<{_WIDTH}}{'p50 ms':>16}{'p95 ms':>16}{'CPU ms':>16}{'ratio':>12}{'database':>24}{'answer':>9}",
        f"{'workload':<{_WIDTH}}{'here':>8}{'stock':>8}{'here':>8}{'stock':>8}{'here':>8}{'stock':>8}"
        f"{'p50':>6}{'CPU':>6}{'commands':>10}{'rows':>7}{'kB':>7}{'kB':>9}",
    ]
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one workload. `traffic` is None where it was not counted."""

    workload: str
    transport: str
    samples: dict[str, Samples]
    answer_bytes: int
    traffic: Traffic | None = None
    traffic_whole: Traffic | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything, with the names that README.md explains."""
        figures = {name: samples.figures() for name, samples in self.samples.items()}
        counted = {"database": self.traffic, "database of whole thread": self.traffic_whole}
        return {
            "workload": self.workload,
            "transport": self.transport,
            "answer_bytes": self.answer_bytes,
            **figures,
            **{name: asdict(traffic) for name, traffic in counted.items() if traffic},
        }

    def lines(self) -> list[str]:
        """Its line of the table, and one more for the whole thread where that was compared."""
        lines = [self._line(self.workload, HERE, STOCK, self.traffic, self.answer_bytes)]
        if WHOLE in self.samples:
            lines.append(self._line("  here / whole thread in Python", HERE, WHOLE, self.traffic_whole, None))
        return lines

    def _line(self, name: str, ours: str, other: str, traffic: Traffic | None, answer: int | None) -> str:
        here, there = self.samples[ours].figures(), self.samples[other].figures()
        times = "".join(f"{here[key]:>8.1f}{there[key]:>8.1f}" for key in ("p50_ms", "p95_ms", "cpu_ms"))
        ratios = "".join(f"{ratio(there[key], here[key]):>6}" for key in ("p50_ms", "cpu_ms"))
        counted = f"{traffic.commands:>10}{traffic.documents:>7}{traffic.bytes / 1e3:>7.0f}" if traffic else " " * 24
        size = "" if answer is None else f"{answer / 1e3:>9.0f}"
        return f"{name:<{_WIDTH}}{times}{ratios}{counted}{size}"


def ratio(there: float, here: float) -> str:
    """How many times as much the other takes."""
    return f"{there / here:.1f}" if here else "-"
