"""The application, assembled here from its parts: store, schema, endpoint, routes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route

from graph.authenticating import create_authenticator
from graph.context import Context, Defaults
from graph.endpoint import EndpointOptions, GraphQLEndpoint
from graph.examples import EXAMPLES
from graph.health import health, ready
from graph.identity import Authenticator
from graph.loaders import Loaders
from graph.logs import RequestLog
from graph.metrics import Metrics
from graph.schema import create_schema
from graph.settings import Settings
from store.driver import Database, connect
from store.embedders.choosing import create_embedder
from store.errors import InvalidArgument, Unavailable
from store.indexes import check_indexes, create_indexes
from store.memory import Memory
from store.semantic_search import SemanticSearch

log = logging.getLogger("recallql.graph")


def create_app(settings: Settings, *, database: Database | None = None) -> Starlette:
    """The ASGI application.

    `database` is an asynchronous database of PyMongo or Motor that the caller opens and closes; without it
    `settings.mongodb_uri` is connected to for the lifetime of the application.
    """
    metrics = Metrics()
    schema = create_schema(
        settings.query_limits, metrics, tracing=settings.opentelemetry, introspection=settings.introspection
    )
    get_context = _context_factory(settings, create_authenticator(settings), metrics)
    endpoint = GraphQLEndpoint(schema, get_context=get_context, options=_options(settings))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = (
                database if database is not None else await stack.enter_async_context(_connected(settings, metrics))
            )
            search = await stack.enter_async_context(_searching(opened, settings))
            metrics.cache_bytes.set_function(lambda: search.cache.nbytes if search else 0)
            app.state.memory = Memory(opened, limits=settings.limits, timeout=settings.database_timeout, search=search)
            await _prepare(app.state.memory, settings)
            await stack.enter_async_context(_surveying(app.state.memory, settings.survey_interval))
            yield

    return Starlette(
        routes=_routes(settings, endpoint, metrics), middleware=_middleware(settings, metrics), lifespan=lifespan
    )


def _routes(settings: Settings, endpoint: GraphQLEndpoint, metrics: Metrics) -> list[BaseRoute]:
    told = [Route("/metrics", metrics.respond)] if settings.metrics else []
    return [Route("/health", health), Route("/ready", ready), *told, *endpoint.routes("/graphql")]


def _middleware(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """From the outermost inwards."""
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
        expose_headers=["X-Request-ID"],
    )
    return [
        Middleware(RequestLog, observe=metrics.observe_response),
        *([cors] if settings.origins else []),
        *([Middleware(GZipMiddleware, minimum_size=1000, compresslevel=4)] if settings.compression else []),
    ]


def _options(settings: Settings) -> EndpointOptions:
    return EndpointOptions(
        graphiql=settings.graphiql and settings.introspection,
        examples=EXAMPLES,
        max_body_bytes=settings.max_body_bytes,
        timeout=settings.request_timeout,
        allowed_origins=settings.origins,
    )


def _context_factory(settings: Settings, authenticator: Authenticator, metrics: Metrics) -> Any:
    defaults = Defaults(settings.last_messages, settings.semantic_recall)

    async def get_context(connection: HTTPConnection) -> Context:
        caller = await authenticator.authenticate(connection)
        memory: Memory = connection.app.state.memory
        return Context(memory, metrics, Loaders(memory), defaults, caller.scope, takes_json_text=True)

    return get_context


@asynccontextmanager
async def _searching(database: Database, settings: Settings) -> AsyncIterator[SemanticSearch | None]:
    """Semantic search, where an embedder is named. The engine is chosen by the first survey."""
    if settings.embedder_options is None:
        yield None
        return
    search = SemanticSearch(database, create_embedder(settings.embedder_options), settings.search_options)
    try:
        yield search
    finally:
        await search.aclose()


@asynccontextmanager
async def _connected(settings: Settings, metrics: Metrics) -> AsyncIterator[Database]:
    if settings.mongodb_uri is None:
        raise InvalidArgument("No database is named: set RECALLQL_MONGODB_URI.")
    uri = settings.mongodb_uri.get_secret_value()
    async with connect(uri, timeout=settings.database_timeout, observe=metrics.observe_command) as client:
        yield client[settings.database]


async def _prepare(memory: Memory, settings: Settings) -> None:
    """Look at the database once before the first request; a database that is away keeps nothing from starting."""
    try:
        await memory.survey()
        if settings.create_indexes:
            report = await create_indexes(memory.database)
        else:
            report = await check_indexes(memory.database, timeout=settings.database_timeout)
    except Unavailable as error:
        log.warning("The database does not answer yet: %s", error.__cause__ or error)
        return
    except Exception:
        log.exception("The database was not looked at.")
        return
    for index in report.missing:
        reason = report.refused.get(index, "create it with: recallql indexes")
        log.warning("%s: the index %s is missing (%s): %s", index.collection, index.label, index.why, reason)


@asynccontextmanager
async def _surveying(memory: Memory, interval: float) -> AsyncIterator[None]:
    task = asyncio.create_task(_survey_forever(memory, interval))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _survey_forever(memory: Memory, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        try:
            await memory.survey()
        except Unavailable as error:
            log.warning("The database was not surveyed: %s", error.__cause__ or error)
        except Exception:
            log.exception("The database was not surveyed.")
