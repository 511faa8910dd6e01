"""The database is killed, restarted, stopped and continued under load: what clients notice of it.

Run: python bench/faults.py [CLIENTS] [SECONDS OF EACH PHASE]

While it is away every answer must be an UNAVAILABLE within the timeout of the database and a little more; once it is
back there must be no error any more. The exit code is 1 if anything else was answered.
"""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pymongo import MongoClient

from bench.workload import Tally, fill, keep_asking
from tests.graph.process import running

DATABASE_TIMEOUT = 3.0
SETTLING_SECONDS = 6.0
"""How long a recovery may take: what began in the outage ends, and the driver finds the server again."""


class DatabaseServer:
    """A database server on one port, over a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        (folder / "server.toml").touch()
        own = ["--config", str(folder / "server.toml"), "--storage-path", str(folder / "data"), "--log-level", "ERROR"]
        self.command = [sys.executable, "-P", "-m", "secantus", "--host", "127.0.0.1", "--port", str(self.port), *own]
        self.uri = f"mongodb://127.0.0.1:{self.port}/?directConnection=true"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with MongoClient[dict[str, Any]](self.uri, serverSelectionTimeoutMS=30_000) as client:
            client.admin.command("ping")

    def send(self, number: signal.Signals) -> None:
        """Kill, stop or continue it."""
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()


@contextmanager
def database_server(folder: Path) -> Iterator[DatabaseServer]:
    """A filled database, killed at the end."""
    server = DatabaseServer(folder)
    server.start()
    try:
        asyncio.run(fill(server.uri))
        yield server
    finally:
        server.send(signal.SIGKILL)


@dataclass
class Phases:
    """What was answered in each phase; a new one begins whenever it is said so."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    is_over: bool = False

    async def last(self, name: str, seconds: float) -> None:
        """A new phase that lasts so long."""
        self.tallies[name] = Tally()
        await asyncio.sleep(seconds)

    @property
    def now(self) -> Tally:
        """The tally of the phase."""
        return next(reversed(self.tallies.values()))

    def print(self) -> None:
        """Answers and the longest wait of each phase."""
        for name, tally in self.tallies.items():
            print(f"{name:<18} slowest {tally.slowest:>6.2f} s   {dict(tally.codes)}")

    @property
    def is_as_promised(self) -> bool:
        """No other error than UNAVAILABLE, none at all in peace, and nobody waited long."""
        codes = {name: set(tally.codes) for name, tally in self.tallies.items()}
        in_peace = all(found == {"OK"} for name, found in codes.items() if name.startswith("peace"))
        slowest = max(tally.slowest for tally in self.tallies.values())
        return in_peace and set().union(*codes.values()) <= {"OK", "UNAVAILABLE"} and slowest < 5 * DATABASE_TIMEOUT


async def disturb(base: str, database: DatabaseServer, clients: int, seconds: float) -> Phases:
    """Let clients ask while the database goes and comes back, twice."""
    phases = Phases({"start": Tally()})
    asking = asyncio.create_task(keep_asking(base, clients, lambda: not phases.is_over, lambda: phases.now))
    await phases.last("peace", seconds)
    database.send(signal.SIGKILL)
    await phases.last("killed", seconds)
    phases.tallies["restarting"] = Tally()
    await asyncio.to_thread(database.start)
    await phases.last("recovering", SETTLING_SECONDS)
    await phases.last("peace again", seconds)
    database.send(signal.SIGSTOP)
    await phases.last("stopped", seconds)
    database.send(signal.SIGCONT)
    await phases.last("recovering again", SETTLING_SECONDS)
    await phases.last("peace at last", seconds)
    phases.is_over = True
    await asking
    return phases


def main() -> int:
    """Prints the phases."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 8
    with TemporaryDirectory() as folder, database_server(Path(folder)) as database:
        own = {"mongodb_uri": database.uri, "database_timeout": DATABASE_TIMEOUT, "embedder": "toy"}
        with running(Path(folder), **own, log_level="error") as server:
            phases = asyncio.run(disturb(server.base, database, clients, seconds))
            phases.print()
            print(server.err.read_text(), end="")
    print("as promised" if phases.is_as_promised else "NOT as promised")
    return int(not phases.is_as_promised)


if __name__ == "__main__":
    sys.exit(main())
