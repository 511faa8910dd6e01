"""Key sets (JWKS) from a real server: found by name, kept, rotated, and what happens when the server is away."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.requests import HTTPConnection

from graph.request import RequestError
from graph.tokens import TokenOptions, Tokens
from tests.graph.callers import (
    EC_KEY,
    RSA_KEY,
    SECRET,
    PrivateKey,
    bearer,
    claims,
    forged,
    pem,
    refusal,
    token,
    two_owners,
    visible,
)
from tests.zoo import serving


@pytest.fixture(scope="module")
async def filled(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Any]:
    """ta of res-a, and tb of res-b."""
    async with two_owners(mongodb_uri) as database:
        yield database


@dataclass
class KeyServer:
    """What the server of a key set answers at the moment, and how often it was asked."""

    url: str
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    status: int = 200
    asked: int = 0

    def answer(self) -> bytes:
        """The public halves of the keys."""
        self.asked += 1
        if self.status != 200:
            return b"<html>Sorry</html>"
        return json.dumps({"keys": [_to_jwk(kid, key) for kid, key in self.keys.items()]}).encode()


def _to_jwk(kid: str, key: PrivateKey) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
    return {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    """A server of a key set that holds an RSA key `first`."""
    state = KeyServer("", {"first": RSA_KEY})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = state.answer()
            self.send_response(state.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    with _running(Handler) as state.url:
        yield state


async def test_keys_of_a_set_are_found_by_their_names_and_kept(filled: Any, key_server: KeyServer) -> None:
    key_server.keys["second"] = EC_KEY
    async with serving(filled, auth="jwt", jwt_jwks_url=key_server.url) as client:
        assert await visible(client, authorization=token(RSA_KEY, "RS256", "first")) == "ta"
        assert await visible(client, authorization=token(EC_KEY, "ES256", "second", sub="res-b")) == "tb"
    assert key_server.asked == 1


@pytest.mark.parametrize(
    "header",
    [
        token(SECRET, "HS256", "first"),
        forged(pem(RSA_KEY)),
        token(RSA_KEY, "RS256"),
        token(EC_KEY, "ES256", "first"),
        bearer(jwt.encode(claims(), "", "none", headers={"kid": "first"})),
        bearer("a.b.c"),
    ],
    ids=["a secret", "the public key", "no name of a key", "another kind of key", "nothing", "nonsense"],
)
async def test_what_no_key_of_the_set_signed_is_refused(filled: Any, key_server: KeyServer, header: str) -> None:
    async with serving(filled, auth="jwt", jwt_jwks_url=key_server.url) as client:
        assert await refusal(client, authorization=header) == (401, "UNAUTHENTICATED")


def connection(authorization: str) -> HTTPConnection:
    """A connection with credentials."""
    return HTTPConnection({"type": "http", "headers": [(b"authorization", authorization.encode())]})


async def test_a_key_that_is_new_in_the_set_is_found(key_server: KeyServer) -> None:
    tokens = Tokens(TokenOptions(jwks_url=key_server.url, jwks_cooldown=0))
    old, new = token(RSA_KEY, "RS256", "first"), token(EC_KEY, "ES256", "second")
    assert (await tokens.authenticate(connection(old))).scope.resource_id == "res-a"
    key_server.keys = {"second": EC_KEY}
    assert (await tokens.authenticate(connection(new))).scope.resource_id == "res-a"
    with pytest.raises(RequestError, match="not valid"):
        await tokens.authenticate(connection(old))


async def test_tokens_with_unknown_keys_do_not_trouble_the_key_server(filled: Any, key_server: KeyServer) -> None:
    async with serving(filled, auth="jwt", jwt_jwks_url=key_server.url) as client:
        for number in range(20):
            stranger = token(RSA_KEY, "RS256", f"unknown-{number}")
            assert await refusal(client, authorization=stranger) == (401, "UNAUTHENTICATED")
    assert key_server.asked == 1


@pytest.mark.parametrize("status", [500, 404, 503])
async def test_without_the_key_server_tokens_cannot_be_checked(filled: Any, key_server: KeyServer, status: int) -> None:
    good = token(RSA_KEY, "RS256", "first")
    key_server.status = status
    async with serving(filled, auth="jwt", jwt_jwks_url=key_server.url) as client:
        assert await refusal(client, authorization=good) == (503, "UNAVAILABLE")
        key_server.status = 200
        assert await visible(client, authorization=good) == "ta"


async def test_known_keys_outlive_the_key_server(filled: Any, key_server: KeyServer) -> None:
    good = token(RSA_KEY, "RS256", "first")
    async with serving(filled, auth="jwt", jwt_jwks_url=key_server.url) as client:
        assert await visible(client, authorization=good) == "ta"
        key_server.status = 500
        assert await refusal(client, authorization=token(RSA_KEY, "RS256", "unknown")) == (401, "UNAUTHENTICATED")
        assert await visible(client, authorization=good) == "ta"


async def test_a_key_server_that_is_down_is_an_outage_not_a_fault_of_the_token(filled: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/jwks"
    async with serving(filled, auth="jwt", jwt_jwks_url=url) as client:
        assert await refusal(client, authorization=token(RSA_KEY, "RS256", "first")) == (503, "UNAVAILABLE")
        assert await refusal(client, authorization="") == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\n<html>Log in</html>", b"HTTP/1.1 200 OK\r\n\r\n[]"])
async def test_a_key_server_that_talks_nonsense_is_an_outage_too(filled: Any, answer: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(answer)

    with _running(Handler) as url:
        async with serving(filled, auth="jwt", jwt_jwks_url=url) as client:
            assert await refusal(client, authorization=token(RSA_KEY, "RS256", "first")) == (503, "UNAVAILABLE")
