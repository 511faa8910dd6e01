"""What an idle server holds, and what is loaded only when it is needed."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.graph.process import running

MOST_MEGABYTES = 160
"""An idle server without an embedder; the README states it."""


def resident_megabytes(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_an_idle_server_is_small(mongodb_uri: str, tmp_path: Path) -> None:
    with running(tmp_path, mongodb_uri=mongodb_uri, database="recallql_idle") as server:
        answer = httpx.post(f"{server.base}/graphql", json={"query": "{ threads { total } }"})
        assert answer.json() == {"data": {"threads": {"total": 0}}}
        assert resident_megabytes(server.process.pid) < MOST_MEGABYTES


def test_models_and_servers_are_loaded_when_they_are_needed() -> None:
    loaded = "import sys, graph.app, graph.cli; print([name for name in HEAVY if name in sys.modules])"
    heavy = "HEAVY = ['wordllama', 'fastembed', 'onnxruntime', 'tokenizers', 'secantus', 'opentelemetry', 'motor']; "
    done = subprocess.run([sys.executable, "-c", heavy + loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
