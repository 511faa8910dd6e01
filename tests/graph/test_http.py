"""GraphQL over HTTP, rule by rule: what is refused, what is answered, in which media type and with which status."""

import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from strawberry.extensions import SchemaExtension

from graph.endpoint import EndpointOptions, GraphQLEndpoint
from graph.response import GRAPHQL_RESPONSE, JSON, negotiate
from tests.graph.tiny import get_context, make_client, make_schema

MODERN = {"Accept": GRAPHQL_RESPONSE}
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
TWO_OPERATIONS = "mutation First { count } query Second { hello }"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of the tiny schema."""
    async with make_client() as client:
        yield client


async def post(client: httpx.AsyncClient, query: str, **others: object) -> httpx.Response:
    """Post a query the modern way, so that the status tells what happened."""
    return await client.post("/graphql", json={"query": query, **others}, headers=MODERN)


async def counted(client: httpx.AsyncClient) -> int:
    """How often the mutation has run so far."""
    response = await post(client, "{ counted }")
    return int(response.json()["data"]["counted"])


def the_error(response: httpx.Response) -> tuple[str, str]:
    """Message and code of the only error of an answer that has nothing else."""
    body = response.json()
    assert list(body) == ["errors"]
    (error,) = body["errors"]
    return error["message"], error["extensions"]["code"]


# Reading the request


async def test_a_query_is_answered(client: httpx.AsyncClient) -> None:
    response = await post(client, "query($n: String!) { hello(name: $n) }", variables={"n": "Ada"})
    assert response.status_code == 200
    assert response.json() == {"data": {"hello": "Hello, Ada!"}}


@pytest.mark.parametrize("path", ["/graphql", "/graphql/"])
async def test_both_spellings_of_the_path_answer_without_a_redirect(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, json={"query": "{ hello }"})
    assert (response.status_code, response.json()) == (200, {"data": {"hello": "Hello, world!"}})


async def test_get_takes_query_variables_and_operation_name(client: httpx.AsyncClient) -> None:
    query = "query A { hello } query B($n: String!) { hello(name: $n) }"
    parameters = {"query": query, "variables": '{"n": "Ada"}', "operationName": "B", "extensions": ""}
    response = await client.get("/graphql", params=parameters)
    assert response.json() == {"data": {"hello": "Hello, Ada!"}}


@pytest.mark.parametrize(
    ("query_string", "message"),
    [
        ("", "The parameter 'query' is missing."),
        ("query=%FF", "The query string is not valid URL-encoded UTF-8."),
        ("query={hello}&query={hello}", "The parameter 'query' is given twice."),
        ("query={hello}&variables=[1]", "The parameter 'variables' must be an object or null."),
        ("query={hello}&extensions=3", "The parameter 'extensions' must be an object or null."),
    ],
)
async def test_a_malformed_query_string_is_refused(client: httpx.AsyncClient, query_string: str, message: str) -> None:
    response = await client.get("/graphql?" + query_string)
    assert (response.status_code, the_error(response)) == (400, (message, "BAD_USER_INPUT"))


async def test_variables_in_a_url_must_be_json(client: httpx.AsyncClient) -> None:
    response = await client.get("/graphql", params={"query": "{ hello }", "variables": "{n: 1}"})
    assert response.status_code == 400
    assert the_error(response)[0].startswith("The parameter 'variables' is not valid JSON: ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The request has no body"),
        (b"NONSENSE", "The body is not valid JSON: "),
        (b'{"query": "{ hello }"', "The body is not valid JSON: "),
        (b'{"query": "\xff"}', "The body is not valid JSON: "),
        (b'{"query": "\\ud800"}', "The body is not valid JSON: "),
        (b'{"query": NaN}', "The body is not valid JSON: "),
        (b"[" * 50_000, "The body is not valid JSON: "),
        (b'{"query":' * 50_000, "The body is not valid JSON: "),
        (b"null", "The body must be a JSON object"),
        (b'"x"', "The body must be a JSON object"),
        (b"7", "The body must be a JSON object"),
        (b'[{"query": "{ hello }"}]', "Batches are not supported"),
        (b"{}", "The parameter 'query' is missing."),
        (b'{"query": null}', "The parameter 'query' is missing."),
        (b'{"query": ""}', "The parameter 'query' is missing."),
        (b'{"query": 1}', "The parameter 'query' must be a string."),
        (b'{"query": "{ hello }", "variables": "x"}', "The parameter 'variables' must be an object or null."),
        (b'{"query": "{ hello }", "operationName": 1}', "The parameter 'operationName' must be a string"),
        (b'{"query": "{ hello }", "extensions": []}', "The parameter 'extensions' must be an object or null."),
    ],
)
async def test_a_malformed_body_is_refused(client: httpx.AsyncClient, body: bytes, message: str) -> None:
    response = await client.post("/graphql", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert the_error(response)[0].startswith(message)
    assert the_error(response)[1] == "BAD_USER_INPUT"


@pytest.mark.parametrize("parameter", ["variables", "operationName", "extensions"])
async def test_null_counts_as_left_out(client: httpx.AsyncClient, parameter: str) -> None:
    response = await post(client, "{ hello }", **{parameter: None})
    assert response.json() == {"data": {"hello": "Hello, world!"}}


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/json, text/plain",
        "application/json; charset=latin-1",
        "application/json; charset=klingon",
        "",
    ],
)
async def test_only_json_in_utf8_is_read(client: httpx.AsyncClient, content_type: str) -> None:
    before = await counted(client)
    body = b'{"query": "mutation { count }"}'
    response = await client.post("/graphql", content=body, headers={"Content-Type": content_type})
    assert (response.status_code, the_error(response)[1]) == (415, "BAD_USER_INPUT")
    assert await counted(client) == before


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "utf8"])
async def test_utf8_may_be_named(client: httpx.AsyncClient, charset: str) -> None:
    headers = {"Content-Type": f"Application/JSON; charset={charset}"}
    response = await client.post("/graphql", content='{"query": "{ hello(name: \\"é\\") }"}', headers=headers)
    assert response.json() == {"data": {"hello": "Hello, é!"}}


async def test_a_declared_body_above_the_limit_is_not_read() -> None:
    async with make_client(EndpointOptions(max_body_bytes=50)) as client:
        response = await client.post("/graphql", json={"query": "{ hello }" + " " * 50})
    assert response.status_code == 413
    assert the_error(response) == ("The body is larger than 50 bytes (RECALLQL_MAX_BODY_BYTES).", "LIMIT_EXCEEDED")


async def test_a_streamed_body_is_read_no_further_than_the_limit() -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b" " * 10

    headers = {"Content-Type": "application/json"}
    async with make_client(EndpointOptions(max_body_bytes=50)) as client:
        response = await client.post("/graphql", content=body(), headers=headers)
    assert (response.status_code, sent) == (413, 6)


# The media type of the answer


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/json", JSON),
        (GRAPHQL_RESPONSE, GRAPHQL_RESPONSE),
        (f"{GRAPHQL_RESPONSE}; charset=utf-8, application/json; charset=utf-8", GRAPHQL_RESPONSE),
        (f"{GRAPHQL_RESPONSE}, application/json;q=0.9", GRAPHQL_RESPONSE),
        (f"application/json;q=0.9, {GRAPHQL_RESPONSE}", GRAPHQL_RESPONSE),
        (f"application/json, {GRAPHQL_RESPONSE}", JSON),
        (f"*/*, {GRAPHQL_RESPONSE}", GRAPHQL_RESPONSE),
        ("*/*, application/json;q=0", GRAPHQL_RESPONSE),
        ("APPLICATION/JSON ; Q=0.5", JSON),
        ("application/json;q=nonsense, */*;q=0.1", GRAPHQL_RESPONSE),
        ("application/json;q=0", None),
        ("text/html", None),
        ("image/png, text/*", None),
        ("nonsense", None),
    ],
)
def test_the_highest_ranked_media_type_is_chosen(accept: str, expected: str | None) -> None:
    assert negotiate(accept, [JSON, GRAPHQL_RESPONSE]) == expected


async def test_the_answer_is_in_the_accepted_media_type(client: httpx.AsyncClient) -> None:
    response = await client.post("/graphql", json={"query": "{ hello }"}, headers=MODERN)
    assert response.headers["Content-Type"] == f"{GRAPHQL_RESPONSE}; charset=utf-8"
    assert response.headers["Vary"] == "Accept"
    assert response.headers["Cache-Control"] == "private, no-store"


async def test_json_answers_a_client_that_does_not_care(client: httpx.AsyncClient) -> None:
    response = await client.post("/graphql", json={"query": "{ hello }"})
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"


async def test_an_unacceptable_media_type_is_406(client: httpx.AsyncClient) -> None:
    response = await client.post("/graphql", json={"query": "{ hello }"}, headers={"Accept": "image/png"})
    assert (response.status_code, the_error(response)[1]) == (406, "BAD_USER_INPUT")


async def test_a_browser_gets_an_answer_to_its_query_where_graphiql_is_off() -> None:
    async with make_client(EndpointOptions(graphiql=False)) as client:
        response = await client.get("/graphql?query={hello}", headers={"Accept": BROWSER})
    assert response.json() == {"data": {"hello": "Hello, world!"}}


# Request errors

REQUEST_ERRORS = {
    "syntax": {"query": "{"},
    "deep": {"query": "{a" * 50_000},
    "validation": {"query": "{ nothing }"},
    "fragments only": {"query": "fragment F on Query { hello }"},
    "unknown operation": {"query": "query A { hello }", "operationName": "B"},
    "several operations": {"query": TWO_OPERATIONS},
    "missing variable": {"query": "query($n: String!) { hello(name: $n) }"},
    "refused variable": {"query": "query($n: Even!) { half(of: $n) }", "variables": {"n": 3}},
    "refused literal": {"query": "{ half(of: 3) }"},
    "subscription": {"query": "subscription { countdown }"},
}


@pytest.mark.parametrize("name", REQUEST_ERRORS)
@pytest.mark.parametrize(("accept", "status"), [(JSON, 200), (GRAPHQL_RESPONSE, 400)])
async def test_request_errors_have_no_data(client: httpx.AsyncClient, name: str, accept: str, status: int) -> None:
    response = await client.post("/graphql", json=REQUEST_ERRORS[name], headers={"Accept": accept})
    assert (response.status_code, the_error(response)[1]) == (status, "BAD_USER_INPUT")


async def test_several_operations_without_a_name_run_nothing(client: httpx.AsyncClient) -> None:
    before = await counted(client)
    for _ in range(2):  # the second time from the caches
        response = await post(client, TWO_OPERATIONS)
        assert "name the one to run" in the_error(response)[0]
    assert await counted(client) == before


async def test_the_named_operation_runs(client: httpx.AsyncClient) -> None:
    response = await post(client, TWO_OPERATIONS, operationName="Second")
    assert response.json() == {"data": {"hello": "Hello, world!"}}


async def test_an_empty_operation_name_is_none(client: httpx.AsyncClient) -> None:
    response = await post(client, "{ hello }", operationName="")
    assert response.json() == {"data": {"hello": "Hello, world!"}}


async def test_an_unknown_operation_is_named(client: httpx.AsyncClient) -> None:
    response = await post(client, "query A { hello }", operationName="B")
    assert the_error(response)[0] == "Unknown operation named 'B'."


async def test_the_endpoint_leaves_the_given_schema_as_it_was() -> None:
    schema = make_schema()
    GraphQLEndpoint(schema, get_context=get_context)
    assert schema.extensions == make_schema().extensions


# Methods


async def test_a_mutation_by_get_is_refused(client: httpx.AsyncClient) -> None:
    before = await counted(client)
    response = await client.get("/graphql", params={"query": "mutation { count }"})
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert the_error(response) == ("Mutations are sent by POST.", "BAD_USER_INPUT")
    assert await counted(client) == before


async def test_a_mutation_by_post_runs(client: httpx.AsyncClient) -> None:
    before = await counted(client)
    response = await post(client, "mutation { count }")
    assert response.json() == {"data": {"count": before + 1}}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "HEAD"])
async def test_other_methods_are_refused(client: httpx.AsyncClient, method: str) -> None:
    response = await client.request(method, "/graphql")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, POST, OPTIONS")


async def test_options_names_the_methods(client: httpx.AsyncClient) -> None:
    response = await client.options("/graphql")
    assert (response.status_code, response.headers["Allow"]) == (204, "GET, POST, OPTIONS")


async def test_get_can_be_turned_off() -> None:
    async with make_client(EndpointOptions(get_queries=False, graphiql=False)) as client:
        response = await client.get("/graphql?query={hello}")
        methods = (await client.options("/graphql")).headers["Allow"]
    assert (response.status_code, response.headers["Allow"], methods) == (405, "POST", "POST, OPTIONS")


# Results


async def test_a_failed_field_leaves_the_others(client: httpx.AsyncClient) -> None:
    response = await post(client, "{ hello fails }")
    assert response.status_code == 200
    assert response.json()["data"] == {"hello": "Hello, world!", "fails": None}
    assert response.json()["errors"][0]["path"] == ["fails"]


async def test_a_failure_that_takes_everything_away_still_has_data(client: httpx.AsyncClient) -> None:
    response = await post(client, "{ breaks }")
    assert (response.status_code, response.json()["data"]) == (200, None)
    assert response.json()["errors"][0]["path"] == ["breaks"]


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**64 - 1, 9007199254740993])
async def test_whole_numbers_are_exact_to_64_bits(client: httpx.AsyncClient, number: int) -> None:
    response = await post(client, "query($v: JSON!) { echo(value: $v) }", variables={"v": {"n": number}})
    assert json.loads(response.content) == {"data": {"echo": {"n": number}}}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("nan", b'{"x":null,"y":[null]}'),
        ("largest", b"18446744073709551615"),
        ("huge", b"1180591620717411303424"),
        ("surrogate", rb'"\ud800"'),
    ],
)
async def test_odd_values_are_written_as_json(client: httpx.AsyncClient, name: str, written: bytes) -> None:
    response = await post(client, "query($n: String!) { odd(name: $n) }", variables={"n": name})
    assert response.content == b'{"data":{"odd":' + written + b"}}"


async def test_what_cannot_be_written_is_one_neutral_error(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = await post(client, '{ odd(name: "unencodable") }')
    error = {"message": "Internal error.", "extensions": {"code": "INTERNAL"}}
    assert (response.status_code, response.json()) == (200, {"data": None, "errors": [error]})
    assert [record.exc_info is not None for record in caplog.records] == [True]


# The context and what escapes


async def test_the_context_is_made_from_the_request(client: httpx.AsyncClient) -> None:
    response = await client.get("/graphql?query={caller}", headers={"Authorization": "Ada"})
    assert response.json() == {"data": {"caller": "Ada"}}


async def test_the_context_may_refuse_the_caller(client: httpx.AsyncClient) -> None:
    response = await client.post("/graphql", content=b"NONSENSE", headers={"Authorization": "unknown"})
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert the_error(response) == ("Unknown token.", "UNAUTHENTICATED")


@pytest.mark.parametrize(("accept", "status"), [(JSON, 200), (GRAPHQL_RESPONSE, 500)])
async def test_a_fault_is_logged_once_and_not_told(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, accept: str, status: int
) -> None:
    headers = {"Authorization": "broken", "Accept": accept}
    response = await client.post("/graphql", json={"query": "{ hello }"}, headers=headers)
    assert (response.status_code, the_error(response)) == (status, ("Internal error.", "INTERNAL"))
    assert "secret" not in response.text
    assert [record.exc_info is not None for record in caplog.records] == [True]


class Faulty(SchemaExtension):
    """An extension with a fault of its own."""

    def on_execute(self) -> Iterator[None]:
        """Fail, outside of any field."""
        yield
        raise LookupError("a secret")


async def test_a_fault_of_an_extension_is_logged_once_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    schema = make_schema()
    schema.extensions = (Faulty,)
    endpoint = GraphQLEndpoint(schema, get_context=get_context)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://recallql.test") as client:
        response = await post(client, "{ hello }")
    assert (response.status_code, the_error(response)) == (500, ("Internal error.", "INTERNAL"))
    assert [record.exc_info is not None for record in caplog.records] == [True]
