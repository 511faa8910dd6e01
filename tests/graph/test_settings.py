"""Settings that cannot be meant are refused when the service starts, by their names."""

import pytest
from pydantic import ValidationError

from graph.settings import Settings


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a/b", "a$b", "a\\b", 'a"b', "a\0b", "x" * 64])
def test_a_name_that_no_database_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="database"):
        Settings(database=name)


@pytest.mark.parametrize("name", ["mastra", "my-memory_2", "prod", "x" * 63, "größe"])
def test_every_other_name_is_taken(name: str) -> None:
    assert Settings(database=name).database == name
