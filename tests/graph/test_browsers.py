"""What browsers need and what they must not be talked into: other sites' pages, compression, caching, request ids."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.graph.test_commands import Commands, listening
from tests.zoo import Client, fill, message, serving, thread

DASHBOARD = "https://dashboard.example"
ELSEWHERE = "https://evil.example"
QUERY = "{ threads { total } }"
LARGE = '{ recall(threadId: "t1", perPage: 100) { messages { id text } } }'


@pytest.fixture
async def client(plain_database: Any) -> AsyncIterator[Client]:
    """The application, which one other site may call; a hundred messages."""
    rows = [message(f"m{number}", minute=number) for number in range(100)]
    await fill(plain_database, threads=[thread("t1")], messages=rows)
    async with serving(plain_database, cors_origins=f"{DASHBOARD} https://admin.example") as client:
        yield client


async def preflight(client: Client, origin: str, method: str = "POST", headers: str = "content-type") -> httpx.Response:
    """What a browser asks before it lets a page of another site send JSON."""
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    return await client.http.options("/graphql", headers={"Origin": origin, **asked})


# Pages of other sites


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_page_of_a_named_site_may_call(client: Client, method: str) -> None:
    wanted = "authorization, content-type, x-api-key, x-request-id"
    allowed = await preflight(client, DASHBOARD, method, wanted)
    assert allowed.is_success
    assert allowed.headers["Access-Control-Allow-Origin"] == DASHBOARD
    assert method in allowed.headers["Access-Control-Allow-Methods"]
    names = {name.strip() for name in allowed.headers["Access-Control-Allow-Headers"].lower().split(",")}
    assert names >= set(wanted.split(", "))


async def test_an_answer_may_be_read_by_a_page_of_a_named_site(client: Client) -> None:
    response = await client.http.post("/graphql", json={"query": QUERY}, headers={"Origin": DASHBOARD})
    assert response.headers["Access-Control-Allow-Origin"] == DASHBOARD
    assert "Origin" in response.headers["Vary"]
    assert "X-Request-ID" in response.headers["Access-Control-Expose-Headers"]


async def test_a_refusal_may_be_read_by_a_page_of_a_named_site(client: Client) -> None:
    response = await client.http.post("/graphql", content=b"nonsense", headers={"Origin": DASHBOARD})
    assert (response.status_code, response.headers["Access-Control-Allow-Origin"]) == (415, DASHBOARD)


@pytest.mark.parametrize(
    "origin", [ELSEWHERE, "http://dashboard.example", f"{DASHBOARD}.evil.example", f"{DASHBOARD}:444", "null"]
)
async def test_a_page_of_another_site_may_not_call(client: Client, origin: str) -> None:
    refused = await preflight(client, origin)
    assert refused.is_client_error
    assert "Access-Control-Allow-Origin" not in refused.headers
    answered = await client.http.post("/graphql", json={"query": QUERY}, headers={"Origin": origin})
    assert "Access-Control-Allow-Origin" not in answered.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_no_site_may_use_other_methods(client: Client, method: str) -> None:
    assert (await preflight(client, DASHBOARD, method)).is_client_error


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/health", "/metrics"])
async def test_no_other_site_may_call_unless_named(plain_database: Any, path: str) -> None:
    asked = {"Origin": DASHBOARD, "Access-Control-Request-Method": "POST"}
    async with serving(plain_database) as client:
        for response in (await client.http.options(path, headers=asked), await client.http.get(path, headers=asked)):
            assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_credentials_of_the_browser_are_never_asked_for(client: Client) -> None:
    assert "Access-Control-Allow-Credentials" not in (await preflight(client, DASHBOARD)).headers


# What a page can send without asking


BODY = json.dumps({"query": QUERY})
WITHOUT_ASKING = {
    "text/plain": BODY,
    "application/x-www-form-urlencoded": urlencode({"query": QUERY}),
    "multipart/form-data; boundary=x": f'--x\r\nContent-Disposition: form-data; name="query"\r\n\r\n{QUERY}\r\n--x--',
    "text/plain; application/json": BODY,
    "": BODY,
}


@pytest.mark.parametrize("content_type", WITHOUT_ASKING)
async def test_what_a_page_sends_without_asking_is_refused_and_not_run(mongodb_uri: str, content_type: str) -> None:
    async with listening(mongodb_uri, "recallql_browsers") as (database, commands), serving(database) as client:
        assert (await posted(client, commands, "application/json", BODY))[0] == 200
        refused = await posted(client, commands, content_type, WITHOUT_ASKING[content_type])
    assert refused == (415, [])


async def posted(client: Client, commands: Commands, content_type: str, body: str) -> tuple[int, list[str]]:
    """The status of an answer, and the commands that it took."""
    commands.reset()
    headers = {"Content-Type": content_type, "Origin": ELSEWHERE}
    response = await client.http.post("/graphql", content=body.encode(), headers=headers)
    return response.status_code, commands.names


@pytest.mark.parametrize("query", ["mutation { threads { total } }", "subscription { threads { total } }"])
async def test_a_link_changes_nothing(client: Client, query: str) -> None:
    response = await client.http.get("/graphql", params={"query": query})
    assert "data" not in response.json()
    assert response.status_code < 500


# Compression


async def test_a_large_answer_is_compressed_for_those_who_accept_it(client: Client) -> None:
    headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
    body = json.dumps({"query": LARGE})
    async with client.http.stream("POST", "/graphql", content=body, headers=headers) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
    assert response.headers["Content-Encoding"] == "gzip"
    assert int(response.headers["Content-Length"]) == len(raw)
    assert "Accept-Encoding" in response.headers["Vary"]
    assert len(json.loads(gzip.decompress(raw))["data"]["recall"]["messages"]) == 100


@pytest.mark.parametrize("accepted", ["identity", "", "br", "deflate"])
async def test_nobody_gets_what_they_do_not_accept(client: Client, accepted: str) -> None:
    response = await client.http.post("/graphql", json={"query": LARGE}, headers={"Accept-Encoding": accepted})
    assert "Content-Encoding" not in response.headers
    assert "Accept-Encoding" in response.headers["Vary"]
    assert len(response.json()["data"]["recall"]["messages"]) == 100


async def test_a_small_answer_is_not_compressed(client: Client) -> None:
    response = await client.http.post("/graphql", json={"query": QUERY}, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in response.headers


async def test_compression_can_be_left_to_a_proxy(plain_database: Any) -> None:
    await fill(plain_database, messages=[message(f"m{number}", minute=number) for number in range(100)])
    async with serving(plain_database, compression=False) as client:
        response = await client.http.post("/graphql", json={"query": LARGE}, headers={"Accept-Encoding": "gzip"})
    assert len(response.content) > 3000
    assert "Content-Encoding" not in response.headers


# Caching


@pytest.mark.parametrize("query", [QUERY, LARGE, "{ nonsense }", "{"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nobody_s_memory_is_kept_by_caches(client: Client, method: str, query: str) -> None:
    asked: dict[str, Any] = {"params": {"query": query}} if method == "GET" else {"json": {"query": query}}
    response = await client.http.request(method, "/graphql", **asked)
    assert "no-store" in response.headers["Cache-Control"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Accept" in response.headers["Vary"].split(", ")


async def test_refusals_are_not_kept_by_caches_either(plain_database: Any) -> None:
    async with serving(plain_database, auth="jwt", jwt_secret="a secret of more than thirty-two bytes") as client:
        response = await client.http.get("/graphql", params={"query": QUERY})
    assert (response.status_code, response.headers["Cache-Control"]) == (401, "private, no-store")


# The id of a request


@pytest.mark.parametrize(
    "request_id", ["1", "6f1c2b8e-3f0a-4c57-9a51-6f4f0f5d1c11", "Root=1-67891233-abcdef", "a:b/c+d.e_f", "x" * 128]
)
async def test_the_client_s_own_id_comes_back(client: Client, request_id: str) -> None:
    response = await client.http.post("/graphql", json={"query": QUERY}, headers={"X-Request-ID": request_id})
    assert response.headers["X-Request-ID"] == request_id


@pytest.mark.parametrize("request_id", ["", " ", "a b", "x" * 129, "<script>", 'a"b', "a;b", "a\tb", "é", "a,b", "{}"])
async def test_an_odd_id_is_replaced(client: Client, request_id: str) -> None:
    headers = [(b"X-Request-ID", request_id.encode()), (b"Content-Type", b"application/json")]
    response = await client.http.post("/graphql", content=BODY, headers=headers)
    made = response.headers["X-Request-ID"]
    assert made.isalnum()
    assert made != request_id


@pytest.mark.parametrize("path", ["/graphql", "/health", "/ready", "/metrics", "/nowhere"])
async def test_every_answer_has_an_id_of_its_own(client: Client, path: str) -> None:
    made = {(await client.http.get(path)).headers["X-Request-ID"] for _ in range(20)}
    assert len(made) == 20
