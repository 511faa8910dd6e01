"""The embedded server is a real process here, and so are the processes that ask for it and die."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.uri_parser import parse_uri

from store.embedded import EmbeddedServer, EmbeddedServerFailed, embedded_server

# A process that starts a server, tells its address, and waits to be killed.
_OWNER = """
import asyncio, signal, sys
from pathlib import Path
from store.embedded import embedded_server

# Whoever runs the tests may ignore these signals, and a child inherits that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main() -> None:
    async with embedded_server(Path(sys.argv[1])) as uri:
        print(uri, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@contextmanager
def _owner(data_dir: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-c", _OWNER, str(data_dir)]
    # Standard error is not wanted: Ctrl-C ends Python with a traceback.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def _status(uri: str) -> dict[str, Any]:
    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=2000) as client:
        return client.admin.command("serverStatus")


def _process(pid: int) -> tuple[str, int]:
    """State and parent of a process; state Z (ended, not yet collected by its parent) when there is none."""
    if Path("/proc/self/stat").exists():
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return "Z", 0
    else:
        command = ["ps", "-o", "stat=,ppid=", "-p", str(pid)]
        words = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split() or [
            "Z",
            "0",
        ]
    return words[0], int(words[1])


def _parent_of(pid: int) -> int:
    return _process(pid)[1]


def _is_gone(pid: int) -> bool:
    return _process(pid)[0].startswith("Z")


def _wait_until_gone(*pids: int) -> bool:
    deadline = time.monotonic() + 20
    while not all(map(_is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return all(map(_is_gone, pids))


async def test_a_server_answers_while_the_block_runs() -> None:
    async with embedded_server(None) as uri, AsyncMongoClient[dict[str, Any]](uri) as client:
        assert (await client.admin.command("ping"))["ok"] == 1


async def test_a_start_that_is_cancelled_is_undone(tmp_path: Path) -> None:
    async def serve() -> None:
        async with embedded_server(tmp_path):
            await asyncio.sleep(600)

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0.05)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with EmbeddedServer(tmp_path) as uri:
        assert _status(uri)["ok"] == 1


def test_data_in_a_folder_survive_a_restart(tmp_path: Path) -> None:
    for number in range(2):
        with EmbeddedServer(tmp_path / "new" / "folder") as uri, MongoClient[dict[str, Any]](uri) as client:
            client.memory.threads.insert_one({"number": number})
            assert [row["number"] for row in client.memory.threads.find()] == list(range(number + 1))


def test_the_server_is_a_process_outside_our_terminal_group() -> None:
    with EmbeddedServer() as uri:
        pid = _status(uri)["pid"]
        assert pid != os.getpid()
        assert os.getpgid(pid) == os.getpgid(_parent_of(pid)) != os.getpgrp()


@pytest.mark.parametrize("address", ["127.0.0.2", "::1"])
def test_one_loopback_address_listens_and_no_other(address: str) -> None:
    with EmbeddedServer() as uri:
        _, port = parse_uri(uri)["nodelist"][0]
        with socket.create_connection(("127.0.0.1", port)):
            pass
        with pytest.raises(OSError, match=r"."):
            socket.create_connection((address, port), timeout=2)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_process_outlives_the_one_that_asked(tmp_path: Path, end: signal.Signals) -> None:
    with _owner(tmp_path) as (owner, uri):
        server = _status(uri)["pid"]
        supervisor = _parent_of(server)
        owner.send_signal(end)
        owner.wait(30)
    assert supervisor != owner.pid
    assert _wait_until_gone(server, supervisor)


def test_no_server_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent has died")
    with _owner(tmp_path) as (_, uri):
        server = _status(uri)["pid"]
        os.kill(_parent_of(server), signal.SIGKILL)
        assert _wait_until_gone(server)


def test_a_folder_serves_one_server_at_a_time(tmp_path: Path) -> None:
    with (
        EmbeddedServer(tmp_path),
        pytest.raises(EmbeddedServerFailed, match=f"in use by another RecallQL .process {os.getpid()}."),
    ):
        EmbeddedServer(tmp_path).start()


def test_a_folder_is_free_again_after_its_owner_was_killed(tmp_path: Path) -> None:
    with _owner(tmp_path) as (owner, uri):
        with MongoClient[dict[str, Any]](uri) as client:
            client.memory.threads.insert_one({"number": 1})
        owner.kill()
        owner.wait()
    with EmbeddedServer(tmp_path) as uri, MongoClient[dict[str, Any]](uri) as client:
        assert client.memory.threads.count_documents({}) == 1


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "secantus", None)
    with pytest.raises(EmbeddedServerFailed, match=r"pip install 'recallql\[embedded\]'"):
        EmbeddedServer().start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(EmbeddedServerFailed, match=r"Cannot use the data folder .*file/data"):
        EmbeddedServer(tmp_path / "file" / "data").start()


def test_a_server_that_cannot_start_tells_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder either")
    with pytest.raises(EmbeddedServerFailed, match=r"did not start\. Its log is .*server\.log\..*Error"):
        EmbeddedServer(tmp_path).start()


def test_memory_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with EmbeddedServer():
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_stopping_is_always_allowed() -> None:
    server = EmbeddedServer()
    server.stop()
    uri = server.start()
    pid = _status(uri)["pid"]
    server.stop()
    server.stop()
    assert _is_gone(pid)
