"""Who sends a request: to the application within this process, to a server over HTTP, or past both of them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
import orjson
from starlette.types import ASGIApp, Message

from bench.queries import Workload
from store.driver import Database
from tests.graph.process import RECALLQL, STARTUP_SECONDS, environment

SERVE = (str(RECALLQL), "serve")
SERVE_STOCK = (sys.executable, "-m", "bench.stock")


class Caller(Protocol):
    """Sends a workload and waits for the whole answer."""

    async def ask(self, workload: Workload) -> bytes:
        """The body of the answer. Raises RuntimeError for an answer with errors."""

    def cpu(self) -> float:
        """Seconds of CPU that the answering process has used so far, all its threads together."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """Calls the application as a server does, without a server; `within` surrounds each request."""

    app: ASGIApp
    within: Callable[[], AbstractContextManager[None]] = nullcontext

    async def ask(self, workload: Workload) -> bytes:
        """The body of the answer. Raises RuntimeError for an answer with errors."""
        with self.within():
            return checked(await call(self.app, workload.body), workload)

    def cpu(self) -> float:
        """Seconds of CPU of this process."""
        return time.process_time()


async def call(app: ASGIApp, body: bytes) -> bytes:
    """Send one POST request to an application, by the least that ASGI asks for."""
    headers = [(b"content-type", b"application/json"), (b"accept", b"application/json"), (b"host", b"bench")]
    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"}
    scope |= {"scheme": "http", "path": "/graphql", "raw_path": b"/graphql", "query_string": b"", "root_path": ""}
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    parts: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return b"".join(parts)


def checked(body: bytes, workload: Workload) -> bytes:
    """The body, if it holds no errors."""
    if body.startswith(b'{"errors"') or b'"errors":[{"message"' in body[-2000:]:
        raise RuntimeError(f"{workload.name}: {body[:300]!r}")
    return body


@dataclass(frozen=True, slots=True)
class OverHTTP:
    """Sends requests to a server over one kept connection."""

    client: httpx.AsyncClient
    pid: int

    async def ask(self, workload: Workload) -> bytes:
        """The body of the answer. Raises RuntimeError for an answer with errors."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        response = await self.client.post("/graphql", content=workload.body, headers=headers)
        return checked(response.content, workload)

    def cpu(self) -> float:
        """Seconds of CPU of the server, to the nanosecond on Linux; elsewhere they are not known: 0."""
        if sys.platform != "linux":
            return 0.0
        # The kernel's number of the clock that counts the CPU time of another process (clock_getcpuclockid).
        return time.clock_gettime((~self.pid << 3) | 2)


@dataclass(frozen=True, slots=True)
class WholeThread:
    """What a filter costs without one: every message of the thread is loaded, parsed and looked at."""

    database: Database
    codec: Callable[[str], Any] = field(default=orjson.loads)

    async def ask(self, workload: Workload) -> bytes:
        """The ids of the matches, newest first."""
        thread = workload.variables["threadId"]
        rows = await self.database.mastra_messages.find({"thread_id": thread}).sort("createdAt", -1).to_list(None)
        for row in rows:
            row["content"] = self.codec(row["content"]) if isinstance(row["content"], str) else row["content"]
        return orjson.dumps([row["id"] for row in rows if row["content"]["metadata"]["topic"] == workload.topic][:40])

    def cpu(self) -> float:
        """Seconds of CPU of this process."""
        return time.process_time()


@contextmanager
def serving(command: tuple[str, ...], folder: Path, port: int, **settings: object) -> Iterator[int]:
    """A server in a process of its own, until the block ends; gives its process id. Raises RuntimeError."""
    log = folder / f"server-{port}.log"
    with log.open("wb") as output:
        variables = environment(port=port, log_level="warning", **settings)
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        _wait_until_alive(process, port, log)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _wait_until_alive(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(f"http://127.0.0.1:{port}/health").raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"The server did not start: {log.read_text()}")
