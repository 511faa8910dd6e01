"""Who is calling: nobody in particular, the holder of a key, or the bearer of a token; and whose rows they may see."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import HTTPConnection

from graph.errors import ErrorCode
from graph.request import RequestError
from store.scope import EVERYBODY, Scope

READ_ALL = "memory:read:all"
"""The scope of a token, or `*` for a key, that lifts the limitation to one resource."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An identity that was checked: the name for the log, and the rows it may see."""

    name: str
    scope: Scope


ANYBODY = Caller("anybody", EVERYBODY)


class Authenticator(Protocol):
    """Checks the credentials of a connection."""

    async def authenticate(self, connection: HTTPConnection) -> Caller:
        """The caller. Raises RequestError: 401 for missing or wrong credentials, 403 for those without an owner."""


class NoAuthentication:
    """Everybody may see everything: for a machine of one's own, or behind a gateway that checks."""

    async def authenticate(self, connection: HTTPConnection) -> Caller:
        """Anybody."""
        return ANYBODY


def bearer(headers: Mapping[str, str]) -> str | None:
    """The credentials in `Authorization: Bearer …`, if any."""
    kind, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() or None if kind.lower() == "bearer" else None


def unauthenticated(message: str) -> RequestError:
    """Refuse a caller who did not prove an identity; the message never repeats what was sent."""
    return RequestError(401, message, ErrorCode.UNAUTHENTICATED, {"WWW-Authenticate": 'Bearer realm="recallql"'})


def without_owner() -> RequestError:
    """Refuse a caller whose identity names no resource."""
    return RequestError(403, "These credentials name no resource whose memory may be read.", ErrorCode.FORBIDDEN)
