"""When and after how long a failed request is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from store.embedders.retrying import Backoff, seconds_asked


def test_waits_double_up_to_the_ceiling() -> None:
    backoff = Backoff(retries=5, first=1, ceiling=6)
    for failures, longest in enumerate([1, 2, 4, 6, 6], start=1):
        wait = backoff.wait(failures)
        assert wait is not None
        assert longest / 2 <= wait <= longest


def test_waits_are_spread() -> None:
    assert len({Backoff(first=1).wait(1) for _ in range(20)}) > 1


def test_after_the_last_retry_it_gives_up() -> None:
    assert Backoff(retries=2).wait(3) is None
    assert Backoff(retries=0).wait(1) is None


def test_the_wait_asked_for_counts_unless_it_is_too_long() -> None:
    assert Backoff(ceiling=20).wait(1, asked=7) == 7
    assert Backoff(ceiling=20).wait(1, asked=21) is None


def test_retry_after_may_be_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    asked = seconds_asked(format_datetime(soon, usegmt=True))
    assert asked is not None
    assert 25 < asked <= 30
    assert seconds_asked("Wed, 21 Oct 2015 07:28:00 GMT") == 0


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3), (" 0 ", 0), (None, None), ("soon", None), ("-1", None), ("²", None)]
)
def test_retry_after_in_seconds(header: str | None, seconds: float | None) -> None:
    assert seconds_asked(header) == seconds
