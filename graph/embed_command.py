"""`recallql embed`: fills the vectors of a database, and follows new messages on demand."""

import asyncio
from contextlib import suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from graph.commands import open_database
from graph.settings import Settings
from store.driver import Database
from store.embedders.choosing import create_embedder
from store.embedders.protocol import Embedder
from store.embedding.filling import fill, find_dimensions
from store.embedding.following import follow
from store.embedding.report import FillReport
from store.errors import InvalidArgument
from store.vectors.search_indexes import create_vector_index

console = Console()


async def embed(settings: Settings, *, dry_run: bool, watch: bool, create_index: bool) -> int:
    """Fill the vector collection; 1 when the vector index was asked for and refused.

    Raises InvalidArgument without an embedder, FillFailed, Unavailable.
    """
    if settings.embedder_options is None:
        raise InvalidArgument("No embedder is named: set RECALLQL_EMBEDDER, for example to openai or wordllama.")
    embedder = create_embedder(settings.embedder_options)
    try:
        async with open_database(settings) as database:
            await fill_with_progress(database, embedder, dry_run=dry_run)
            refusal = await create_vector_index(database, await find_dimensions(embedder)) if create_index else None
            if watch:
                await _watch(database, embedder)
    finally:
        await embedder.aclose()
    if refusal:
        console.print(f"The vector index was not created: {refusal}", soft_wrap=True)
    return 1 if refusal else 0


async def fill_with_progress(database: Database, embedder: Embedder, *, dry_run: bool = False) -> FillReport:
    """Fill the vectors of a database behind a progress bar with rate and estimate, and say what was done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("messages", total=None, rate="")

        def tell(done: int, total: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, total=total, rate=f"{speed:.0f}/s" if speed else "")

        report = await fill(database, embedder, dry_run=dry_run, progress=tell)
    console.print(to_sentence(report, dry_run=dry_run), soft_wrap=True)
    return report


def to_sentence(report: FillReport, *, dry_run: bool) -> str:
    """What was done, or with `dry_run` would be done."""
    done = "would get vectors" if dry_run else "got vectors"
    tokens = f", {report.tokens} tokens" if report.tokens else ""
    refused = f" {report.refused} were refused by the embedder." if report.refused else ""
    return (
        f"{report.seen} messages: {report.embedded} {done} ({report.pieces} pieces{tokens}), {report.unchanged} had "
        f"theirs, {report.skipped} have no text; {report.removed} old vectors removed.{refused}"
    )


async def _watch(database: Database, embedder: Embedder) -> None:
    console.print("Following new messages; end with Ctrl-C.")
    with suppress(asyncio.CancelledError):
        await follow(database, embedder, on_change=lambda report: console.print(to_sentence(report, dry_run=False)))
