"""Two questions of an operator: is the process alive, and does the database answer?"""

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse

from store.driver import ping
from store.errors import Unavailable

log = logging.getLogger("recallql.graph")


async def health(request: Request) -> JSONResponse:
    """The process is alive; the database is not asked."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> JSONResponse:
    """The database answers. Says no more than that: the reason of a failure goes to the log."""
    memory = request.app.state.memory
    try:
        await ping(memory.database, timeout=memory.timeout)
    except Unavailable as error:
        log.warning("Not ready: %s", error.__cause__ or error)
        return JSONResponse({"status": "unavailable"}, status_code=503)
    return JSONResponse({"status": "ok"})
