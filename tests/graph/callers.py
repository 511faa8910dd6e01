"""Callers with keys and tokens, and the rows of two owners for them to see."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pymongo import AsyncMongoClient

from tests.zoo import Client, fill, message, thread

SECRET = "a shared secret of more than 32 bytes"
OTHER_SECRET = "another secret, of more than 32 bytes"
EVERYTHING = "ta tb"
QUERY = "{ threads(orderBy: {direction: ASC}) { threads { id } total } }"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


@asynccontextmanager
async def two_owners(uri: str) -> AsyncIterator[Any]:
    """A database with a thread and a message for each of two owners: ta of res-a, tb of res-b. It is only read."""
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        database = client[f"recallql_owners_{secrets.token_hex(4)}"]
        await fill(
            database,
            threads=[thread("ta", "res-a"), thread("tb", "res-b")],
            messages=[message("ma", "ta"), message("mb", "tb", resourceId="res-b")],
        )
        try:
            yield database
        finally:
            await client.drop_database(database.name)


async def send(client: Client, **headers: str) -> httpx.Response:
    """Ask for every thread; underscores in the names of headers stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.http.post("/graphql", json={"query": QUERY}, headers=named)


async def visible(client: Client, **headers: str) -> str:
    """The ids of the threads that the caller sees."""
    body = (await send(client, **headers)).json()
    assert "errors" not in body, body
    threads = body["data"]["threads"]
    assert threads["total"] == len(threads["threads"])
    return " ".join(row["id"] for row in threads["threads"])


async def refusal(client: Client, **headers: str) -> tuple[int, str]:
    """Status and code of a refusal that tells nothing else."""
    response = await send(client, **headers)
    assert list(response.json()) == ["errors"]
    (error,) = response.json()["errors"]
    assert (response.status_code == 401) == ("WWW-Authenticate" in response.headers)
    return response.status_code, error["extensions"]["code"]


def bearer(credentials: str) -> str:
    """The value of `Authorization`."""
    return f"Bearer {credentials}"


def pem(key: PrivateKey) -> str:
    """The public half of a key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def claims(**given: Any) -> dict[str, Any]:
    """Claims of a good token of res-a; those given replace them, None takes one away."""
    made = {"sub": "res-a", "exp": int(time.time()) + 3600, **given}
    return {name: value for name, value in made.items() if value is not None}


def token(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **given: Any) -> str:
    """The value of `Authorization` for a token with these claims."""
    return bearer(jwt.encode(claims(**given), key, algorithm, headers={"kid": kid} if kid else None))


def forged(secret: str) -> str:
    """A token of res-a signed by HS256 with any text, also one that libraries refuse to sign with."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims())]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(secret.encode(), signed, hashlib.sha256)).rstrip(b"=")
    return bearer((signed + b"." + signature).decode())
