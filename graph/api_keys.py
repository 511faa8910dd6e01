"""API keys: kept as hashes, compared in constant time, each for one resource or for all."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection

from graph.identity import Caller, bearer, unauthenticated
from store.errors import InvalidArgument
from store.scope import EVERYBODY, Scope

_ENTRY = re.compile(r"(?:sha256:)?([0-9a-f]{64})\s+(\S.*)")
EVERY_RESOURCE = "*"


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """The hash of a key, and the resource that it opens; `*` opens every one."""

    digest: str
    resource_id: str

    @classmethod
    def from_text(cls, line: str) -> "KeyEntry":
        """Read `sha256:<64 hex digits> <resource id or *>`. Raises InvalidArgument, without repeating the line."""
        entry = _ENTRY.fullmatch(line.strip())
        if entry is None:
            raise InvalidArgument("An entry of RECALLQL_API_KEYS must be: sha256:<64 hex digits> <resource id, or *>.")
        return cls(entry.group(1), entry.group(2))

    def to_text(self) -> str:
        """The entry as a line of the settings or of the file."""
        return f"sha256:{self.digest} {self.resource_id}"

    def to_caller(self) -> Caller:
        """Whom the key stands for."""
        scope = EVERYBODY if self.resource_id == EVERY_RESOURCE else Scope(self.resource_id)
        return Caller(f"key {self.digest[:8]}", scope)


def create_key(resource_id: str) -> tuple[str, KeyEntry]:
    """A new random key, shown once, and the entry to keep."""
    key = f"rql_{secrets.token_urlsafe(32)}"
    return key, KeyEntry(digest_of(key), resource_id)


def digest_of(key: str) -> str:
    """SHA-256 of a key: keys are long and random, so a slow hash would only slow down requests."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_entries(text: str, file: Path | None) -> list[KeyEntry]:
    """The entries of a setting and of a file, one a line (`;` also parts them); a line with `#` first is a comment.

    Raises InvalidArgument for an entry that cannot be read, OSError for a file that cannot.
    """
    lines = [*re.split(r"[\n;]", text), *(file.read_text().splitlines() if file else ())]
    wanted = (line.strip() for line in lines)
    return [KeyEntry.from_text(line) for line in wanted if line and not line.startswith("#")]


class ApiKeys:
    """Checks `Authorization: Bearer <key>` or `X-API-Key: <key>` against the entries."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        self.entries = list(entries)

    async def authenticate(self, connection: HTTPConnection) -> Caller:
        """The holder of the key. Raises RequestError (401)."""
        key = bearer(connection.headers) or connection.headers.get("x-api-key")
        if not key:
            raise unauthenticated("An API key is needed: send it as 'Authorization: Bearer <key>'.")
        digest = digest_of(key)
        # Every entry is compared, whichever matches: the time tells nothing.
        matching = [entry for entry in self.entries if hmac.compare_digest(entry.digest, digest)]
        if not matching:
            raise unauthenticated("The API key is not known.")
        return matching[0].to_caller()
