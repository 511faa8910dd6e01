"""Whatever is sent, the answer is JSON, and never that we are at fault.

Bodies, headers, query strings, variables and documents are made up by Hypothesis; valid documents, and documents that
are nearly valid, by hypothesis-graphql from the schema.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_from_bytes

import httpx
import orjson
import pytest
from graphql import FloatValueNode, NameNode, ObjectFieldNode, ValueNode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_graphql import Mode, nodes, queries
from pymongo import AsyncMongoClient

from graph.schema import create_schema
from tests.graph.process import RECALLQL, running
from tests.zoo import Client, load_dump, serving

SCHEMA = create_schema()._schema
assert SCHEMA.query_type is not None
NAME = "recallql_fuzz"
WAYS_IN = SCHEMA.query_type.fields


JSON = {"Content-Type": "application/json"}


def examples(count: int) -> settings:
    """So many examples, the same ones in every run: a failure is a failure for everybody."""
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
async def client(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Client]:
    """The application over the database that the real library wrote, with the toy embedder."""
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri) as mongodb:
        database = mongodb[NAME]
        await mongodb.drop_database(database.name)
        await load_dump(database)
        async with serving(database, embedder="toy", semantic_recall="true") as client:
            yield client
        await mongodb.drop_database(database.name)


def check(response: httpx.Response) -> None:
    """The answer is strict JSON, has data or errors with a code, and the client is at fault if anybody is."""
    assert response.status_code < 500, response.text
    media_type = response.headers["Content-Type"].partition(";")[0]
    assert media_type in ("application/json", "application/graphql-response+json")
    body = orjson.loads(response.content)
    assert "data" in body or body["errors"]
    codes = {error["extensions"]["code"] for error in body.get("errors", ())}
    assert not codes & {"INTERNAL", "UNAVAILABLE", "EMBEDDER_FAILED"}, body


# Bodies and headers


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
QUERIES = st.sampled_from(
    ["{ threads { total } }", "query A { __typename }", "{", "", "fragment F on Query { __typename }"]
)
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "query": QUERIES | VALUES,
        "variables": VALUES,
        "operationName": st.just("A") | VALUES,
        "extensions": VALUES,
        "id": VALUES,
    },
)
BODIES = (
    st.binary(max_size=64)
    | st.text(max_size=64).map(str.encode)
    | (VALUES | PARAMETERS).map(lambda value: json.dumps(value).encode())
)
TYPES = ["application/json", "application/json;charset=utf-8", "text/plain", 'application/json; charset="x', "*", ";"]
ACCEPTED = [
    "*/*",
    "application/json",
    "application/graphql-response+json",
    "*/*;q=0",
    "q=x",
    ",,;;",
    "text/html;q=0.1, */*",
]
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": st.sampled_from(TYPES),
        "Accept": st.sampled_from(ACCEPTED),
        "Accept-Encoding": st.sampled_from(["gzip", "gzip;q=0", "*", "br, gzip", ""]),
        "Authorization": st.sampled_from(["Bearer x", "Bearer", "", "Basic eA==", "é"]),
        "Origin": st.sampled_from(["null", "https://x.example", ""]),
        "X-Request-ID": st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200),
        "Content-Length": st.sampled_from(["x", "-1", "9" * 30, "0"]),
    },
)


@given(body=BODIES, headers=HEADERS)
@examples(200)
async def test_any_body_with_any_headers_is_answered(client: Client, body: bytes, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    check(await client.http.post("/graphql", content=body, headers=encoded))


@given(parameters=PARAMETERS)
@examples(120)
async def test_any_parameters_are_answered(client: Client, parameters: dict[str, Any]) -> None:
    body = json.dumps(parameters).encode()
    check(await client.http.post("/graphql", content=body, headers=JSON))


NAMES = st.sampled_from(["query", "variables", "operationName", "extensions"]) | st.text(max_size=4)
TEXT = (QUERIES | st.text(max_size=16)).map(quote) | st.binary(max_size=8).map(quote_from_bytes)
PIECES = st.tuples(NAMES.map(quote), TEXT).map("=".join)


@given(pieces=st.lists(PIECES, max_size=5), glue=st.sampled_from("&;#"))
@examples(120)
async def test_any_query_string_is_answered(client: Client, pieces: list[str], glue: str) -> None:
    check(await client.http.get("/graphql?" + glue.join(pieces), headers={"Accept": "application/json"}))


# Documents


TOKENS = r"""
    { } ( ) [ ] : ! = | & @ $ ... " \ # é $x F 0 -1 1e999 99999999999999999999 "t1" "\u0000" "\ud800" "\u{110000}" @skip
    query mutation subscription fragment on true false null @include if threads recall messages total id threadId
    perPage filter metadata include __typename __schema
"""


@given(tokens=st.lists(st.sampled_from(TOKENS.split()), max_size=40))
@examples(200)
async def test_any_row_of_tokens_is_answered(client: Client, tokens: list[str]) -> None:
    check(await client.http.post("/graphql", json={"query": " ".join(tokens) or " "}))


TEXTS = st.sampled_from(["", " ", "t1", "__proto__", "$where", "a.b", "a" * 129, "é", "\x00", "1", "true"])
WHOLE = st.sampled_from([0, 1, -1, 1001, 2**31, 2**53 + 1, 2**63, 2**64, 10**30])
LEAVES = (
    TEXTS.map(nodes.String)
    | WHOLE.map(nodes.Int)
    | st.sampled_from(["0.5", "-0.0", "10.0", "1e308", "1e999"]).map(lambda text: FloatValueNode(value=text))
    | st.booleans().map(nodes.Boolean)
    | st.just(nodes.Null)
)
KEYS = st.sampled_from(
    ["topK", "messageRange", "before", "after", "scope", "threshold", "filter", "__proto__", "a", "_1"]
)


def objects(values: st.SearchStrategy[ValueNode]) -> st.SearchStrategy[ValueNode]:
    """Literal objects with these values."""
    fields = st.builds(ObjectFieldNode, name=KEYS.map(lambda key: NameNode(value=key)), value=values)
    return st.lists(fields, max_size=3, unique_by=lambda node: str(node.name.value)).map(nodes.Object)


ODD = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(nodes.List) | objects(inner), max_leaves=5)
LITERALS: dict[str, st.SearchStrategy[ValueNode]] = {
    "PerPage": st.integers(0, 20).map(nodes.Int) | st.just(nodes.Boolean(value=False)) | ODD,
    "DateTime": st.datetimes().map(lambda moment: nodes.String(f"{moment.isoformat()}+01:00")) | ODD,
    "MetadataFilter": objects(LEAVES) | ODD,
    "SemanticRecall": st.booleans().map(nodes.Boolean) | objects(ODD),
    "JSONObject": objects(ODD),
    "JSON": ODD,
    "Count": WHOLE.map(nodes.Int),
}
"""For each scalar of our own, values that it takes and values that it does not."""


@given(document=st.one_of([queries(SCHEMA, fields=[name], custom_scalars=LITERALS) for name in WAYS_IN]))
@examples(60)
async def test_any_document_of_the_schema_is_answered(client: Client, document: str) -> None:
    check(await client.http.post("/graphql", json={"query": document}))


@given(document=queries(SCHEMA, custom_scalars=LITERALS, mode=Mode.NEGATIVE))
@examples(40)
async def test_any_document_that_is_nearly_of_the_schema_is_answered(client: Client, document: str) -> None:
    check(await client.http.post("/graphql", json={"query": document}))


def to_query(name: str) -> str:
    """A query of one way in, with a variable for each argument, that asks for whatever it answers."""
    field = WAYS_IN[name]
    variables = ", ".join(f"${argument}: {given.type}" for argument, given in field.args.items())
    arguments = ", ".join(f"{argument}: ${argument}" for argument in field.args)
    return f"query({variables}) {{ {name}({arguments}) {{ __typename }} }}"


IDS = st.sampled_from(["", " ", "t1", "\x00", "é", "5f0c2a8e5f0c2a8e5f0c2a8e"])
SEARCHES = st.sampled_from(["", "zebra", "\x00", "x" * 5000])


LIKELY = {"id": IDS, "threadId": IDS, "resourceId": IDS, "vectorSearchString": SEARCHES, "page": st.integers()}


def requests(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """A query of one way in with values for its arguments: any at all, or such as have a chance."""
    values = {argument: LIKELY.get(argument, VALUES) | VALUES for argument in WAYS_IN[name].args}
    variables = st.fixed_dictionaries({}, optional=values)
    return st.fixed_dictionaries({"query": st.just(to_query(name)), "variables": variables})


@given(request=st.one_of([requests(name) for name in WAYS_IN]))
@examples(200)
async def test_any_variables_are_answered(client: Client, request: dict[str, Any]) -> None:
    check(await client.http.post("/graphql", content=json.dumps(request), headers=JSON))


# A running server


def test_a_server_that_is_explored_by_its_introspection_is_never_at_fault(
    client: Client, mongodb_uri: str, tmp_path: Path
) -> None:
    with running(tmp_path, mongodb_uri=mongodb_uri, database=NAME, embedder="toy", semantic_recall="true") as server:
        command = [str(RECALLQL.with_name("schemathesis")), "run", f"{server.base}/graphql", "--warnings", "off"]
        options = ["--checks", "not_a_server_error", "--max-examples", "40", "--seed", "1"]
        explored = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert explored.returncode == 0, explored.stdout + explored.stderr
    assert f"{40 * len(WAYS_IN)} generated, {40 * len(WAYS_IN)} passed" in explored.stdout
    assert "Traceback" not in server.said
