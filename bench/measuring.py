"""Measuring two ways of the same thing in turns, so that whatever else the machine does hits both."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.callers import Caller
from bench.queries import Workload

FEWEST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Sampling:
    """At most so many rounds, and no new one after so many seconds, but `FEWEST_ROUNDS` in any case."""

    rounds: int = 40
    seconds: float = 8.0


@dataclass(slots=True)
class Samples:
    """Seconds from the request to the end of its answer, and seconds of CPU, of each round."""

    waited: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Medians and the 95th percentile in milliseconds."""
        return {
            "p50_ms": statistics.median(self.waited) * 1e3,
            "p95_ms": percentile(self.waited, 0.95) * 1e3,
            "cpu_ms": statistics.median(self.cpu) * 1e3,
            "rounds": len(self.waited),
        }


def percentile(values: list[float], share: float) -> float:
    """The least value that so large a share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure(workload: Workload, callers: Mapping[str, Caller], sampling: Sampling) -> dict[str, Samples]:
    """Samples of each caller. All take their turn in every round, each time another one first."""
    for caller in callers.values():
        await caller.ask(workload)
    samples = {name: Samples() for name in callers}
    names = list(callers)
    end = time.monotonic() + sampling.seconds
    for number in range(sampling.rounds):
        if number >= FEWEST_ROUNDS and time.monotonic() > end:
            break
        for name in names[number % len(names) :] + names[: number % len(names)]:
            await _sample(workload, callers[name], samples[name])
    return samples


async def _sample(workload: Workload, caller: Caller, samples: Samples) -> None:
    used, began = caller.cpu(), time.perf_counter()
    await caller.ask(workload)
    samples.waited.append(time.perf_counter() - began)
    samples.cpu.append(caller.cpu() - used)
