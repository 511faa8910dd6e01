"""When a failed request is worth another try, and after how long."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIABLE_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double with every failure, up to a ceiling, all in seconds.

    A service that asks for a longer wait than the ceiling is not asked again: the caller would rather know now.
    """

    retries: int = 3
    first: float = 0.5
    ceiling: float = 20.0

    def wait(self, failures: int, asked: float | None = None) -> float | None:
        """Seconds to wait after so many failures (from 1 on); None to give up.

        `asked` is what the service itself asked for. Without it the wait is random within the upper half, so that
        callers who failed together do not come back together.
        """
        if failures > self.retries or (asked is not None and asked > self.ceiling):
            return None
        if asked is not None:
            return asked
        longest = min(self.ceiling, self.first * 2 ** (failures - 1))
        return random.uniform(longest / 2, longest)


def seconds_asked(retry_after: str | None) -> float | None:
    """The seconds that a Retry-After header asks for (RFC 9110, 10.2.3: a number or a date); None without sense."""
    if retry_after is None:
        return None
    value = retry_after.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
