"""Whether the server's memory stays flat over many requests, most of which it has never seen before.

Run: python bench/memory.py [REQUESTS]

Sends the usual operations under ever new names and aliases, requests that are refused, and, because the embedded
database is slow, mostly requests that need none. Prints the resident memory after every tenth of them. The exit code is
1 if it grew by more than a tenth over the second half.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from bench.workload import OPERATIONS, fill, send
from store.embedded import EmbeddedServer
from tests.graph.process import ServerProcess, running

CLIENTS = 8
STEPS = 10
WITHOUT_DATABASE = (
    "{ nonsense%d }",
    "{ threads(perPage: -%d) { total } }",
    "{ a%d: threads(perPage: 9999999) { total } }",
    "{ a%d: ",
    "query Name%d { __typename }",
    '{ a%d: __type(name: "Thread") { fields { name } } }',
)


def query(number: int) -> str:
    """The request with this number; no two are the same."""
    if number % 10:
        return WITHOUT_DATABASE[number % len(WITHOUT_DATABASE)] % number
    usual = list(OPERATIONS.values())
    return f"query Name{number} " + usual[number // 10 % len(usual)].replace("{ ", f"{{ a{number}: __typename ", 1)


def megabytes(server: ServerProcess) -> float:
    """The resident memory of the server."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def send_all(base: str, asked: Iterable[str]) -> None:
    """Send the queries by a few clients at once."""
    remaining = iter(asked)

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=base, timeout=60) as client:
            for query in remaining:
                await send(client, query)

    await asyncio.gather(*(ask() for _ in range(CLIENTS)))


def main() -> int:
    """Prints the memory, step by step."""
    step = (int(sys.argv[1]) if len(sys.argv) > 1 else 20_000) // STEPS
    held = []
    with EmbeddedServer() as uri, TemporaryDirectory() as folder:
        asyncio.run(fill(uri))
        with running(Path(folder), mongodb_uri=uri, embedder="toy", log_level="warning") as server:
            print(f"{0:>7} requests {megabytes(server):>8.1f} MB")
            for number in range(STEPS):
                asyncio.run(send_all(server.base, map(query, range(number * step, (number + 1) * step))))
                held.append(megabytes(server))
                print(f"{(number + 1) * step:>7} requests {held[-1]:>8.1f} MB", flush=True)
    growth = held[-1] / held[STEPS // 2 - 1] - 1
    print(f"growth over the second half: {growth:+.1%}")
    return int(growth > 0.1)


if __name__ == "__main__":
    sys.exit(main())
