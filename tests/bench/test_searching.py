"""What a search adds is measured on an owner with as many vectors as asked for."""

from typing import Any

from bench.__main__ import Place
from bench.searching import MESSAGES, compare


async def test_a_line_tells_what_the_search_adds(plain_database: Any, mongodb_uri: str) -> None:
    line = await compare(Place(mongodb_uri, plain_database.name), MESSAGES, rounds=1)
    vectors, without, with_search, added, _ = map(float, line.split())
    assert vectors == MESSAGES
    assert without > 0
    assert abs(with_search - without - added) < 0.2
