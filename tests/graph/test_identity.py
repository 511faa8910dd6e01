"""Who is calling, and whose rows they see: nobody in particular, and the holders of API keys."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graph.api_keys import KeyEntry, create_key, digest_of, read_entries
from graph.app import create_app
from graph.settings import Settings
from store.errors import InvalidArgument
from tests.graph.callers import EVERYTHING, QUERY, SECRET, bearer, refusal, send, two_owners, visible
from tests.zoo import Client, serving


@pytest.fixture(scope="module")
async def filled(anyio_backend: str, mongodb_uri: str) -> AsyncIterator[Any]:
    """ta of res-a, and tb of res-b."""
    async with two_owners(mongodb_uri) as database:
        yield database


# Nobody in particular


async def test_without_authentication_everybody_sees_everything(filled: Any) -> None:
    async with serving(filled) as client:
        assert await visible(client) == EVERYTHING
        assert await visible(client, authorization=bearer("whatever")) == EVERYTHING


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_an_orchestrator_needs_no_credentials(filled: Any, path: str) -> None:
    async with serving(filled, auth="jwt", jwt_secret=SECRET) as client:
        assert (await client.http.get(path)).status_code == 200


# API keys


@dataclass(frozen=True)
class Keys:
    """A client of an application that knows three keys: of res-a, of res-b, and for everything."""

    client: Client
    a: str
    b: str
    every: str


@pytest.fixture
async def keys(filled: Any) -> AsyncIterator[Keys]:
    """The application with keys in its settings."""
    made = [create_key(resource) for resource in ("res-a", "res-b", "*")]
    text = "; ".join(entry.to_text() for _, entry in made)
    async with serving(filled, auth="api-key", api_keys=text) as client:
        yield Keys(client, *(key for key, _ in made))


async def test_a_key_opens_the_rows_of_its_resource(keys: Keys) -> None:
    assert await visible(keys.client, authorization=bearer(keys.a)) == "ta"
    assert await visible(keys.client, authorization=bearer(keys.b)) == "tb"
    assert await visible(keys.client, authorization=bearer(keys.every)) == EVERYTHING


async def test_a_key_may_come_in_a_header_of_its_own(keys: Keys) -> None:
    assert await visible(keys.client, x_api_key=keys.b) == "tb"


async def test_the_scheme_is_spelt_in_any_case(keys: Keys) -> None:
    assert await visible(keys.client, authorization=f"bEARER   {keys.a}") == "ta"


@pytest.mark.parametrize(
    "query", ['{ threads(filter: {resourceId: "res-b"}) { total } }', '{ thread(id: "tb") { id } }']
)
async def test_naming_another_owner_opens_nothing(keys: Keys, query: str) -> None:
    response = await keys.client.http.post("/graphql", json={"query": query}, headers={"X-API-Key": keys.a})
    assert response.json()["data"] in ({"threads": {"total": 0}}, {"thread": None})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic cmVzLWE6"},
        {"authorization": "Bearer rql_unknown"},
        {"x_api_key": "rql_unknown"},
        {"x_api_key": ""},
        {"x_api_key": "*"},
    ],
)
async def test_without_a_known_key_nothing_is_answered(keys: Keys, headers: dict[str, str]) -> None:
    assert await refusal(keys.client, **headers) == (401, "UNAUTHENTICATED")


async def test_the_hash_of_a_key_is_no_key(keys: Keys) -> None:
    assert await refusal(keys.client, x_api_key=digest_of(keys.a)) == (401, "UNAUTHENTICATED")


async def test_a_refusal_names_the_scheme_and_repeats_nothing(keys: Keys) -> None:
    response = await send(keys.client, x_api_key="rql_wrong")
    assert response.headers["WWW-Authenticate"].startswith("Bearer ")
    assert "rql_wrong" not in response.text


async def test_queries_by_get_need_a_key_too(keys: Keys) -> None:
    response = await keys.client.http.get("/graphql", params={"query": QUERY})
    assert response.status_code == 401


async def test_keys_are_read_from_a_file(filled: Any, tmp_path: Path) -> None:
    (key_a, entry_a), (key_b, entry_b) = create_key("res-a"), create_key("res-b")
    file = tmp_path / "keys"
    file.write_text(f"# of the dashboard\n\n{entry_a.to_text()}\n# until spring\n")
    async with serving(filled, auth="api-key", api_keys_file=file, api_keys=entry_b.to_text()) as client:
        assert await visible(client, x_api_key=key_a) == "ta"
        assert await visible(client, x_api_key=key_b) == "tb"


@pytest.mark.parametrize(
    "entry",
    [
        "rql_the_key_itself res-a",
        "sha256:beef res-a",
        f"sha256:{'g' * 64} res-a",
        f"md5:{'0' * 32} res-a",
        f"sha256:{'0' * 64}",
        f"{'0' * 64}res-a",
    ],
)
def test_a_malformed_entry_is_refused_at_start_and_never_repeated(entry: str) -> None:
    with pytest.raises(InvalidArgument, match="RECALLQL_API_KEYS") as refused:
        create_app(Settings(auth="api-key", api_keys=entry))
    assert not any(word in str(refused.value) for word in entry.split())


def test_a_malformed_entry_of_a_file_is_refused_at_start(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("rql_the_key_itself res-a")
    with pytest.raises(InvalidArgument, match="sha256:<64 hex digits>") as refused:
        create_app(Settings(auth="api-key", api_keys_file=file))
    assert "rql_the_key_itself" not in str(refused.value)


@pytest.mark.parametrize("text", [None, "", " ; \n", "# nothing"])
def test_authentication_by_keys_needs_keys(text: str | None) -> None:
    with pytest.raises(InvalidArgument, match="RECALLQL_API_KEYS_FILE"):
        create_app(Settings(auth="api-key", api_keys=text))


@pytest.mark.parametrize("resource_id", ["res-a", "Ann Lee", "user@example.com", "tenant#7", "a;b", "x # y", "Ünïcode"])
def test_an_entry_that_is_made_opens_the_very_resource_it_was_made_for(resource_id: str) -> None:
    _, made = create_key(resource_id)
    try:
        read = read_entries(made.to_text(), None)
    except InvalidArgument:
        return
    assert read == [KeyEntry(made.digest, resource_id)]


def test_every_key_is_another_one_and_hard_to_guess() -> None:
    made = {create_key("res-a")[0] for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) > 40
