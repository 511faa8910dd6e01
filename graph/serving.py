"""Running the server: over a named database, or over an embedded one with sample conversations."""

import asyncio
import gc
import sys
from pathlib import Path
from socket import socket

import uvicorn
from pydantic import SecretStr
from rich.console import Console

import store
from graph.app import create_app
from graph.embed_command import fill_with_progress
from graph.logs import configure_logs
from graph.settings import Settings
from store.collections import MESSAGES, RESOURCES, THREADS
from store.driver import Database, connect
from store.embedded import EmbeddedServer
from store.embedders.choosing import create_embedder
from store.errors import InvalidArgument
from store.importing import import_documents
from store.indexes import create_indexes

SAMPLE = Path(store.__file__).with_name("sample")
SAMPLE_FILES = {THREADS: "threads.jsonl", MESSAGES: "messages.jsonl", RESOURCES: "resources.jsonl"}

_LOADED = "recallql_sample"
"""Holds a row once the sample is there as a whole."""
_QUERY = '{ recall(threadId: "thread-parcel", perPage: 3) { transcript { role text } total } }'

console = Console()


def serve_database(settings: Settings) -> None:
    """Serve the database that the settings name, until a signal ends it. Raises InvalidArgument without one."""
    if settings.mongodb_uri is None:
        raise InvalidArgument("No database is named: set RECALLQL_MONGODB_URI, or try the sample with: recallql demo")
    _serve(settings, is_sample=False)


def serve_demo(settings: Settings) -> None:
    """Serve the named database, or else an embedded server that starts with sample conversations."""
    if settings.mongodb_uri is not None:
        serve_database(settings)
        return
    with EmbeddedServer(settings.data_dir) as uri:
        embedded = for_sample(settings, uri)
        asyncio.run(load_sample(embedded, uri))
        _serve(embedded, is_sample=True)


def for_sample(settings: Settings, uri: str) -> Settings:
    """The settings of the embedded start: its server, and the embedder that works offline unless one is named."""
    embedder = settings.embedder or "wordllama"
    return settings.model_copy(update={"mongodb_uri": SecretStr(uri), "create_indexes": True, "embedder": embedder})


async def load_sample(settings: Settings, uri: str) -> None:
    """Load the sample at the first start, and again if that was interrupted; what is there already is kept."""
    async with connect(uri, timeout=settings.database_timeout) as client:
        database = client[settings.database]
        if await database[_LOADED].find_one():
            return
        with console.status("Loading the sample conversations …"):
            for collection, file in SAMPLE_FILES.items():
                await import_documents(database[collection], [SAMPLE / file])
            await create_indexes(database)
        await _embed_sample(database, settings)
        await database[_LOADED].insert_one({"_id": "sample"})


async def _embed_sample(database: Database, settings: Settings) -> None:
    """Fill the vectors, so that search by meaning works at once. Raises FillFailed."""
    assert settings.embedder_options is not None
    embedder = create_embedder(settings.embedder_options)
    try:
        await fill_with_progress(database, embedder)
    finally:
        await embedder.aclose()


def _announce(settings: Settings, port: int, *, is_sample: bool) -> None:
    address = f"http://{settings.host}:{port}/graphql"
    console.print(f"[bold]RecallQL[/] serves {address}: open it in a browser for GraphiQL.", soft_wrap=True)
    if is_sample:
        console.print("Try:", _QUERY, markup=False, highlight=False, soft_wrap=True)
    if settings.host in ("127.0.0.1", "localhost", "::1"):
        console.print(
            "Nobody has to log in, so only this machine is served (RECALLQL_HOST).", highlight=False, soft_wrap=True
        )


class _Server(uvicorn.Server):
    """A server that says where it is once it can be reached."""

    def __init__(self, config: uvicorn.Config, settings: Settings, is_sample: bool) -> None:
        super().__init__(config)
        self._settings = settings
        self._is_sample = is_sample

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            # The system's choice where the setting is 0.
            port = self.servers[0].sockets[0].getsockname()[1]
            _announce(self._settings, port, is_sample=self._is_sample)


def _serve(settings: Settings, *, is_sample: bool) -> None:
    configure_logs(settings.log_level, settings.log_format)
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        ws="websockets-sansio",
        ws_max_size=settings.max_body_bytes,
        timeout_graceful_shutdown=int(settings.request_timeout),
    )
    server = _Server(config, settings, is_sample)
    calm_garbage_collector()
    server.run()
    if not server.started:
        sys.exit(1)


def calm_garbage_collector() -> None:
    """Large answers are many objects without cycles: looking through all of them again and again blocks the others.

    Few new ones are looked through at a time, and all of them seldom: `bench/loop_lag.py` shows pauses of 65 ms
    with the usual 10 in the place of 100, and with 1000 `bench/memory.py` grows by 6 MB every 1000 requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(1000, 15, 100)
