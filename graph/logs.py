"""Logs: one line for each request, every line with the request's id, as text or as JSON."""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
log = logging.getLogger("recallql.requests")

_HEADER = "X-Request-ID"
_ALLOWED = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request_id"}


class RequestLog:
    """Gives each request an id (the client's own, where it sends one), answers with it, and logs the request.

    `observe` is told the status of each answer.
    """

    def __init__(self, app: ASGIApp, observe: Callable[[int], None]) -> None:
        self.app = app
        self.observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(_HEADER, "")
        token = request_id.set(sent if _ALLOWED.fullmatch(sent) else secrets.token_hex(8))
        try:
            await self._logged(scope, receive, send)
        finally:
            request_id.reset(token)

    async def _logged(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept"):
                status = message.get("status", 101)
                MutableHeaders(scope=message)[_HEADER] = request_id.get() or ""
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            if status:
                self.observe(status)
            milliseconds = round((time.perf_counter() - started) * 1000, 1)
            facts = {"method": scope.get("method", "WEBSOCKET"), "path": scope["path"], "status": status}
            log.info("%s %s %s in %s ms", *facts.values(), milliseconds, extra={**facts, "milliseconds": milliseconds})


class _WithRequestId(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get() or "-"
        return True


class JSONFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, request id, and the record's own facts."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", "-"),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(line, default=str).decode()
        except (TypeError, ValueError):
            # Halves of surrogate pairs and huge numbers are beyond orjson.
            return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A record as text; what a client sends can neither begin a line nor hide one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and one for each line of a traceback, which are indented."""
        first, *others = super().format(record).splitlines() or [""]
        if not record.exc_info:
            return "".join(map(_printable, [first, *(f"\\n{line}" for line in others)]))
        return "\n    ".join(map(_printable, [first, *others]))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def configure_logs(level: str, format: Literal["text", "json"]) -> None:
    """Send the logs of this process to standard error, once, when it starts to serve."""
    handler = logging.StreamHandler()
    handler.addFilter(_WithRequestId())
    text = TextFormatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s")
    handler.setFormatter(JSONFormatter() if format == "json" else text)
    for name in ("recallql", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper() if name == "recallql" else logging.WARNING)
        logger.propagate = False
