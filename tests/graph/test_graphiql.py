"""GraphiQL: its page and files over HTTP, then in a real Chromium that reaches nothing but this machine."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from graph.endpoint import EndpointOptions
from graph.graphiql import Example
from tests.graph.server import serve
from tests.graph.tiny import make_app, make_client

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}
TABS = ["Greet", "Echo", "CountDown"]
OPTIONS = EndpointOptions(
    examples=(
        Example("Greet somebody </script>", "query Greet($name: String!) { hello(name: $name) }", '{"name": "Ada"}'),
        Example("Echo", "query Echo($value: JSON!) { echo(value: $value) }", '{"value": {"a": [1]}, "extra": 1}'),
        Example("Count down", "subscription CountDown { countdown(start: 2) }"),
    )
)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="the test needs Chromium at /usr/bin/chromium"
)


# Over HTTP


async def test_a_browser_gets_the_page() -> None:
    async with make_client(OPTIONS) as client:
        response = await client.get("/graphql", headers=HTML)
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Vary"] == "Accept"
    assert "<title>RecallQL</title>" in response.text


async def test_the_page_runs_no_inline_script() -> None:
    async with make_client(OPTIONS) as client:
        response = await client.get("/graphql", headers=HTML)
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "worker-src 'self'"} <= set(policy)
    assert "connect-src 'self' ws://recallql.test wss://recallql.test" in policy
    scripts = re.findall(r"<script ([^>]*)>", response.text)
    assert all("src=" in script or 'type="application/json"' in script for script in scripts)


async def test_a_strange_host_does_not_reach_the_policy() -> None:
    async with make_client(OPTIONS) as client:
        response = await client.get("/graphql", headers={**HTML, "Host": "a; script-src *"})
    assert "connect-src 'self';" in response.headers["Content-Security-Policy"]


async def test_examples_are_data_that_cannot_end_the_script() -> None:
    async with make_client(OPTIONS) as client:
        response = await client.get("/graphql", headers=HTML)
    (settings,) = re.findall(r'<script type="application/json" id="settings">(.*)</script>', response.text)
    first = json.loads(settings)["examples"][0]
    assert set(json.loads(settings)["scalars"]) == {"Even", "JSON"}
    assert first["query"].startswith("# Greet somebody </script>\nquery Greet")
    assert first["variables"] == '{"name": "Ada"}'


@pytest.mark.parametrize(("path", "base"), [("/graphql", "./graphql/assets/"), ("/graphql/", "./assets/")])
async def test_the_page_finds_its_files_from_either_spelling(path: str, base: str) -> None:
    async with make_client() as client:
        response = await client.get(path, headers=HTML)
    addresses = re.findall(r'(?:src|href)="([^"]*\.(?:js|css))"', response.text)
    assert addresses
    assert all(address.startswith(base) for address in addresses)


async def test_files_are_compressed_and_kept_for_good() -> None:
    async with make_client() as client:
        page = await client.get("/graphql/", headers=HTML)
        (script,) = re.findall(r'<script type="module"[^>]* src="\./([^"]*)"', page.text)
        response = await client.get(f"/graphql/{script}", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.headers["Content-Type"].startswith("text/javascript")


async def test_a_missing_file_is_not_kept() -> None:
    async with make_client() as client:
        response = await client.get("/graphql/assets/missing.js")
    assert (response.status_code, "Cache-Control" in response.headers) == (404, False)


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/html;q=0.9"])
async def test_other_clients_get_no_page(accept: str) -> None:
    async with make_client() as client:
        response = await client.get("/graphql?query={hello}", headers={"Accept": accept})
    assert response.json() == {"data": {"hello": "Hello, world!"}}


async def test_graphiql_can_be_turned_off() -> None:
    async with make_client(EndpointOptions(graphiql=False)) as client:
        page = await client.get("/graphql", headers=HTML)
        file = await client.get("/graphql/assets/missing.js")
    assert (page.status_code, page.json()["errors"][0]["message"]) == (400, "The parameter 'query' is missing.")
    assert file.status_code == 404


# In a browser


class StripPrefix:
    """A proxy in front of the application, which never learns the prefix."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without the prefix."""
        if "path" in scope:
            scope = {**scope, "path": scope["path"].removeprefix(self._prefix)}
        await self._app(scope, receive, send)


def behind_a_mount(prefix: str) -> ASGIApp:
    """The application below another one."""
    return Starlette(routes=[Mount(prefix, make_app(OPTIONS))])


def behind_a_proxy(prefix: str) -> ASGIApp:
    """The application behind a proxy that takes the prefix away."""
    return StripPrefix(make_app(OPTIONS), prefix)


