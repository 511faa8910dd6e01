"""Logs: one line for each request, every line with the request's id, and nothing in them that is secret."""

import json
import logging
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import pytest

from graph.logs import JSONFormatter, request_id
from tests.graph.process import ServerProcess, environment, running
from tests.zoo import serving

PASSWORD = "s3cret-w0rd"
NOWHERE = f"mongodb://svc:{PASSWORD}@127.0.0.1:1/?directConnection=true"
"""An address with a password, at which no database answers."""
TOKEN = "rql_token-of-the-caller"
QUERY = '{ thread(id: "a-private-thread") { id } }'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without a database that logs JSON."""
    settings = {"mongodb_uri": NOWHERE, "database_timeout": 0.2, "log_format": "json", "log_level": "debug"}
    with running(tmp_path_factory.mktemp("json"), **settings) as server:
        yield server


def ask(server: ServerProcess, request_id: str, query: str = QUERY) -> httpx.Response:
    """Send a query under an id."""
    headers = {"X-Request-ID": request_id, "Authorization": f"Bearer {TOKEN}"}
    return httpx.post(f"{server.base}/graphql", json={"query": query}, headers=headers)


def lines(server: ServerProcess, request_id: str, expected: int = 1) -> list[dict[str, Any]]:
    """The lines of one request. They are written after the answer has left, so they are waited for."""
    deadline = time.monotonic() + 10
    while True:
        found = [line for line in every_line(server) if line["request_id"] == request_id]
        if len(found) >= expected or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def every_line(server: ServerProcess) -> list[dict[str, Any]]:
    """All complete lines of the log, each of them JSON."""
    return [json.loads(line) for line in server.err.read_text().split("\n")[:-1]]


def test_a_request_is_one_line_with_its_facts(server: ServerProcess) -> None:
    response = httpx.get(f"{server.base}/health?token={TOKEN}", headers={"X-Request-ID": "healthy-1"})
    (line,) = lines(server, "healthy-1")
    assert response.headers["X-Request-ID"] == "healthy-1"
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line.pop("milliseconds") >= 0
    assert "/health" in line.pop("message")
    assert line == {
        "level": "INFO",
        "logger": "recallql.requests",
        "request_id": "healthy-1",
        "method": "GET",
        "path": "/health",
        "status": 200,
    }


def test_every_line_of_a_request_bears_its_id(server: ServerProcess) -> None:
    with ThreadPoolExecutor() as threads:
        names = [f"outage-{number}" for number in range(8)]
        codes = {ask.json()["errors"][0]["extensions"]["code"] for ask in threads.map(ask, [server] * 8, names)}
    assert codes == {"UNAVAILABLE"}
    for name in names:
        said = [(line["level"], line["logger"]) for line in lines(server, name, expected=2)]
        assert said == [("WARNING", "recallql.graph"), ("INFO", "recallql.requests")]


def test_what_is_said_at_other_times_bears_no_id(server: ServerProcess) -> None:
    assert "WARNING" in [line["level"] for line in lines(server, "-")]


def test_an_outage_is_logged_with_its_reason(server: ServerProcess) -> None:
    ask(server, "reason-1")
    warning, _ = lines(server, "reason-1", expected=2)
    assert warning["message"].rpartition(":")[2].strip()


ODD_PATHS = ["/%0Aforged", "/%22quoted%22", "/%FF%FE", "/%F0%9F%A6%93", "/" + "x" * 5000]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_odd_paths_are_one_line_all_the_same(server: ServerProcess, path: str) -> None:
    request_id = f"odd-{ODD_PATHS.index(path)}"
    assert httpx.get(server.base + path, headers={"X-Request-ID": request_id}).status_code == 404
    assert [line["status"] for line in lines(server, request_id)] == [404]


def test_nothing_secret_is_logged(server: ServerProcess) -> None:
    answers = [ask(server, "secrets-1").text, ask(server, "secrets-2", "{ nonsense(").text]
    answers.append(httpx.get(f"{server.base}/ready").text)
    everything = server.said + "".join(answers)
    for secret in (PASSWORD, TOKEN, "a-private-thread"):
        assert secret not in everything


ADDRESSES = [
    NOWHERE,
    f"mongodb://svc:{PASSWORD}@[::1",
    f"mongodb://svc:{PASSWORD}@127.0.0.1:99999",
    f"mongodb+srv://svc:{PASSWORD}@nowhere.invalid",
    f"mongo://svc:{PASSWORD}@127.0.0.1",
    f"svc:{PASSWORD}",
    f"mongodb://svc:{PASSWORD}/@host",
]
EXAMINING = """
import os, sys
from graph.cli import main

addresses, sys.argv = sys.argv[1:], ["recallql", "doctor"]
for os.environ["RECALLQL_MONGODB_URI"] in addresses:
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 1
"""


def test_no_command_tells_the_password() -> None:
    command = [sys.executable, "-c", EXAMINING, *ADDRESSES]
    settings = environment(database_timeout=0.2)
    ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert ran.stderr.count("recallql: ") == len(ADDRESSES)
    assert PASSWORD not in ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a server without a database logs as text about odd paths and a failing query; SIGTERM ends it."""
    with running(tmp_path_factory.mktemp("text"), mongodb_uri=NOWHERE, database_timeout=0.2) as server:
        for path in ("/%0Aforged", "/%0D%0Aforged", "/%E2%80%A8forged", "/%1B[2Jforged"):
            httpx.get(server.base + path, headers={"X-Request-ID": "odd-1"})
        ask(server, "failing-1")
        server.terminate()
        return server.err.read_text()


def test_lines_of_text_bear_the_id_too(text: str) -> None:
    assert (text.count("[odd-1]"), text.count("[failing-1]")) == (4, 2)


def test_lines_of_text_cannot_be_forged(text: str) -> None:
    assert not [line for line in text.splitlines() if not line.startswith("20") or not line.isprintable()]


# In this process


def formatted(message: object, **facts: Any) -> dict[str, Any]:
    """A record as its line of JSON."""
    record = logging.makeLogRecord({"name": "recallql.graph", "levelname": "INFO", "msg": message} | facts)
    line = JSONFormatter().format(record)
    assert "\n" not in line
    read: dict[str, Any] = json.loads(line)
    return read


def test_a_traceback_is_within_its_line() -> None:
    try:
        raise LookupError("It was not there.")
    except LookupError:
        line = formatted("A field failed.", exc_info=sys.exc_info())
    assert line["message"] == "A field failed."
    assert line["traceback"].endswith("LookupError: It was not there.")


@pytest.mark.parametrize("fact", ["\ud800", 2**70, math.nan, {1, 2}, b"\xff", ValueError("x"), {"a": object()}])
def test_no_fact_is_too_odd_for_a_line(fact: object) -> None:
    assert formatted("Something happened.", fact=fact)["message"] == "Something happened."


def test_no_message_is_too_odd_for_a_line() -> None:
    assert "half" in formatted("half a pair: \ud800\n")["message"]


async def test_an_id_is_gone_with_its_request(plain_database: Any) -> None:
    async with serving(plain_database) as client:
        await client.http.get("/health", headers={"X-Request-ID": "gone-1"})
        assert request_id.get() is None


CONFIGURING = """
import logging, sys
from graph.logs import configure_logs

elsewhere = logging.StreamHandler(sys.stdout)
logging.getLogger().addHandler(elsewhere)
for _ in range(3):
    configure_logs(sys.argv[1], "json")
logging.getLogger("recallql.graph").info("ours")
logging.getLogger("recallql.graph").warning("our warning")
logging.getLogger("uvicorn.access").info("theirs")
logging.getLogger("uvicorn.error").warning("their warning")
logging.getLogger("application").warning("of the application")
assert logging.getLogger().handlers == [elsewhere]
assert logging.getLogger().level == logging.WARNING
"""


@pytest.mark.parametrize(("level", "ours"), [("info", ["ours", "our warning"]), ("warning", ["our warning"])])
def test_configuring_touches_no_other_logs_and_says_everything_once(level: str, ours: list[str]) -> None:
    command = [sys.executable, "-c", CONFIGURING, level]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [json.loads(line)["message"] for line in ran.stderr.splitlines()]
    assert said == [*ours, "their warning"]
    assert ran.stdout == "of the application\n"
