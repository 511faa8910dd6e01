"""Rows beneath lists: fetched for all at once, and what fails for some does not fail for the others."""

from typing import Any

import pytest

from tests.zoo import Client, fill, serving, ten_messages, thread


@pytest.fixture
async def client(plain_database: Any) -> Any:
    """Ten messages in one of two threads."""
    await fill(plain_database, threads=[thread("t1"), thread("t2")], messages=ten_messages())
    async with serving(plain_database) as client:
        yield client


async def test_an_argument_that_is_refused_fails_its_own_field_alone(client: Client) -> None:
    answer = await client.ask(
        '{ thread(id: "t1") { a: messages(perPage: 5000) { total } b: messages(perPage: 1) { total } } }'
    )
    assert [(error["path"], error["extensions"]["code"]) for error in answer.body["errors"]] == [
        (["thread", "a"], "LIMIT_EXCEEDED")
    ]
