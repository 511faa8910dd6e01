"""The server as its operator starts it: `recallql serve` in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

STARTUP_SECONDS = 60
RECALLQL = Path(sys.executable).with_name("recallql")


@dataclass(frozen=True)
class ServerProcess:
    """A running server, and the files that hold what it says."""

    base: str
    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path

    @property
    def said(self) -> str:
        """Everything it said so far, on standard output and standard error."""
        return self.out.read_text() + self.err.read_text()

    def terminate(self) -> int:
        """Send SIGTERM and wait; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STARTUP_SECONDS)


def environment(**settings: object) -> dict[str, str]:
    """The environment with these settings and no others of RecallQL."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("RECALLQL_")}
    return others | {f"RECALLQL_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def running(folder: Path, **settings: object) -> Iterator[ServerProcess]:
    """A server with these settings on a free port, until the block ends; what it says goes into files of `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [RECALLQL, "serve"], env=environment(port=port, **settings), stdout=stdout, stderr=stderr
        )
    server = ServerProcess(f"http://127.0.0.1:{port}", process, out, err)
    try:
        _wait_until_alive(server)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait_until_alive(server: ServerProcess) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(f"{server.base}/health", headers={"X-Request-ID": "startup"}).raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"The server did not start: {server.said}")
