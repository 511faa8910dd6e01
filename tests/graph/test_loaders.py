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


async def test_arguments_beneath_a_list_are_those_of_this_request(client: Client) -> None:
    """The plan of a document is kept, the values of its variables are not."""
    beneath = "threads { id messages(perPage: $n) { messages { id } perPage } }"
    query = f"query($n: PerPage) {{ threads(perPage: 2) {{ {beneath} }} }}"
    for count in (1, 3, 0, False):
        page = (await client.ask(query, n=count)).data["threads"]["threads"]
        listed = {thread["id"]: len(thread["messages"]["messages"]) for thread in page}
        assert listed == {"t1": 10 if count is False else count, "t2": 0}
        assert {thread["messages"]["perPage"] for thread in page} == {count}


async def test_a_refused_argument_beneath_a_list_is_told_for_its_field(client: Client) -> None:
    answer = await client.ask(
        "query($n: PerPage) { threads(perPage: 2) { threads { messages(perPage: $n) { total } } } }", n=5000
    )
    assert answer.body["data"] is None
    assert answer.body["errors"][0]["path"][:3] == ["threads", "threads", 0]
    assert answer.code == "LIMIT_EXCEEDED"
