"""The examples run against a real server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graph.app import create_app
from graph.settings import Settings
from tests.graph.server import serve
from tests.zoo import load_sample

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
async def address(plain_database: Any, mongodb_uri: str) -> Any:
    """A server over the sample conversations."""
    await load_sample(plain_database)
    app = create_app(Settings(mongodb_uri=mongodb_uri, database=plain_database.name))
    with serve(app) as base:
        yield f"{base}/graphql"


def run(*command: str) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("example", ["bff.py", "bff.mjs"])
async def test_the_example_gives_messages_of_the_ai_sdk(address: str, example: str) -> None:
    program = sys.executable if example.endswith(".py") else shutil.which("node")
    assert program is not None, "node is needed for this example"
    chat = run(program, str(EXAMPLES / example), address)
    assert chat["total"] == 16
    assert [message["uiMessage"]["id"] for message in chat["transcript"]] == ["parcel-15", "parcel-16"]
