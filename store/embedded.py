"""A MongoDB-compatible server of our own: for trying things out, for tests, for machines without MongoDB.

The server (`secantusdb`, GPL-2.0) is another program: it runs as a process of its own, is spoken to over the
wire protocol alone, and is never imported. Between it and us stands `store/supervisor.py`, which ends it when
this process ends, in whatever way. Both live in a session of their own, so that Ctrl-C in a terminal reaches
this process first and the database last.

A data folder holds `data/` (the database), `server.log`, `server.toml` (empty: keeps the server from looking
for a configuration elsewhere) and `lock` (locked while a server runs on the folder; the file itself stays).
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from store.errors import TaskFailed

EMBEDDED_SET = "secantus"
"""The name of the replica set that the embedded server says it is."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_GRACE_SECONDS = 10.0


class EmbeddedServerFailed(TaskFailed):
    """The embedded server cannot be started. The message says what to do about it."""


class EmbeddedServer:
    """One embedded server, from `start` to `stop`; as a context manager it gives the server's address.

    `data_dir` None keeps everything in memory and leaves nothing behind. An object starts once.
    """

    def __init__(self, data_dir: Path | None = None, *, startup_timeout: float = 30) -> None:
        self._data_dir = data_dir
        self._startup_timeout = startup_timeout
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._lock: int | None = None

    def start(self) -> str:
        """Start the server and give its `mongodb://` address once it answers; raise EmbeddedServerFailed."""
        if find_spec("secantus") is None:
            raise EmbeddedServerFailed(
                "The embedded server is not installed: run pip install 'recallql[embedded]', "
                "or give the address of a MongoDB server."
            )
        try:
            self._folder = _prepare(self._data_dir)
            self._lock = _lock(self._folder)
            self._supervisor = self._start_supervisor(self._folder, self._lock)
            return self._wait_until_ready(self._supervisor)
        except OSError as error:
            self.stop()
            raise EmbeddedServerFailed(
                f"Cannot use the data folder {self._data_dir or tempfile.gettempdir()}: {error.strerror}. "
                "Give a folder that can be written to."
            ) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and wait until it is gone. Stopping twice, or before the start, does no harm."""
        if self._supervisor is not None:
            _end(self._supervisor)
            self._supervisor = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._data_dir is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_supervisor(self, folder: Path, lock: int) -> "subprocess.Popen[bytes]":
        is_kept = self._data_dir is not None
        options: dict[str, Any] = {
            "command": _server_command(folder, storage=str(folder / "data") if is_kept else ":memory:"),
            "log": str(folder / "server.log"),
            "lock": lock,
            "startup_timeout": self._startup_timeout,
            "grace": _GRACE_SECONDS if is_kept else 0,
            "scratch": None if is_kept else str(folder),
        }
        return subprocess.Popen(
            [sys.executable, "-I", str(_SUPERVISOR), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            pass_fds=[lock],
            start_new_session=True,
        )

    def _wait_until_ready(self, supervisor: "subprocess.Popen[bytes]") -> str:
        assert supervisor.stdout is not None
        announcement = supervisor.stdout.readline()
        if not announcement:
            raise EmbeddedServerFailed(f"The embedded server did not start. {self._last_words()}")
        address = json.loads(announcement)
        uri = f"mongodb://127.0.0.1:{address['port']}/?directConnection=true"
        try:
            with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=10_000) as client:
                status = client.admin.command("serverStatus")
        except PyMongoError as error:
            raise EmbeddedServerFailed(f"The embedded server does not answer. {self._last_words()}") from error
        if status["pid"] != address["pid"]:
            raise EmbeddedServerFailed("Another process answers on the embedded server's port. Start it again.")
        return uri

    def _last_words(self) -> str:
        log = self._folder / "server.log" if self._folder is not None else None
        lines = log.read_text(errors="replace").splitlines() if log is not None and log.exists() else []
        where = f"Its log is {log}. " if self._data_dir is not None else ""
        return f"{where}It last said: {lines[-1] if lines else 'nothing'}"


@asynccontextmanager
async def embedded_server(data_dir: Path | None, *, startup_timeout: float = 30) -> AsyncIterator[str]:
    """Run an embedded server for the length of the block, and give its `mongodb://` address.

    `data_dir` None keeps everything in memory. Raises EmbeddedServerFailed when the server is not installed,
    does not answer within `startup_timeout` seconds, or the folder is in use.
    """
    server = EmbeddedServer(data_dir, startup_timeout=startup_timeout)
    starting = asyncio.ensure_future(asyncio.to_thread(server.start))
    try:
        # Cancelling a thread is not possible: a start under way runs to its end and is then undone.
        yield await asyncio.shield(starting)
    finally:
        await asyncio.shield(_stop_after(starting, server))


async def _stop_after(starting: "asyncio.Future[str]", server: EmbeddedServer) -> None:
    await asyncio.gather(starting, return_exceptions=True)
    await asyncio.to_thread(server.stop)


def _server_command(folder: Path, *, storage: str) -> list[str]:
    # Port 0: the system picks a free one as the server binds it, so no other process can take it in between.
    address = ["--host", "127.0.0.1", "--port", "0"]
    settings = ["--config", str(folder / "server.toml"), "--storage-path", storage, "--log-level", "INFO"]
    return [sys.executable, "-P", "-m", "secantus", *address, *settings]


def _prepare(data_dir: Path | None) -> Path:
    if data_dir is None:
        folder = Path(tempfile.mkdtemp(prefix="recallql-"))
    else:
        folder = data_dir.resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "server.toml").touch()
    return folder


def _lock(folder: Path) -> int:
    if sys.platform == "win32":
        raise EmbeddedServerFailed("The embedded server runs on Linux and macOS: give the address of a MongoDB server.")
    from fcntl import LOCK_EX, LOCK_NB, flock

    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _GRACE_SECONDS + 5
    while True:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 20, 0).decode(errors="replace")
            # The server of a process that was killed is still on its way out: that one is worth waiting for.
            if _is_running(owner) or time.monotonic() > deadline:
                os.close(handle)
                raise EmbeddedServerFailed(
                    f"The data folder {folder} is in use by another RecallQL (process {owner}). "
                    "Stop that one, or give another data folder."
                ) from None
            time.sleep(0.05)
        else:
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            return handle


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _end(supervisor: "subprocess.Popen[bytes]") -> None:
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    with suppress(BrokenPipeError):
        supervisor.stdin.close()
    try:
        supervisor.wait(_GRACE_SECONDS + 5)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
    supervisor.stdout.close()
