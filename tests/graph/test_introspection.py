"""What the schema tells of itself, and whether it may."""

from typing import Any

from graphql import get_introspection_query

from tests.zoo import serving

MISTAKE = "{ thraeds { total } }"


async def test_introspection_and_suggestions_are_there_by_default(plain_database: Any) -> None:
    async with serving(plain_database) as client:
        assert (await client.ask(get_introspection_query())).data["__schema"]
        assert "Did you mean 'threads'" in (await client.ask(MISTAKE)).error["message"]


async def test_without_introspection_no_name_is_told(plain_database: Any) -> None:
    async with serving(plain_database, introspection=False) as client:
        refused = await client.ask("{ __schema { types { name } } }")
        mistake = await client.ask(MISTAKE)
        data = (await client.ask("{ __typename threads { total } }")).data
        page = await client.http.get("/graphql", headers={"Accept": "text/html"})
    assert {error["extensions"]["code"] for error in refused.body["errors"]} == {mistake.code} == {"BAD_USER_INPUT"}
    assert "data" not in refused.body
    assert "threads" not in mistake.error["message"]
    assert data == {"__typename": "Query", "threads": {"total": 0}}
    assert "text/html" not in page.headers["content-type"]
