"""Sample rows of the tests, in the layout that Mastra writes, and a client for the application under test."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from bson import json_util

from graph.app import create_app
from graph.serving import SAMPLE, SAMPLE_FILES
from graph.settings import Settings
from store.importing import import_documents

DATA = Path(__file__).parent / "data"
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)


def thread(id: str, resource_id: str = "res-a", **fields: Any) -> dict[str, Any]:
    """A thread as Mastra stores it; fields given replace the defaults."""
    times = {"createdAt": NOON, "updatedAt": NOON}
    return {"id": id, "resourceId": resource_id, "title": f"About {id}", "metadata": {}, **times, **fields}


def message(id: str, thread_id: str = "t1", minute: float = 0, **fields: Any) -> dict[str, Any]:
    """A message as Mastra stores it, its content as text; `metadata` and `text` go into the content."""
    text, metadata = fields.pop("text", f"text of {id}"), fields.pop("metadata", None)
    content: dict[str, Any] = {"format": 2, "parts": [{"type": "text", "text": text}]}
    if metadata is not None:
        content["metadata"] = metadata
    row = {
        "id": id,
        "thread_id": thread_id,
        "resourceId": "res-a",
        "role": "user",
        "type": "v2",
        "createdAt": NOON + timedelta(minutes=minute),
        "content": json.dumps(content),
    }
    return row | fields


def as_document(row: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The same message with its content as a document, holding these metadata."""
    return row | {"content": {"format": 2, "parts": [{"type": "text", "text": row["id"]}], "metadata": metadata}}


def ten_messages() -> list[dict[str, Any]]:
    """m1 to m10 of thread t1 of res-a, one minute apart, m1 at 12:01."""
    return [message(f"m{number}", minute=number) for number in range(1, 11)]


async def fill(
    database: Any, *, threads: Iterable[dict[str, Any]] = (), messages: Iterable[dict[str, Any]] = ()
) -> None:
    """Insert threads and messages, in this order."""
    for name, rows in (("mastra_threads", list(threads)), ("mastra_messages", list(messages))):
        if rows:
            await database[name].insert_many(rows)


def ids(rows: list[dict[str, Any]]) -> str:
    """The ids of the rows of an answer, in their order, as one short text."""
    return " ".join(row["id"] for row in rows)


async def load_dump(database: Any) -> None:
    """The database that the real library wrote."""
    for path in sorted(DATA.glob("mastra_*.jsonl")):
        rows = [json_util.loads(line) for line in path.read_text().splitlines()]
        if rows:
            await database[path.stem].insert_many(rows)


async def load_sample(database: Any) -> None:
    """The sample conversations of the package, as `make run` loads them."""
    for collection, file in SAMPLE_FILES.items():
        await import_documents(database[collection], [SAMPLE / file])


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API."""

    status: int
    body: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        """The data of an answer without errors."""
        assert "errors" not in self.body, self.body["errors"]
        data: dict[str, Any] = self.body["data"]
        return data

    @property
    def error(self) -> dict[str, Any]:
        """The only error of an answer."""
        errors: list[dict[str, Any]] = self.body.get("errors", [])
        assert len(errors) == 1, self.body
        return errors[0]

    @property
    def code(self) -> str:
        """The code of the only error."""
        return str(self.error["extensions"]["code"])


class Client:
    """Sends GraphQL over HTTP to the application, in memory."""

    def __init__(self, http: httpx.AsyncClient, app: Any) -> None:
        self.http = http
        self.app = app

    async def ask(self, query: str, /, **variables: Any) -> Answer:
        """Send a query with its variables."""
        return await self.send({"query": query, "variables": variables})

    async def send(self, body: dict[str, Any]) -> Answer:
        """Send a request body."""
        response = await self.http.post("/graphql", json=body)
        return Answer(response.status_code, response.json())


@asynccontextmanager
async def serving(database: Any = None, **settings: Any) -> AsyncIterator[Client]:
    """The application over a database, for the length of a test."""
    app = create_app(Settings(**settings), database=database)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://recallql.test") as http:
            yield Client(http, app)


_RECALL = """
query Recall($threadId: ID!, $resourceId: ID, $perPage: PerPage, $page: Int, $include: [IncludeMessage!],
             $filter: MessageFilter, $orderBy: MessageOrder, $threadConfig: ThreadConfig) {
  recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page, include: $include,
         filter: $filter, orderBy: $orderBy, threadConfig: $threadConfig) {
    messages { id origin } transcript { id } total page perPage hasMore
  }
}
"""


async def ask_recall(client: Client, **arguments: Any) -> Answer:
    """Call `recall` with these arguments as variables; what is not given is left out."""
    return await client.ask(_RECALL, **arguments)


async def recall(client: Client, **arguments: Any) -> dict[str, Any]:
    """The result of `recall` with these arguments; `threadId` is t1 unless given."""
    answer = await ask_recall(client, **({"threadId": "t1"} | arguments))
    result: dict[str, Any] = answer.data["recall"]
    return result
