"""A real embedding service on the loopback interface that speaks OpenAI's wire format."""

import asyncio
import base64
import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Reply = Callable[[dict[str, Any]], Awaitable[Response]]


@dataclass
class EmbeddingService:
    """Answers in the order of `replies`, and properly once they are used up. Remembers what it was asked."""

    port: int
    replies: deque[Reply] = field(default_factory=deque)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def will(self, *replies: Reply | Response) -> None:
        """Sets the next replies: a response, or a coroutine function from the request's body to one."""
        self.replies.extend(_always(reply) if isinstance(reply, Response) else reply for reply in replies)

    def forget(self) -> None:
        """Starts over, as if just begun."""
        for notes in (self.replies, self.bodies, self.requests):
            notes.clear()

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.requests.append(request)
        self.bodies.append(body)
        return await (self.replies.popleft() if self.replies else proper_reply)(body)


def vector_of(text: str) -> list[float]:
    """The vector the service has for a text: three numbers that float32 holds exactly."""
    return [float(len(text)), float(ord(text[0])), 0.5]


async def proper_reply(body: dict[str, Any]) -> Response:
    """The vectors in reverse order, as `encoding_format` asks, and one token for every text."""
    as_base64 = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector_of(text)) if as_base64 else vector_of(text)}
        for index, text in enumerate(body["input"])
    ]
    return JSONResponse({"object": "list", "data": data[::-1], "usage": {"total_tokens": len(data)}})


def data_reply(*items: object, usage: object = None) -> Response:
    """A reply with these items as its data."""
    return JSONResponse({"data": items, "usage": usage})


def _packed(vector: list[float]) -> str:
    return base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()


def _always(response: Response) -> Reply:
    async def reply(body: dict[str, Any]) -> Response:
        return response

    return reply


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to the test run."""
        yield


@asynccontextmanager
async def running_service() -> AsyncIterator[EmbeddingService]:
    """The service, listening on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = EmbeddingService(port=listener.getsockname()[1])
        app = Starlette(routes=[Route("/v1/embeddings", service.answer, methods=["POST"])])
        server = _Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield service
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving
