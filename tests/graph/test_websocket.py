"""GraphQL over WebSocket: the transport's own rules; the protocol itself is Strawberry's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from graph.endpoint import EndpointOptions
from tests.graph.server import serve
from tests.graph.tiny import make_app

PROTOCOLS = [Subprotocol("graphql-transport-ws")]
ELSEWHERE = Origin("https://elsewhere.example")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The endpoint of a running server."""
    with serve(make_app()) as base:
        yield base.replace("http", "ws") + "/graphql"


@contextmanager
def introduced(url: str, payload: dict[str, object] | None = None, **options: Any) -> Iterator[ClientConnection]:
    """A connection whose client has introduced itself with `payload`."""
    with connect(url, subprotocols=PROTOCOLS, proxy=None, **options) as socket:
        socket.send(json.dumps({"type": "connection_init", "payload": payload or {}}))
        assert json.loads(socket.recv())["type"] == "connection_ack"
        yield socket


def run(socket: ClientConnection, query: str) -> list[Any]:
    """The payloads that answer one operation."""
    socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": query}}))
    payloads = []
    while (message := json.loads(socket.recv()))["type"] == "next":
        payloads.append(message["payload"])
    return payloads if message["type"] == "complete" else message["payload"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_subscription_runs_to_its_end(url: str, slash: str) -> None:
    with introduced(url + slash) as socket:
        payloads = run(socket, "subscription { countdown(start: 2) }")
    assert payloads == [{"data": {"countdown": 2}}, {"data": {"countdown": 1}}]


def test_queries_run_as_well_and_are_encoded_like_over_http(url: str) -> None:
    with introduced(url) as socket:
        assert run(socket, '{ odd(name: "nan") }') == [{"data": {"odd": {"x": None, "y": [None]}}}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{", "Syntax Error: Expected Name, found <EOF>."),
        ("{ nothing }", "Cannot query field 'nothing' on type 'Query'."),
        ("fragment F on Query { hello }", "The document contains no operation."),
    ],
)
def test_a_request_error_leaves_the_connection_open(url: str, query: str, message: str) -> None:
    with introduced(url) as socket:
        (error,) = run(socket, query)
        assert (error["message"], error["extensions"]["code"]) == (message, "BAD_USER_INPUT")
        assert run(socket, "{ hello }") == [{"data": {"hello": "Hello, world!"}}]


@pytest.mark.parametrize(
    "message",
    [
        "NONSENSE",
        "null",
        '{"type": "complete", "id": []}',
        '{"type": "subscribe", "id": "1", "payload": "x"}',
        '{"type": "subscribe", "id": "1", "payload": {"query": 7}}',
        '{"type": "subscribe", "id": "1", "payload": {"query": "{ hello }", "variables": [1]}}',
    ],
)
def test_a_malformed_message_ends_the_connection(url: str, message: str) -> None:
    with introduced(url) as socket:
        socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400


def test_what_cannot_be_written_is_one_neutral_error(url: str) -> None:
    with introduced(url) as socket:
        (answer,) = run(socket, '{ odd(name: "unencodable") }')
    assert answer == {"data": None, "errors": [{"message": "Internal error.", "extensions": {"code": "INTERNAL"}}]}


def test_several_operations_need_a_name(url: str) -> None:
    with introduced(url) as socket:
        (error,) = run(socket, "query A { hello } query B { hello }")
    assert "name the one to run" in error["message"]


@pytest.mark.parametrize(
    ("headers", "payload", "caller"),
    [
        ({}, {}, "nobody"),
        ({"Authorization": "Ada"}, {}, "Ada"),
        ({}, {"Authorization": "Ada"}, "Ada"),
        ({"Authorization": "Ada"}, {"Authorization": "Eve"}, "Ada"),
        ({}, {"authorization": 7}, "nobody"),
    ],
)
def test_credentials_come_with_the_handshake_or_the_introduction(
    url: str, headers: dict[str, str], payload: dict[str, object], caller: str
) -> None:
    with introduced(url, payload, additional_headers=headers) as socket:
        assert run(socket, "{ caller }") == [{"data": {"caller": caller}}]


def test_each_operation_has_a_context_of_its_own(url: str) -> None:
    with introduced(url) as socket:
        answers = [run(socket, "{ asked }") for _ in range(2)]
    assert answers == [[{"data": {"asked": 1}}]] * 2


@pytest.mark.parametrize(
    ("token", "code", "reason"), [("unknown", 4401, "Unknown token."), ("broken", 4500, "Internal error.")]
)
def test_a_refused_caller_is_closed_out(url: str, token: str, code: int, reason: str) -> None:
    with pytest.raises(ConnectionClosed) as closed, introduced(url, {"authorization": token}):
        pass
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (code, reason)


def test_pages_of_other_sites_are_kept_out(url: str) -> None:
    with pytest.raises(InvalidStatus) as refused, introduced(url, origin=ELSEWHERE):
        pass
    assert refused.value.response.status_code == 403


def test_pages_of_other_sites_may_be_let_in_by_name() -> None:
    options = EndpointOptions(allowed_origins=(ELSEWHERE,))
    with (
        serve(make_app(options)) as base,
        introduced(base.replace("http", "ws") + "/graphql", origin=ELSEWHERE) as socket,
    ):
        assert run(socket, "{ hello }") == [{"data": {"hello": "Hello, world!"}}]


def test_a_caller_may_be_refused_later(url: str) -> None:
    with introduced(url, {"authorization": "once"}) as socket:
        (error,) = run(socket, "{ hello }")
    assert error == {"message": "Unknown token.", "extensions": {"code": "UNAUTHENTICATED"}}
