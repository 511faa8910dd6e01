"""What Prometheus is told: requests, commands to the database, semantic recalls, memory; with labels that stay few."""

import asyncio
import hashlib
import string
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from graph.app import create_app
from graph.errors import ErrorCode
from graph.metrics import Metrics
from graph.schema import create_schema
from graph.settings import Settings
from store.embedders.toy import ToyEmbedder
from tests.zoo import Client, fill, ten_messages, thread

Samples = dict[tuple[str, ...], float]
SEMANTIC = '{ recall(threadId: "t1", vectorSearchString: "text of m3", perPage: 1) { matches { rank } } }'
KEY = {"X-API-Key": "a key"}
KEY_HASH = hashlib.sha256(b"a key").hexdigest()
WAYS_IN = set(create_schema()._schema.query_type.fields)  # type: ignore[union-attr]


@asynccontextmanager
async def connected(database: Any, uri: str, **settings: Any) -> AsyncIterator[Client]:
    """The application with a connection of its own, whose commands it counts, over ten messages of t1."""
    await fill(database, threads=[thread("t1"), thread("t2", "res-b")], messages=ten_messages())
    app = create_app(Settings(mongodb_uri=uri, database=database.name, **settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://recallql.test") as http:
            yield Client(http, app)


@pytest.fixture
async def client(plain_database: Any, mongodb_uri: str) -> AsyncIterator[Client]:
    """The application without any settings."""
    async with connected(plain_database, mongodb_uri) as client:
        yield client


async def told(client: Client, name: str, *labels: str) -> Samples:
    """The samples of a metric by the values of these labels, as Prometheus reads them; those of 0 are left out."""
    text = (await client.http.get("/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = [(sample.labels, sample.value) for sample in samples if sample.name == name and sample.value]
    assert all(set(given) == set(labels) for given, _ in values)
    return {tuple(given[label] for label in labels): value for given, value in values}


async def requests(client: Client) -> Samples:
    """How many requests there were, by operation and code."""
    return await told(client, "recallql_requests_total", "operation", "code")


async def test_requests_are_counted_by_operation_and_code(client: Client) -> None:
    await client.ask("{ threads { total } }")
    await client.ask("{ mine: threads { total } }")
    await client.ask('{ recall(threadId: "t1") { total } }')
    await client.ask('{ recall(threadId: "t1", resourceId: "res-b") { total } }')
    await client.ask("{ threads(page: -1) { total } }")
    assert await requests(client) == {
        ("threads", "OK"): 2,
        ("threads", "BAD_USER_INPUT"): 1,
        ("recall", "OK"): 1,
        ("recall", "FORBIDDEN"): 1,
    }


async def test_the_operation_that_ran_is_the_one_that_counts(client: Client) -> None:
    two = 'query A { threads { total } } query B { thread(id: "t1") { id } }'
    await client.send({"query": two, "operationName": "B"})
    assert await requests(client) == {("thread", "OK"): 1}


async def test_what_cannot_be_run_is_counted_as_invalid(client: Client) -> None:
    for query in ("{", "{ nonsense }", "query A { threads { total } } query B { threads { total } }"):
        await client.ask(query)
    assert await requests(client) == {("invalid", "BAD_USER_INPUT"): 3}


async def test_what_passes_a_limit_is_counted_as_such(client: Client) -> None:
    await client.ask("{ threads(perPage: false) { threads { messages(perPage: false) { messages { id } } } } }")
    (labels,) = await requests(client)
    assert labels[1] == "LIMIT_EXCEEDED"


async def test_the_time_of_every_request_is_told(client: Client) -> None:
    for query in ("{ threads { total } }", "{ threads { total } }", "{ nonsense }"):
        await client.ask(query)
    assert await told(client, "recallql_request_seconds_count", "operation") == {("threads",): 2, ("invalid",): 1}
    assert (await told(client, "recallql_request_seconds_sum", "operation"))["threads",] > 0


async def test_a_request_that_ran_out_of_time_is_counted_too(plain_database: Any, mongodb_uri: str) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"
    settings = {"embedder": "openai", "embedder_url": url, "embedder_model": "x", "semantic_recall": "true"}
    async with silent, connected(plain_database, mongodb_uri, request_timeout=0.3, **settings) as client:
        assert (await client.ask(SEMANTIC)).code == "LIMIT_EXCEEDED"
        assert await requests(client) == {("recall", "LIMIT_EXCEEDED"): 1}


async def test_what_is_refused_before_an_operation_begins_is_counted_by_its_status(
    plain_database: Any, mongodb_uri: str
) -> None:
    async with connected(plain_database, mongodb_uri, auth="api-key", api_keys=f"sha256:{KEY_HASH} res-a") as client:
        for headers, body in (({}, b"{}"), (KEY, b"{"), (KEY, b"x" * 1_100_000), (KEY, b'{"query": "{ __typename }"}')):
            await client.http.post("/graphql", content=body, headers={"Content-Type": "application/json", **headers})
        await client.http.put("/graphql")
        counted = await told(client, "recallql_http_responses_total", "status")
    assert counted == {("401",): 1, ("400",): 1, ("413",): 1, ("200",): 1, ("405",): 1}


# Labels stay few


async def test_what_clients_make_up_never_becomes_a_label(client: Client) -> None:
    for letter in string.ascii_lowercase:
        word = f"zebra_{letter}"
        for query in (
            f"query {word} {{ threads {{ total }} }}",
            f"{{ {word}: threads {{ total }} }}",
            f"{{ {word} {{ id }} }}",
            f"{{ {word}: {word} }}",
            f"query {word} {{ ...{word} }} fragment {word} on Query {{ threads {{ total }} }}",
            f'{{ thread(id: "{word}") {{ id }} }}',
            f"subscription {{ {word} }}",
            word,
        ):
            await client.ask(query)
        await client.send({"query": f"query {word} {{ threads {{ total }} }}", "operationName": f"{word}_{word}"})
        await client.http.get(f"/{word}", params={"query": "{ threads { total } }"}, headers={"X-Request-ID": word})
    text = (await client.http.get("/metrics")).text
    assert "zebra" not in text
    assert {operation for operation, _ in await requests(client)} <= WAYS_IN | {"invalid", "fragment"}
    assert {code for _, code in await requests(client)} <= {"OK", *ErrorCode}


async def test_introspection_has_few_labels_too(client: Client) -> None:
    for query in ("{ __schema { queryType { name } } }", "{ __typename }", '{ __type(name: "X") { name } }'):
        await client.ask(query)
    assert {code for _, code in await requests(client)} == {"OK"}
    assert len(await requests(client)) <= 3


# The database


async def commands(client: Client) -> Counter[tuple[str, ...]]:
    """How many commands were sent, by name and outcome."""
    counts = await told(client, "recallql_database_command_seconds_count", "command", "outcome")
    return Counter({labels: int(count) for labels, count in counts.items()})


async def test_commands_to_the_database_are_counted_by_name_and_outcome(client: Client) -> None:
    before = await commands(client)
    assert (await client.ask("{ threads { threads { id } total } }")).data
    assert await commands(client) - before == {("aggregate", "ok"): 2}
    assert (await told(client, "recallql_database_command_seconds_sum", "command", "outcome"))["aggregate", "ok"] > 0


async def test_no_command_is_counted_for_what_is_refused(client: Client) -> None:
    before = await commands(client)
    await client.ask("{ threads(page: -1) { total } }")
    assert await commands(client) == before


# Semantic recall


async def embed(database: Any) -> None:
    """Store a vector for each of the ten messages."""
    texts = [f"text of m{number}" for number in range(1, 11)]
    vectors = (await ToyEmbedder().embed(texts)).vectors.tolist()
    names = [{"message_id": f"m{n}", "thread_id": "t1", "resource_id": "res-a"} for n in range(1, 11)]
    rows = [{"_id": f"v{place}", "embedding": vector, "metadata": names[place]} for place, vector in enumerate(vectors)]
    await database.memory_messages_64.insert_many(rows)


async def test_semantic_recalls_and_their_matches_are_counted_by_engine(plain_database: Any, mongodb_uri: str) -> None:
    await embed(plain_database)
    async with connected(plain_database, mongodb_uri, embedder="toy", semantic_recall='{"topK": 3}') as client:
        for _ in range(2):
            assert len((await client.ask(SEMANTIC)).data["recall"]["matches"]) == 3
        await client.ask('{ recall(threadId: "t1") { total } }')
        recalls = await told(client, "recallql_semantic_recalls_total", "engine")
        matches = await told(client, "recallql_semantic_matches_total", "engine")
    ((engine,),) = recalls
    assert engine.upper() == "EXACT"
    assert (list(recalls.values()), list(matches.values())) == ([2], [6])


async def test_the_memory_that_vectors_take_is_told(plain_database: Any, mongodb_uri: str) -> None:
    await embed(plain_database)
    async with connected(plain_database, mongodb_uri, embedder="toy", semantic_recall="true") as client:
        assert await told(client, "recallql_vector_cache_bytes") == {}
        await client.ask(SEMANTIC)
        assert (await told(client, "recallql_vector_cache_bytes"))[()] >= 10 * 64 * 4


# How it is served


async def test_metrics_are_in_the_form_of_prometheus(client: Client) -> None:
    response = await client.http.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert all(family.documentation for family in families.values())
    assert {"recallql_requests", "recallql_request_seconds"} <= set(families)


async def test_metrics_can_be_switched_off(plain_database: Any, mongodb_uri: str) -> None:
    async with connected(plain_database, mongodb_uri, metrics=False) as client:
        assert (await client.http.get("/metrics")).status_code == 404


def test_two_applications_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.observe_command("find", 0.1, True)
    labels = {"command": "find", "outcome": "ok"}
    assert one.registry.get_sample_value("recallql_database_command_seconds_count", labels) == 1
    assert other.registry.get_sample_value("recallql_database_command_seconds_count", labels) is None
