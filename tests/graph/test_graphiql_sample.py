"""GraphiQL over the sample conversations, as `make run` serves them: every example tab runs and answers."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graph.app import create_app
from graph.serving import for_sample, load_sample
from graph.settings import Settings
from store.embedded import EmbeddedServer
from tests.graph.server import serve
from tests.graph.test_graphiql import Visit, browser, needs_chromium, visit

__all__ = ["browser", "visit"]

ANSWERS = {
    "Threads": '"title": "Long weekend in Slovenia"',
    "Transcript": '"id": "parcel-01"',
    "Recall": '"origin": "PAGE"',
    "Search": '"id": "refund-04"',
}
"""What the answer of each example holds."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The endpoint over the sample, loaded and embedded by the embedded start itself."""
    with EmbeddedServer() as uri:
        settings = for_sample(Settings(), uri)
        # Playwright runs a loop in this thread.
        with ThreadPoolExecutor() as pool:
            pool.submit(lambda: asyncio.run(load_sample(settings, uri))).result()
        with serve(create_app(settings)) as base:
            yield f"{base}/graphql"


@needs_chromium
@pytest.mark.parametrize("name", ANSWERS)
def test_the_example_answers(visit: Visit, url: str, name: str, tmp_path: Path) -> None:
    visit.open(url)
    visit.open_tab(name)
    visit.expect_answer(ANSWERS[name])
    picture = Path(os.environ.get("RECALLQL_SCREENSHOTS", tmp_path)) / f"graphiql-{name.lower()}.png"
    visit.page.screenshot(path=picture)
    assert picture.stat().st_size > 10_000


@needs_chromium
def test_a_narrow_window_shows_the_page(browser: Browser, url: str) -> None:
    with browser.new_context(viewport={"width": 600, "height": 700}) as context:
        page = context.new_page()
        page.goto(url)
        expect(page.get_by_role("tab", name="Threads")).to_be_visible()
