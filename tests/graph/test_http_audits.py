"""The audits of the `graphql-http` package, run by Node against a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TypedDict

import pytest
from pydantic import SecretStr

from graph.app import create_app
from graph.settings import Settings
from tests.graph.server import serve
from tests.graph.tiny import make_app

AUDITS = Path(__file__).with_name("audits")

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None and "CI" not in os.environ, reason="the audits need Node and npm"
)


class Audit(TypedDict):
    """One audit: `status` is "ok", "notice" (a MAY), "warn" (a SHOULD) or "error" (a MUST)."""

    id: str
    name: str
    status: str
    reason: str | None


def run(*command: str) -> str:
    """What a command prints, run among the audits."""
    return subprocess.run(command, cwd=AUDITS, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=["tiny schema", "RecallQL"])
def audits(request: pytest.FixtureRequest, mongodb_uri: str) -> list[Audit]:
    """The result of every audit; the packages are installed once and kept."""
    if not (AUDITS / "node_modules" / ".package-lock.json").exists():
        run("npm", "ci")
    recallql = create_app(Settings(mongodb_uri=SecretStr(mongodb_uri), database="recallql_audited"))
    with serve(recallql if request.param == "RecallQL" else make_app()) as url:
        results: list[Audit] = json.loads(run("node", "audit.mjs", f"{url}/graphql"))
    return results


def test_every_audit_passes(audits: list[Audit]) -> None:
    assert [audit for audit in audits if audit["status"] != "ok"] == []


def test_no_audit_is_left_out(audits: list[Audit]) -> None:
    assert len({audit["id"] for audit in audits}) == 61
