"""Vectors of known cosines to a search text, and the application that searches among them, for both engines.

The text "east" is the vector EAST of the toy embedder with four numbers, so that a stored vector of any cosine to it
can be written down. A text without a word, such as EMPTY, is the zero vector.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from store.embedders.protocol import Embedder, Embeddings
from store.memory import Memory
from store.semantic_search import SearchOptions, SemanticSearch
from tests.atlas.fixtures import create_index
from tests.store.vectors.test_engines import VECTORS, row
from tests.zoo import Answer, Client, fill, message, serving, thread

Row = dict[str, Any]
EMPTY = "?!"
SEARCH = """
query Search($threadId: ID!, $resourceId: ID, $vectorSearchString: String, $perPage: PerPage, $page: Int,
             $include: [IncludeMessage!], $filter: MessageFilter, $orderBy: MessageOrder, $threadConfig: ThreadConfig) {
  recall(threadId: $threadId, resourceId: $resourceId, vectorSearchString: $vectorSearchString, perPage: $perPage,
         page: $page, include: $include, filter: $filter, orderBy: $orderBy, threadConfig: $threadConfig) {
    messages { id origin } transcript { id } total page perPage hasMore
    matches { rank score message { id text } before { id } after { id } }
    usage { tokens } engine
  }
}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """An empty database for one engine; what a test stores is stored before it serves."""

    database: Any
    engine: str

    async def fill(
        self,
        *,
        threads: Iterable[Row] = (),
        messages: Iterable[Row] = (),
        vectors: Sequence[Row] = (),
        collection: str = VECTORS,
        dimensions: int = 4,
    ) -> None:
        """Store rows, and for the Atlas engine an index over the vectors."""
        await fill(self.database, threads=threads, messages=messages)
        if vectors:
            await self.database[collection].insert_many(list(vectors))
            await self.index(collection, dimensions)

    async def index(self, collection: str = VECTORS, dimensions: int = 4) -> None:
        """The index over a collection of vectors, where there is an engine to use it."""
        if self.engine == "atlas":
            await create_index(self.database, collection, dimensions)

    def serving(self, **settings: Any) -> AbstractAsyncContextManager[Client]:
        """The application with the toy embedder and this very engine; settings given come first."""
        toy = {"embedder": "toy", "embedder_dimensions": 4, "vector_engine": self.engine}
        return serving(self.database, **(toy | settings))


@asynccontextmanager
async def serving_embedder(database: Any, embedder: Embedder, engine: Any = "exact") -> AsyncIterator[Client]:
    """The application over a memory that searches with an embedder which no setting can name."""
    search = SemanticSearch(database, embedder, SearchOptions(engine=engine))
    try:
        async with serving(database) as client:
            client.app.state.memory = Memory(database, search=search)
            yield client
    finally:
        await search.aclose()


class KnownTexts:
    """An embedder that knows some texts and the vector of each; it counts no tokens."""

    model = "known"

    def __init__(self, vectors: dict[str, Sequence[float]], *, is_open: bool = True) -> None:
        """`is_open` False: the number of dimensions is not told before the first text."""
        self.vectors = vectors
        self.is_open = is_open

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors."""
        return len(next(iter(self.vectors.values()))) if self.is_open else None

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of the texts."""
        self.is_open = True
        return Embeddings(np.array([self.vectors[text] for text in texts], dtype=np.float32))

    async def aclose(self) -> None:
        """Nothing to free."""


def options(**given: Any) -> Row:
    """A `threadConfig` that enables semantic recall with these options; without neighbours unless told otherwise."""
    return {"semanticRecall": {"messageRange": 0, **given}}


async def ask(client: Client, **arguments: Any) -> Answer:
    """Call `recall` for thread t1 and the text "east", one match at most four; arguments given come first."""
    defaults = {"threadId": "t1", "vectorSearchString": "east", "perPage": 0, "threadConfig": options()}
    return await client.ask(SEARCH, **(defaults | arguments))


async def search(client: Client, **arguments: Any) -> Row:
    """The result of `ask`, which must be without errors."""
    result: Row = (await ask(client, **arguments)).data["recall"]
    return result


def found(result: Row) -> str:
    """The ids of the matches, best first."""
    return " ".join(match["message"]["id"] for match in result["matches"])


async def talk(place: Place, cosines: dict[str, float], *, length: int = 10) -> None:
    """Thread t1 of res-a: m1, m2, ... one minute apart, with vectors of these cosines to "east" for some of them."""
    messages = [message(f"m{number}", minute=number) for number in range(1, length + 1)]
    vectors = [row(id, cosine) for id, cosine in cosines.items()]
    await place.fill(threads=[thread("t1")], messages=messages, vectors=vectors)