@dataclass
class Visit:
    """A page, and everything that went wrong or went elsewhere while it was open."""

    page: Page
    faults: list[str] = field(default_factory=list)
    hosts: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        page = self.page
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).hostname))
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("requestfailed", lambda request: self.faults.append(f"{request.url}: {request.failure}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def open(self, url: str) -> None:
        """Open GraphiQL and wait until it knows the schema."""
        with self.page.expect_response(lambda response: "IntrospectionQuery" in (response.request.post_data or "")):
            self.page.goto(url)
        expect(self.page.locator(".graphiql-query-editor .view-lines")).to_be_visible()

    def type(self, text: str) -> None:
        """Replace what stands in the query editor."""
        self.page.locator(".graphiql-query-editor .view-lines").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.wait_until_read(text)

    def open_tab(self, operation: str) -> None:
        """Bring the tab of this operation to the front."""
        self.page.get_by_role("tab", name=operation).click()
        self.wait_until_read(operation)

    def wait_until_read(self, text: str) -> None:
        """GraphiQL looks at a changed query a moment later, and keeps it in its storage then."""
        self.page.wait_for_function("text => localStorage['graphiql:query']?.includes(text)", arg=text)

    def expect_answer(self, text: str) -> None:
        """Run the query and wait for `text` in the answer."""
        self.page.get_by_role("button", name="Execute query").click()
        # The editor draws spaces as no-break spaces.
        answer = self.page.locator(".result-window .view-lines")
        expect(answer).to_contain_text(re.compile(re.escape(text).replace(r"\ ", r"\s")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, to which every host but this machine does not exist."""
    expect.set_options(timeout=20_000)  # for busy machines
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The endpoint of a running server."""
    with serve(make_app(OPTIONS)) as base:
        yield f"{base}/graphql"


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A new page with a clean profile. Errors, policy violations and requests to other hosts fail the test."""
    with browser.new_context() as context:
        visit = Visit(context.new_page())
        yield visit
        assert visit.faults == []
        assert visit.hosts == {"127.0.0.1"}


@needs_chromium
def test_the_examples_are_the_first_tabs(visit: Visit, url: str) -> None:
    visit.open(url)
    expect(visit.page).to_have_title("RecallQL")
    expect(visit.page.get_by_role("tab")).to_have_text([re.compile("^" + name) for name in TABS])
    visit.expect_answer('"hello": "Hello, Ada!"')


@needs_chromium
def test_a_field_is_completed(visit: Visit, url: str) -> None:
    visit.open(url)
    visit.type("{ hel")
    suggestion = visit.page.locator(".suggest-widget.visible .monaco-list-row").first
    expect(suggestion).to_contain_text("hello")
    suggestion.click()
    visit.expect_answer('"hello": "Hello, world!"')


@needs_chromium
def test_a_mistake_is_underlined(visit: Visit, url: str) -> None:
    visit.open(url)
    visit.type("{ nothing")
    expect(visit.page.locator(".graphiql-query-editor .squiggly-error").first).to_be_visible()


@needs_chromium
def test_a_custom_scalar_takes_any_json(visit: Visit, url: str) -> None:
    visit.open(url)
    visit.open_tab("Echo")
    mistakes = visit.page.locator(".graphiql-editor-tool").locator(".squiggly-warning, .squiggly-error")
    expect(mistakes).to_have_count(1)  # of "extra", which the operation does not declare
    visit.expect_answer('"a": [')


@needs_chromium
def test_a_subscription_runs_over_a_websocket(visit: Visit, url: str) -> None:
    visit.open(url)
    visit.open_tab("CountDown")
    visit.expect_answer('"countdown": 1')


@needs_chromium
@pytest.mark.parametrize("query", ["query Who { caller }", "subscription Down { countdown }"])
def test_a_token_in_the_header_editor_is_sent(visit: Visit, url: str, query: str) -> None:
    visit.open(url)
    visit.type(query)
    visit.page.get_by_role("button", name="Headers").click()
    visit.page.locator(".graphiql-editor-tool .view-lines:visible").click()
    visit.page.keyboard.type('{"Authorization": "unknown"')
    visit.expect_answer("Unknown token.")
    visit.faults.clear()  # the refusals


@needs_chromium
def test_a_link_may_carry_a_query(visit: Visit, url: str) -> None:
    visit.open(f'{url}?query=query Who($n: String!) {{ hello(name: $n) }}&variables={{"n": "Eve"}}')
    expect(visit.page.get_by_role("tab").first).to_contain_text("Who")
    visit.expect_answer('"hello": "Hello, Eve!"')


@needs_chromium
@pytest.mark.parametrize("make", [behind_a_mount, behind_a_proxy])
@pytest.mark.parametrize("slash", ["", "/"])
def test_it_works_behind_a_prefix(visit: Visit, make: Callable[[str], ASGIApp], slash: str) -> None:
    with serve(make("/some/prefix")) as base:
        visit.open(f"{base}/some/prefix/graphql{slash}")
        visit.expect_answer('"hello": "Hello, Ada!"')
        visit.open_tab("CountDown")
        visit.expect_answer('"countdown": 1')
