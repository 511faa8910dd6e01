"""The README says what the code does: settings, error codes, commands, and the answer of its query."""

import json
import re
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from graph.cli import app
from graph.errors import ErrorCode
from graph.settings import Settings
from tests.zoo import load_sample, serving

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- settings -->\n", "<!-- /settings -->"


def settings_table() -> str:
    """The table of all settings, as the README must hold it."""
    rows = [f"| `{name.upper()}` | {_default(field)} | {field.description} |" for name, field in _fields()]
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _fields() -> list[tuple[str, FieldInfo]]:
    return list(Settings.model_fields.items())


def _default(field: FieldInfo) -> str:
    value = field.default
    return "" if value in (None, "") else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def test_every_setting_is_documented_with_its_default() -> None:
    assert between(README.read_text(), START, END) == settings_table()
    assert all(field.description for _, field in _fields())


def test_every_error_code_is_documented() -> None:
    documented = re.findall(
        r"^\| `([A-Z_]+)` \|", between(README.read_text(), "## Errors", "## Settings"), re.MULTILINE
    )
    assert documented == [code.value for code in ErrorCode]


def test_every_command_is_documented() -> None:
    section = between(README.read_text(), "## Command line", "## Who may see what")
    documented = set(re.findall(r"^\| `recallql (\w+)", section, re.MULTILINE))
    assert documented == {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }


async def test_the_query_of_the_readme_gives_its_answer(plain_database: Any) -> None:
    text = README.read_text()
    query = json.loads(between(text, "-d '", "'\n```").replace("\n", ""))["query"]
    await load_sample(plain_database)
    async with serving(plain_database) as client:
        answer = await client.ask(query)
    assert answer.body == json.loads(between(text, "<!-- answer -->\n```json\n", "```"))
