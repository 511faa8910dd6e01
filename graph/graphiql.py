"""GraphiQL, served from files of this package: nothing is fetched from anywhere else.

The files are built by the project in `graphiql/`. The page names them by relative addresses, so that it works
behind any path prefix, and runs under a content security policy without inline scripts.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import strawberry
from graphql import GraphQLScalarType, specified_scalar_types
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUILD = Path(__file__).parent / "static" / "graphiql"
FILES = "assets"

_SETTINGS = re.compile(r'(<script type="application/json" id="settings">).*?(</script>)')
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:]+\](:\d+)?")

_HEADERS = {
    "Cache-Control": "private, no-store",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}

# What the editor of variables accepts for a custom scalar; left alone, it would underline objects and lists.
_ANY_VALUE = {"type": ["string", "number", "boolean", "object", "array"]}


@dataclass(frozen=True, slots=True)
class Example:
    """A query that GraphiQL opens in a tab of its own; `title` stands above it as a comment.

    The tab is named after the operation. `variables` is JSON text.
    """

    title: str
    query: str
    variables: str = ""


class GraphiQL:
    """The page for one schema, with `examples` as its first tabs, and the files that the page needs."""

    def __init__(self, schema: strawberry.Schema, examples: Sequence[Example]) -> None:
        settings = {"examples": [_tab(example) for example in examples], "scalars": _scalars(schema)}
        # Inside a script element, only "<" can end the JSON early.
        self._settings = json.dumps(settings).replace("<", "\\u003c")

    def page(self, request: Request) -> Response:
        """The page. Raises OSError when the files have not been built."""
        html = _SETTINGS.sub(lambda match: match[1] + self._settings + match[2], _template())
        # Relative addresses start at the last slash, which a path such as "/graphql" has before its last word.
        folder = request.url.path.rpartition("/")[2]
        if folder:
            html = html.replace(f'="./{FILES}/', f'="./{folder}/{FILES}/')
        return HTMLResponse(html, headers={**_HEADERS, "Content-Security-Policy": _policy(request.url.netloc)})

    def files(self) -> ASGIApp:
        """The scripts and styles; their names change with their content, so browsers keep them for good."""
        return GZipMiddleware(_Immutable(StaticFiles(directory=BUILD / FILES, check_dir=False)), compresslevel=5)


class _Immutable:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (200, 206, 304):
                headers = MutableHeaders(scope=message)
                headers["Cache-Control"] = "public, max-age=31536000, immutable"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _tab(example: Example) -> dict[str, str]:
    return {"query": f"# {example.title}\n{example.query}", "variables": example.variables}


def _scalars(schema: strawberry.Schema) -> dict[str, object]:
    known = {*specified_scalar_types, "DateTime"}
    types = schema.schema_converter.type_map
    names = [name for name, made in types.items() if isinstance(made.implementation, GraphQLScalarType)]
    return {name: _ANY_VALUE for name in names if name not in known}


@cache
def _template() -> str:
    return (BUILD / "index.html").read_text(encoding="utf-8")


def _policy(host: str) -> str:
    """The strictest policy that the editor works under: it writes style elements and draws icons as data images."""
    # Not every browser counts the WebSocket of the same host as 'self'.
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "worker-src 'self'",
            "style-src 'self' 'unsafe-inline'",
            "font-src 'self'",
            "img-src 'self' data:",
            f"connect-src 'self'{sockets}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
