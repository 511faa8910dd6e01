"""JSON Web Tokens: which are believed, and whose rows their bearers see; over HTTP and over WebSocket."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import jwt
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from graph.app import create_app
from graph.settings import Settings
from store.errors import InvalidArgument
from tests.graph.callers import (
    EC_KEY,
    EVERYTHING,
    OTHER_SECRET,
    QUERY,
    RSA_KEY,
    SECRET,
    bearer,
    claims,
    forged,
    pem,
    refusal,
    send,
    token,
    two_owners,
    visible,
)
from tests.graph.server import serve
from tests.zoo import serving


@pytest.fixture(scope="module")
async def filled(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Any]:
    """ta of res-a, and tb of res-b."""
    async with two_owners(mongodb_uri) as database:
        yield database


@pytest.mark.parametrize(
    ("settings", "key", "algorithm"),
    [
        ({"jwt_secret": SECRET}, SECRET, "HS256"),
        ({"jwt_public_key": pem(RSA_KEY)}, RSA_KEY, "RS256"),
        ({"jwt_public_key": pem(EC_KEY)}, EC_KEY, "ES256"),
    ],
    ids=["HS256", "RS256", "ES256"],
)
async def test_a_token_opens_the_rows_of_its_subject(
    filled: Any, settings: dict[str, Any], key: Any, algorithm: str
) -> None:
    async with serving(filled, auth="jwt", **settings) as client:
        assert await visible(client, authorization=token(key, algorithm)) == "ta"
        assert await visible(client, authorization=token(key, algorithm, sub="res-b")) == "tb"
        assert await visible(client, authorization=token(key, algorithm, sub="res-c")) == ""


EXPECTED = {"iss": "https://issuer.example", "aud": "recallql"}
NOW = int(time.time())
REFUSED = {
    "no token": "",
    "another scheme": token(**EXPECTED).replace("Bearer", "Basic"),
    "not a token": bearer("res-a"),
    "no signature": bearer(jwt.encode(claims(**EXPECTED), "", "none")),
    "another secret": token(OTHER_SECRET, **EXPECTED),
    "another algorithm": token(RSA_KEY, "RS256", **EXPECTED),
    "a stronger algorithm": token(SECRET * 2, "HS512", **EXPECTED),
    "no end": token(**EXPECTED, exp=None),
    "an end in the past": token(**EXPECTED, exp=NOW - 3600),
    "a beginning in the future": token(**EXPECTED, nbf=NOW + 3600),
    "another issuer": token(iss="https://evil.example", aud="recallql"),
    "no issuer": token(aud="recallql"),
    "another audience": token(iss=EXPECTED["iss"], aud="billing"),
    "no audience": token(iss=EXPECTED["iss"]),
    "a changed subject": ".".join(
        part if place != 1 else token(**EXPECTED, sub="res-b").split(".")[1]
        for place, part in enumerate(token(**EXPECTED).split("."))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_token_that_proves_nothing_is_refused(filled: Any, name: str) -> None:
    wanted = {"jwt_issuer": EXPECTED["iss"], "jwt_audience": EXPECTED["aud"]}
    async with serving(filled, auth="jwt", jwt_secret=SECRET, **wanted) as client:
        assert await refusal(client, authorization=REFUSED[name]) == (401, "UNAUTHENTICATED")
        assert await visible(client, authorization=token(**EXPECTED)) == "ta"


@pytest.mark.parametrize(
    ("key", "header"),
    [(RSA_KEY, token(EC_KEY, "ES256")), (EC_KEY, token(RSA_KEY, "RS256")), (EC_KEY, token(SECRET))],
    ids=["ES256 for RSA", "RS256 for EC", "HS256 for EC"],
)
async def test_a_token_of_another_kind_of_key_is_refused(filled: Any, key: Any, header: str) -> None:
    async with serving(filled, auth="jwt", jwt_public_key=pem(key)) as client:
        assert await refusal(client, authorization=header) == (401, "UNAUTHENTICATED")


async def test_a_public_key_is_no_shared_secret(filled: Any) -> None:
    for key in (RSA_KEY, EC_KEY):
        async with serving(filled, auth="jwt", jwt_public_key=pem(key)) as client:
            for text in (pem(key), pem(key).strip()):
                assert await refusal(client, authorization=forged(text)) == (401, "UNAUTHENTICATED")


async def test_a_forged_token_is_good_only_for_its_own_secret(filled: Any) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert await visible(client, authorization=forged(SECRET)) == "ta"


async def test_clocks_may_differ_by_the_leeway_only(filled: Any) -> None:
    just_over = token(exp=int(time.time()) - 60)
    async with serving(filled, auth="jwt", jwt_secret=SECRET, jwt_leeway=3600) as client:
        assert await visible(client, authorization=just_over) == "ta"
    async with serving(filled, auth="jwt", jwt_secret=SECRET, jwt_leeway=0) as client:
        response = await send(client, authorization=just_over)
        assert (response.status_code, response.json()["errors"][0]["message"]) == (401, "The token has expired.")


async def test_issuer_and_audience_do_not_matter_unless_set(filled: Any) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert await visible(client, authorization=token(iss="anybody", aud="anything")) == "ta"


@pytest.mark.parametrize("value", [None, "", "  ", "\t\n", 7, True, ["res-a"], {"id": "res-a"}])
async def test_a_token_without_a_resource_sees_no_rows(filled: Any, value: object) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET, jwt_claim="tenant") as client:
        assert await refusal(client, authorization=token(tenant=value)) == (403, "FORBIDDEN")


@pytest.mark.parametrize("subject", [None, "", "  "])
async def test_a_token_without_a_subject_sees_no_rows(filled: Any, subject: str | None) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert await refusal(client, authorization=token(sub=subject)) == (403, "FORBIDDEN")


async def test_another_claim_may_name_the_resource(filled: Any) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET, jwt_claim="tenant") as client:
        assert await visible(client, authorization=token(sub="res-a", tenant="res-b")) == "tb"


@pytest.mark.parametrize(
    "scope", ["memory:read:all", "openid memory:read:all email", ["memory:read:all"], ["openid", "memory:read:all"]]
)
@pytest.mark.parametrize("subject", ["res-a", None])
async def test_a_scope_opens_every_resource(filled: Any, scope: object, subject: str | None) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert await visible(client, authorization=token(sub=subject, scope=scope)) == EVERYTHING


@pytest.mark.parametrize("scope", ["", "memory:read", "memory:read:all2", "MEMORY:READ:ALL", {"memory:read:all": 1}, 1])
async def test_another_scope_opens_nothing_more(filled: Any, scope: object) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert await visible(client, authorization=token(scope=scope)) == "ta"


async def test_scopes_may_be_kept_in_another_claim(filled: Any) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET, jwt_scope_claim="scp") as client:
        assert await visible(client, authorization=token(scp=["memory:read:all"])) == EVERYTHING
        assert await visible(client, authorization=token(scope="memory:read:all")) == "ta"


@pytest.mark.parametrize(
    "sources",
    [
        {},
        {"jwt_secret": SECRET, "jwt_public_key": pem(RSA_KEY)},
        {"jwt_secret": SECRET, "jwt_jwks_url": "https://issuer.example/jwks"},
    ],
)
def test_tokens_are_checked_by_exactly_one_source_of_keys(sources: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="exactly one of RECALLQL_JWT_SECRET"):
        create_app(Settings(auth="jwt", **sources))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "jwks.json", "ftp://issuer.example/jwks"])
def test_a_key_set_comes_over_http(url: str) -> None:
    with pytest.raises(InvalidArgument, match="RECALLQL_JWT_JWKS_URL"):
        create_app(Settings(auth="jwt", jwt_jwks_url=url))


# Over WebSocket


PROTOCOLS = [Subprotocol("graphql-transport-ws")]


@pytest.fixture
def socket_url(filled: Any, mongodb_uri: str) -> Iterator[str]:
    """The endpoint of a running server that checks tokens."""
    settings = Settings(mongodb_uri=mongodb_uri, database=filled.name, auth="jwt", jwt_secret=SECRET, jwt_leeway=0)
    with serve(create_app(settings)) as base:
        yield base.replace("http", "ws") + "/graphql"


@contextmanager
def introduced(url: str, introduction: dict[str, Any], **headers: str) -> Iterator[ClientConnection]:
    """A connection whose client has introduced itself like this."""
    with connect(url, subprotocols=PROTOCOLS, proxy=None, additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "connection_init", "payload": introduction}))
        assert json.loads(socket.recv())["type"] == "connection_ack"
        yield socket


def ask(socket: ClientConnection) -> Any:
    """The ids of the threads that the client sees, or the code of the refusal."""
    socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": QUERY}}))
    answer = json.loads(socket.recv())
    if answer["type"] == "error":
        return answer["payload"][0]["extensions"]["code"]
    assert json.loads(socket.recv())["type"] == "complete"
    return " ".join(row["id"] for row in answer["payload"]["data"]["threads"]["threads"])


@pytest.mark.parametrize(
    ("introduction", "headers", "seen"),
    [
        ({"Authorization": token()}, {}, "ta"),
        ({"authorization": token(sub="res-b")}, {}, "tb"),
        ({}, {"Authorization": token()}, "ta"),
        ({"Authorization": token(sub="res-b")}, {"Authorization": token()}, "ta"),
        ({"Authorization": token(scope="memory:read:all")}, {}, EVERYTHING),
    ],
)
def test_handshake_or_introduction_of_a_websocket_bear_the_token(
    socket_url: str, introduction: dict[str, Any], headers: dict[str, str], seen: str
) -> None:
    with introduced(socket_url, introduction, **headers) as socket:
        assert ask(socket) == seen


@pytest.mark.parametrize(
    ("introduction", "code"),
    [
        ({}, 4401),
        ({"Authorization": token(OTHER_SECRET)}, 4401),
        ({"Authorization": token(exp=NOW - 3600)}, 4401),
        ({"Authorization": {"Bearer": "x"}}, 4401),
        ({"Authorization": token(sub=" ")}, 4403),
    ],
)
def test_a_websocket_without_a_good_token_is_closed(socket_url: str, introduction: dict[str, Any], code: int) -> None:
    with pytest.raises(ConnectionClosed) as closed, introduced(socket_url, introduction):
        pass
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code


def test_an_open_websocket_answers_no_longer_than_its_token_lives(socket_url: str) -> None:
    with introduced(socket_url, {"Authorization": token(exp=int(time.time()) + 2)}) as socket:
        answers = [ask(socket)]
        while answers[-1] == "ta" and len(answers) < 200:
            time.sleep(0.05)
            answers.append(ask(socket))
    assert answers[0] == "ta"
    assert answers[-1] == "UNAUTHENTICATED"
