"""Measures what a request costs, in this process and over HTTP, beside the stock executor.

Run: python -m bench [--quick] [--only WORDS] [--rounds N] [--json FILE]

The database is the one of RECALLQL_MONGODB_URI, else an embedded server; README.md beside this file says what is
loaded into it and how the figures are to be read.
"""

import argparse
import asyncio
import gc
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvloop
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from starlette.applications import Starlette

from bench.callers import SERVE, SERVE_STOCK, Caller, InProcess, OverHTTP, WholeThread, serving
from bench.measuring import Sampling, measure
from bench.queries import Workload, workloads
from bench.results import HEADER, HERE, STOCK, WHOLE, Result
from bench.rows import DIMENSIONS, FULL, QUICK, load
from bench.stock import create_stock_app, stock_encoder
from bench.traffic import Traffic, TrafficCounter
from graph.app import create_app

# Private to the server; the bench measures what is served.
from graph.serving import calm_garbage_collector as calm_garbage_collector
from graph.settings import Settings
from store.driver import Database
from store.embedded import embedded_server

OPTIONS: dict[str, Any] = {
    "embedder": "toy",
    "embedder_dimensions": DIMENSIONS,
    "vector_engine": "exact",
    # The embedded database is slow, which is not what is to be found out.
    "database_timeout": 120,
    "request_timeout": 120,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A database for the length of a run."""

    uri: str
    name: str

    def settings(self, **options: Any) -> Settings:
        """The settings of an application over it."""
        return Settings(**OPTIONS | options | {"mongodb_uri": SecretStr(self.uri), "database": self.name})


@asynccontextmanager
async def new_place() -> AsyncIterator[Place]:
    """A new database on the server that RECALLQL_MONGODB_URI names, else on an embedded one; dropped in the end."""
    async with AsyncExitStack() as stack:
        uri = os.environ.get("RECALLQL_MONGODB_URI", "")
        if not uri:
            uri = await stack.enter_async_context(embedded_server(None))
        place = Place(uri, f"recallql_bench_{secrets.token_hex(4)}")
        client: AsyncMongoClient[Any] = await stack.enter_async_context(AsyncMongoClient(uri))
        stack.push_async_callback(client.drop_database, place.name)
        yield place


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[Starlette]:
    """An application between its start and its end."""
    async with app.router.lifespan_context(app):
        yield app


@dataclass(frozen=True, slots=True)
class Counted:
    """Callers whose every command is counted, to be asked once and not measured."""

    counter: TrafficCounter
    here: Caller
    whole: Caller

    async def count(self, workload: Workload, caller: Caller) -> tuple[Traffic, int]:
        """What one request costs the database once everything is warm, and the bytes of its answer."""
        await caller.ask(workload)
        self.counter.reset()
        answer = await caller.ask(workload)
        return self.counter.traffic, len(answer)


@asynccontextmanager
async def counting(place: Place, *, is_cold: bool) -> AsyncIterator[Counted]:
    """An application whose driver tells of every command."""
    counter = TrafficCounter()
    async with AsyncMongoClient[Any](place.uri, event_listeners=[counter]) as client:
        database: Database = client[place.name]
        app = create_app(place.settings(vector_cache_bytes=0 if is_cold else 2**29), database=database)
        async with running(app):
            yield Counted(counter, InProcess(app), WholeThread(database))


async def measure_in_process(place: Place, asked: Iterable[Workload], sampling: Sampling) -> list[Result]:
    """Calls the application directly: what is measured is our process alone."""
    results = []
    print(f"\nIn process\n{HEADER}")
    for workload in asked:
        results.append(await _in_process(place, workload, sampling))
        print(*results[-1].lines(), sep="\n", flush=True)
    return results


async def _in_process(place: Place, workload: Workload, sampling: Sampling) -> Result:
    settings = place.settings(vector_cache_bytes=0 if workload.is_cold else 2**29)
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(running(create_app(settings)))
        stock = await stack.enter_async_context(running(create_stock_app(settings)))
        client: AsyncMongoClient[Any] = await stack.enter_async_context(AsyncMongoClient(place.uri))
        callers: dict[str, Caller] = {HERE: InProcess(here), STOCK: InProcess(stock, stock_encoder)}
        if workload.topic:
            callers[WHOLE] = WholeThread(client[place.name])
        gc.collect()
        samples = await measure(workload, callers, sampling)
    async with counting(place, is_cold=workload.is_cold) as counted:
        traffic, size = await counted.count(workload, counted.here)
        whole = (await counted.count(workload, counted.whole))[0] if workload.topic else None
    return Result(workload.name, "in process", samples, size, traffic, whole)


async def measure_over_http(place: Place, asked: Iterable[Workload], sampling: Sampling) -> list[Result]:
    """Starts `recallql serve` and the same without what was made faster, and asks both."""
    results = []
    print(f"\nOver HTTP, the CPU being the server's\n{HEADER}")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        options = OPTIONS | {"mongodb_uri": place.uri, "database": place.name}
        callers: dict[str, Caller] = {}
        for name, command in ((HERE, SERVE), (STOCK, SERVE_STOCK)):
            port = free_port()
            pid = stack.enter_context(serving(command, folder, port, **options))
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120)
            callers[name] = OverHTTP(await stack.enter_async_context(client), pid)
        for workload in asked:
            size = len(await callers[HERE].ask(workload))
            results.append(Result(workload.name, "HTTP", await measure(workload, callers, sampling), size))
            print(*results[-1].lines(), sep="\n", flush=True)
    return results


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


async def run(arguments: argparse.Namespace) -> list[Result]:
    """Load, measure, print."""
    size, sampling = (QUICK, Sampling(15, 2)) if arguments.quick else (FULL, Sampling(40, 8))
    sampling = Sampling(arguments.rounds or sampling.rounds, sampling.seconds)
    asked = [workload for workload in workloads(size) if arguments.only in workload.name]
    async with new_place() as place:
        print(f"Loading {size} …", flush=True)
        async with AsyncMongoClient[Any](place.uri) as client:
            await load(client[place.name], size)
        calm_garbage_collector()
        results = await measure_in_process(place, asked, sampling)
        return results + await measure_over_http(place, [each for each in asked if not each.is_cold], sampling)


def main() -> None:
    """Prints the tables; with `--json` the figures are written to a file as well."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows, and fewer rounds")
    parser.add_argument("--only", default="", metavar="WORDS", help="workloads whose name holds these words")
    parser.add_argument("--rounds", type=int, metavar="N", help="the most requests of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        results = runner.run(run(arguments))
    if arguments.json:
        arguments.json.write_text(json.dumps([result.to_json() for result in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
