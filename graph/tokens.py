"""JSON Web Tokens: checked by PyJWT against a shared secret, a public key, or a key set that is fetched and cached."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import jwt
from starlette.requests import HTTPConnection

from graph.errors import ErrorCode
from graph.identity import READ_ALL, Caller, bearer, unauthenticated, without_owner
from graph.request import RequestError
from store.errors import InvalidArgument
from store.scope import EVERYBODY, Scope

log = logging.getLogger("recallql.graph")

SYMMETRIC = ("HS256",)
ASYMMETRIC = ("RS256", "ES256")
_FETCH_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """How tokens are checked: by exactly one of `secret`, `public_key` (PEM) and `jwks_url`.

    `issuer` and `audience` must match where they are set. `leeway` is in seconds. `claim` names the resource,
    `scope_claim` the scopes, of which `memory:read:all` opens every resource.
    """

    secret: str | None = field(default=None, repr=False)
    public_key: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    audience: str | None = None
    leeway: float = 30.0
    claim: str = "sub"
    scope_claim: str = "scope"
    jwks_cooldown: float = 10.0


class Tokens:
    """Checks `Authorization: Bearer <token>`."""

    def __init__(self, options: TokenOptions) -> None:
        """Raises InvalidArgument unless exactly one source of keys is given."""
        sources = [options.secret, options.public_key, options.jwks_url]
        if sum(source is not None for source in sources) != 1:
            raise InvalidArgument(
                "RECALLQL_AUTH=jwt needs exactly one of RECALLQL_JWT_SECRET, RECALLQL_JWT_PUBLIC_KEY and "
                "RECALLQL_JWT_JWKS_URL."
            )
        self.options = options
        # The algorithms follow from the kind of key, never from the token: a public key is no shared secret.
        self.algorithms = SYMMETRIC if options.secret is not None else ASYMMETRIC
        self._key_set = _key_set(options)

    async def authenticate(self, connection: HTTPConnection) -> Caller:
        """The bearer of the token. Raises RequestError: 401 for a bad token, 403 for one without a resource."""
        token = bearer(connection.headers)
        if token is None:
            raise unauthenticated("A token is needed: send it as 'Authorization: Bearer <token>'.")
        return self._to_caller(await self._claims(token))

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            key = await self._key(token)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(self.algorithms),
                issuer=self.options.issuer,
                audience=self.options.audience,
                leeway=self.options.leeway,
                options={"require": ["exp"], "verify_aud": self.options.audience is not None},
            )
            return claims
        except jwt.ExpiredSignatureError:
            raise unauthenticated("The token has expired.") from None
        except (jwt.PyJWTError, TypeError, ValueError, AttributeError) as error:
            # A key of another kind than the token's algorithm wants fails in the depths of its library.
            log.info("A token was refused: %s", error)
            raise unauthenticated("The token is not valid.") from None

    async def _key(self, token: str) -> Any:
        if self._key_set is None:
            return self.options.secret or self.options.public_key
        kid = str(jwt.get_unverified_header(token).get("kid", ""))
        try:
            await asyncio.to_thread(self._key_set.get_jwk_set)
        except Exception as error:
            # Whatever a key server says instead of keys: no token can be checked, which is nobody's mistake.
            log.warning("The key set cannot be read: %s", error)
            raise RequestError(503, "Tokens cannot be checked at the moment.", ErrorCode.UNAVAILABLE) from error
        return (await asyncio.to_thread(self._key_set.get_signing_key, kid)).key

    def _to_caller(self, claims: dict[str, Any]) -> Caller:
        resource_id = claims.get(self.options.claim)
        name = f"token of {claims.get('sub', '?')}"
        if READ_ALL in _scopes(claims.get(self.options.scope_claim)):
            return Caller(name, EVERYBODY)
        if not isinstance(resource_id, str) or not resource_id.strip():
            raise without_owner()
        return Caller(name, Scope(resource_id))


def _key_set(options: TokenOptions) -> jwt.PyJWKClient | None:
    """Keys are fetched once in five minutes, and again when a token names an unknown one, within the cool-down."""
    if options.jwks_url is None:
        return None
    try:
        return jwt.PyJWKClient(options.jwks_url, timeout=_FETCH_SECONDS, cooldown_duration=options.jwks_cooldown)
    except jwt.PyJWTError as error:
        raise InvalidArgument(f"RECALLQL_JWT_JWKS_URL: {error}") from None


def _scopes(claim: object) -> set[str]:
    """Scopes as OAuth writes them (one text, parted by spaces), or as a list."""
    if isinstance(claim, str):
        return set(claim.split())
    return {scope for scope in claim if isinstance(scope, str)} if isinstance(claim, list) else set()
