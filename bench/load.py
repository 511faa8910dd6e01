"""Many clients at once: no request may fail, and how long each waits.

Run: python bench/load.py [CLIENTS] [SECONDS]

Starts an embedded database and `recallql serve` over it, each in a process of its own; the clients share one more.
The exit code is 1 if any answer was an error.
"""

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.workload import Tally, fill, keep_asking
from store.embedded import EmbeddedServer
from tests.graph.process import running


def main() -> int:
    """Prints the table."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    tally = Tally()
    with EmbeddedServer() as uri, TemporaryDirectory() as folder:
        asyncio.run(fill(uri))
        # The embedded database is slow under such a load, which is not what is to be found out.
        patience = {"database_timeout": 60, "request_timeout": 60}
        with running(Path(folder), mongodb_uri=uri, embedder="toy", log_level="warning", **patience) as server:
            began = time.monotonic()
            asyncio.run(keep_asking(server.base, clients, lambda: time.monotonic() < began + seconds, lambda: tally))
            elapsed = time.monotonic() - began
            print(f"{clients} clients for {elapsed:.0f} seconds")
            tally.print(elapsed)
            print(server.err.read_text(), end="")
    return int(set(tally.codes) != {"OK"})


if __name__ == "__main__":
    sys.exit(main())
