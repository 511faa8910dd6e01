"""The same application without what was made faster: graphql-core's executor, and JSON by the standard library.

As a program (`python -m bench.stock`) it serves like `recallql serve`. Only the bench uses it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from starlette.applications import Starlette

from graph import app, response
from graph.schema import create_schema
from graph.serving import serve_database
from graph.settings import Settings


def encode(payload: object) -> bytes:
    """JSON as Starlette's own responses write it."""
    return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def create_stock_app(settings: Settings) -> Starlette:
    """The application with the stock executor; requests must be sent within `stock_encoder`."""
    with patch.object(app, "create_schema", partial(create_schema, planning=False)):
        return app.create_app(settings)


@contextmanager
def stock_encoder() -> Iterator[None]:
    """Answers are written by the standard library within the block, in this whole process."""
    with patch.object(response, "encode", encode):
        yield


def main() -> None:
    """Serve the database that RECALLQL_MONGODB_URI names."""
    with patch.object(app, "create_schema", partial(create_schema, planning=False)), stock_encoder():
        serve_database(Settings())


if __name__ == "__main__":
    main()
