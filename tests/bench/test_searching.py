"""What a search adds is measured on two requests that differ by the search alone."""

import json
from typing import Any

from bench.__main__ import Place, running
from bench.callers import InProcess
from bench.searching import MESSAGES, WITH, WITHOUT, compare
from graph.app import create_app


async def test_only_one_of_the_two_requests_searches(plain_database: Any, mongodb_uri: str) -> None:
    place = Place(mongodb_uri, plain_database.name)
    assert (await compare(place, 2 * MESSAGES, rounds=1)).split()[0] == str(2 * MESSAGES)
    async with running(create_app(place.settings())) as app:
        found, plain = [json.loads(await InProcess(app).ask(each))["data"]["recall"] for each in (WITH, WITHOUT)]
    assert len(found["matches"]) == 4
    assert plain["matches"] == []
    assert {row["id"] for row in plain["messages"]} <= {row["id"] for row in found["messages"]}
    assert found["total"] == plain["total"] == MESSAGES
