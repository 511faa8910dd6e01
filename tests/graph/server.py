"""A real server on a free port of this machine, for the tests that need one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep

import uvicorn
from starlette.types import ASGIApp


@contextmanager
def serve(app: ASGIApp, root_path: str = "") -> Iterator[str]:
    """Serve `app` from a thread; yields the base URL, without a slash at the end."""
    config = uvicorn.Config(app, root_path=root_path, log_level="warning", ws="websockets-sansio")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()
