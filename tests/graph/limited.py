"""The application with limits, for the tests of what one request may ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.graph.test_commands import Commands, listening
from tests.zoo import Client, serving, ten_messages, thread


class Limited:
    """The application with limits, and the commands that reach its database."""

    def __init__(self, client: Client, commands: Commands) -> None:
        self.client = client
        self.commands = commands

    async def refuse(self, query: str, **variables: Any) -> str:
        """The messages of a refusal for a limit; nothing was asked of the database."""
        self.commands.reset()
        answer = await self.client.ask(query, **variables)
        assert {error["extensions"]["code"] for error in answer.body["errors"]} == {"LIMIT_EXCEEDED"}, answer.body
        assert answer.body.get("data") is None
        assert self.commands.names == []
        return " ".join(error["message"] for error in answer.body["errors"])

    async def allow(self, query: str, **variables: Any) -> Any:
        """The data of an answer."""
        return (await self.client.ask(query, **variables)).data


@asynccontextmanager
async def limited(mongodb_uri: str, **settings: Any) -> AsyncIterator[Limited]:
    """The application over ten messages of t1 of res-a, with limits."""
    async with listening(mongodb_uri, "recallql_limits") as (database, commands):
        await database.mastra_threads.insert_one(thread("t1"))
        await database.mastra_messages.insert_many(ten_messages())
        async with serving(database, **settings) as client:
            yield Limited(client, commands)


def threads(arguments: str, beneath: str = "id") -> str:
    """A list of threads."""
    return f"threads({arguments}) {{ threads {{ {beneath} }} }}"


def recall(arguments: str, beneath: str = "id") -> str:
    """A recall of t1."""
    return f'recall(threadId: "t1", {arguments}) {{ messages {{ {beneath} }} }}'
