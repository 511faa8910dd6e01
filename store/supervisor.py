"""Keeps one server process alive exactly as long as the process that asked for it.

Run as a script, with the standard library alone, never imported by the service. Standard input is the
lifeline: the asking process holds the other end of the pipe and writes nothing; however it dies, SIGKILL
included, the kernel closes its end, and the server is stopped. Works alike on Linux and macOS.

The only argument is a JSON object: `command` (the server's argument list), `log` (file for its output),
`lock` (an open, locked file descriptor; the server inherits it, so it stays locked until the server is gone),
`startup_timeout` and `grace` in seconds (grace 0: no farewell, kill at once), `scratch` (a folder to remove
at the end, or null). When the server listens, one line of JSON, `{"port": ..., "pid": ...}`, goes to standard
output; when it does not, standard output ends without one.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_LISTENING = re.compile(rb"listening on 127\.0\.0\.1:(\d+)\s")
_PR_SET_PDEATHSIG = 1


def _is_lifeline_cut(wait: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], wait)
    return bool(readable)


def _die_with_supervisor() -> None:
    # Second line of defence, for a supervisor that is itself killed. The kernel ties it to the parent's
    # thread, and code between fork and exec is unsafe among threads: this process has one thread only.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(options: dict[str, Any]) -> "subprocess.Popen[bytes]":
    # The server reads settings from its own variables too: none may change what the command line says.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECANTUS_")}
    if options["scratch"]:
        environment["TMPDIR"] = options["scratch"]
    with Path(options["log"]).open("wb") as log:
        return subprocess.Popen(
            options["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=[options["lock"]],
            preexec_fn=_die_with_supervisor,
        )


def _find_port(server: "subprocess.Popen[bytes]", log: Path, timeout: float) -> int | None:
    deadline = time.monotonic() + timeout
    while server.poll() is None and time.monotonic() < deadline:
        if found := _LISTENING.search(log.read_bytes()):
            return int(found[1])
        if _is_lifeline_cut(0.02):
            break
    return None


def _stop(server: "subprocess.Popen[bytes]", grace: float, port: int | None) -> None:
    deadline = time.monotonic() + grace
    if grace:
        server.terminate()
    while server.poll() is None and time.monotonic() < deadline:
        # Its accept loop looks at the request to stop only after another connection.
        if port:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=0.1).close()
        time.sleep(0.05)
    if server.poll() is None:
        server.kill()
    server.wait()


def _announce(port: int, pid: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"port": port, "pid": pid}) + "\n")
        sys.stdout.flush()


def main() -> int:
    """Run the server until the lifeline is cut, SIGTERM arrives or it ends; give the exit status."""
    options = json.loads(sys.argv[1])
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = _start(options)
    port = None
    try:
        port = _find_port(server, Path(options["log"]), options["startup_timeout"])
        if port is None:
            return 1
        _announce(port, server.pid)
        while server.poll() is None and not _is_lifeline_cut(1.0):
            pass
        return 0
    finally:
        _stop(server, options["grace"], port)
        if options["scratch"]:
            shutil.rmtree(options["scratch"], ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
