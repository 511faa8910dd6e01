"""The seam to MongoDB: opening a client, PyMongo's and Motor's differences, and their exceptions as ours."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import pymongo
import pymongo.errors
from pymongo import AsyncMongoClient

from store.command_watching import CommandObserver, CommandWatcher
from store.errors import InvalidArgument, StoreError, Unavailable

T = TypeVar("T")
Document = dict[str, Any]
Pipeline = list[dict[str, Any]]
Database = Any
"""An asynchronous database of PyMongo (`AsyncDatabase`) or of Motor (`AsyncIOMotorDatabase`)."""
Collection = Any
"""An asynchronous collection of either driver."""


class Cursor(Protocol):
    """What the store uses of a cursor of either driver."""

    def __aiter__(self) -> AsyncIterator[Document]: ...
    async def to_list(self, length: int | None = None) -> list[Document]: ...
    async def close(self) -> None: ...


_UNAVAILABLE = (
    pymongo.errors.AutoReconnect,
    pymongo.errors.ConnectionFailure,
    pymongo.errors.ExecutionTimeout,
    pymongo.errors.NetworkTimeout,
    pymongo.errors.NotPrimaryError,
    pymongo.errors.ServerSelectionTimeoutError,
    pymongo.errors.WaitQueueTimeoutError,
    pymongo.errors.WTimeoutError,
    asyncio.TimeoutError,
)
_REFUSED_CODES = {13, 18, 8000}
"""Unauthorized, AuthenticationFailed, and Atlas's own code for both."""
NO_CHANGE_STREAMS = {59, 115, 238, 303, 40324, 40573}
"""What servers without change streams answer: unknown or unsupported command, not implemented, unsupported OpenWire
command, unknown stage, only on replica sets."""
_UNKNOWN_CODES = {59, 115, 238, 303, 40324}
_AWAY_CODES = {6, 7, 89, 91, 133, 189, 262, 9001, 10107, 11600, 11602, 13435}
"""Unreachable or unknown hosts, timeouts of the network or of an operation, shutting down, no longer the primary."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn what the driver raises when the database is away into `Unavailable`.

    The text never holds the driver's: that may name hosts and credentials. The cause is chained for the log.
    """
    try:
        yield
    except _UNAVAILABLE as error:
        raise Unavailable("The database does not answer.") from error
    except pymongo.errors.OperationFailure as error:
        if error.code in _REFUSED_CODES:
            raise Unavailable("The database refuses the connection or the credentials.") from error
        if error.code in _AWAY_CODES:
            raise Unavailable("The database is not able to answer now.") from error
        raise
    except (pymongo.errors.ConfigurationError, pymongo.errors.InvalidURI) as error:
        # The name of a host is looked up when the first command is sent.
        raise Unavailable("The address of the database leads nowhere.") from error
    except pymongo.errors.InvalidOperation as error:
        raise Unavailable("The connection to the database is closed.") from error


@contextmanager
def explained_errors() -> Iterator[None]:
    """Like `translated_errors`; a server that lacks what a read needs is no fault of ours either."""
    with translated_errors():
        try:
            yield
        except pymongo.errors.OperationFailure as error:
            if error.code in _UNKNOWN_CODES:
                raise Unavailable("The database lacks a feature that this needs; its log and ours name it.") from error
            raise


@asynccontextmanager
async def connect(
    uri: str, *, timeout: float = 5.0, reply_timeout: float | None = None, observe: CommandObserver | None = None
) -> AsyncIterator[AsyncMongoClient[Document]]:
    """Open a client for a connection string; nothing is asked of the server yet.

    `timeout` (seconds) bounds the selection of a server and the connection to it, `reply_timeout` the wait for a
    reply where no other time is set; `observe` is told of every command. Raises InvalidArgument for a connection
    string that cannot be read, without repeating it.
    """
    milliseconds = int(timeout * 1000)
    try:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            uri,
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            socketTimeoutMS=int(reply_timeout * 1000) if reply_timeout else None,
            appname="recallql",
            event_listeners=[CommandWatcher(observe)] if observe else [],
        )
    except (pymongo.errors.PyMongoError, ValueError, TypeError) as error:
        raise InvalidArgument("The MongoDB connection string cannot be read.") from error
    try:
        yield client
    finally:
        # A server that does not answer is not waited for: it is told of the end as a courtesy.
        with pymongo.timeout(timeout):
            await client.close()


async def ping(database: Database, *, timeout: float = 5.0) -> None:
    """Ask the server whether it answers; raises Unavailable when it does not within `timeout` seconds."""
    with translated_errors(), pymongo.timeout(timeout):
        await uncut(database.client.admin.command("ping"))


async def open_cursor(collection: Collection, pipeline: Sequence[Mapping[str, Any]], **options: Any) -> Cursor:
    """Start an aggregation: PyMongo's is awaited, Motor's is not."""
    cursor = collection.aggregate(pipeline, **options)
    if inspect.isawaitable(cursor):
        cursor = await cursor
    opened: Cursor = cursor
    return opened


async def open_raw_aggregate(
    collection: Collection, pipeline: Sequence[Mapping[str, Any]], **options: Any
) -> AsyncIterator[bytes]:
    """The rows of an aggregation, as batches of undecoded BSON: many documents one after the other."""
    cursor = collection.aggregate_raw_batches(pipeline, **options)
    if inspect.isawaitable(cursor):
        cursor = await cursor
    try:
        async for batch in cursor:
            yield batch
    finally:
        await cursor.close()


async def open_raw_batches(
    collection: Collection, condition: Mapping[str, Any], fields: Mapping[str, Any], *, timeout: float
) -> AsyncIterator[bytes]:
    """The documents that match, as batches of undecoded BSON: many documents one after the other.

    `timeout` bounds the wait for each batch, in seconds.
    """
    cursor = collection.find_raw_batches(condition, fields)
    try:
        while batch := await _next_batch(cursor, timeout):
            yield batch
    finally:
        await cursor.close()


async def _next_batch(cursor: Any, timeout: float) -> bytes | None:
    with pymongo.timeout(timeout):
        batch: bytes | None = await anext(cursor, None)
        return batch


async def together(*awaitables: Awaitable[Any]) -> list[Any]:
    """Run several awaitables side by side; when all have ended, the most telling failure is raised as itself.

    None is cancelled because another failed: a command of the driver's that is cut off can leave its locks held.
    """
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise _most_telling(failures)
    return outcomes


async def uncut(command: Coroutine[Any, Any, T]) -> T:
    """Await a command of the driver's that goes on to its end when the caller is cancelled, for the same reason."""
    task = asyncio.ensure_future(command)
    task.add_done_callback(_seen)
    return await asyncio.shield(task)


def _seen(task: "asyncio.Future[Any]") -> None:
    """A failure that its caller has left behind is no fault of the loop's."""
    if not task.cancelled():
        task.exception()


async def outcome(awaitable: Awaitable[T]) -> Callable[[], T]:
    """What came of an awaitable, told by a call: its result is returned, or the store's error raised, only then."""
    try:
        result = await awaitable
    except StoreError as error:
        return partial(_raise, error)
    return lambda: result


def _raise(error: StoreError) -> NoReturn:
    raise error


def _most_telling(failures: Sequence[BaseException]) -> BaseException:
    return next((failure for failure in failures if isinstance(failure, StoreError)), failures[0])
