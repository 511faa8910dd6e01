"""What the command line does: importing, exporting the schema, creating indexes, examining a database."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from graph.api_keys import create_key
from graph.schema import print_schema
from graph.settings import Settings
from store.diagnosis import Diagnosis, diagnose
from store.driver import Database, connect
from store.embedded import embedded_server
from store.embedders.choosing import create_embedder
from store.embedders.protocol import Embedder
from store.embedding.inventory import Inventory, take_inventory
from store.importing import import_documents
from store.indexes import create_indexes
from store.scope import check_id
from store.vectors.engine import EngineName
from store.vectors.search_indexes import probe_vector_index

console = Console()


REPLY_SECONDS = 60.0
"""A server that does not answer a command for so long will not do so any more; building indexes takes longer."""


@asynccontextmanager
async def open_database(settings: Settings, *, reply_timeout: float | None = REPLY_SECONDS) -> AsyncIterator[Database]:
    """The database that the settings name; without an address the embedded server's, started for the time."""
    async with AsyncExitStack() as stack:
        if settings.mongodb_uri is not None:
            uri = settings.mongodb_uri.get_secret_value()
        else:
            uri = await stack.enter_async_context(embedded_server(settings.data_dir))
        opened = connect(uri, timeout=settings.database_timeout, reply_timeout=reply_timeout)
        client = await stack.enter_async_context(opened)
        yield client[settings.database]


async def import_files(settings: Settings, files: list[Path], collection: str | None) -> None:
    """Write files into a collection, by default the one that bears the file's name."""
    async with open_database(settings) as database:
        for file in files:
            await _import_file(database, file, collection or file.name.split(".")[0])


async def _import_file(database: Database, file: Path, collection: str) -> None:
    with _counting(f"{file.name} → {collection}") as progress:
        task = progress.add_task("", total=None, count=0)
        report = await import_documents(
            database[collection], [file], progress=lambda written: progress.update(task, count=written)
        )
    console.print(f"{collection}: {report.inserted} inserted, {report.replaced} replaced.")


def _counting(title: str) -> Progress:
    columns = (SpinnerColumn(), TextColumn(title), BarColumn(), TextColumn("{task.fields[count]} documents"))
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


def export_schema(file: Path, *, check: bool) -> int:
    """Write the schema to a file, or compare it with the file; 1 when they differ."""
    schema = print_schema()
    if not check:
        file.write_text(schema)
        console.print(f"{file}: written.")
        return 0
    if file.exists() and file.read_text() == schema:
        console.print(f"{file}: up to date.")
        return 0
    console.print(f"{file}: differs from the code; run: recallql schema")
    return 1


async def make_indexes(settings: Settings) -> int:
    """Create missing indexes; 1 when the server refused one."""
    async with open_database(settings, reply_timeout=None) as database:
        with _counting("indexes") as progress:
            progress.add_task("", total=None, count=0)
            report = await create_indexes(database)
    for index in report.created:
        console.print(f"created   {index.collection}.{index.name}")
    for index, reason in report.refused.items():
        console.print(f"refused   {index.collection}.{index.name}: {reason}")
    console.print(f"{len(report.present)} present, {len(report.created)} created, {len(report.refused)} refused.")
    return 1 if report.refused else 0


async def examine(settings: Settings) -> int:
    """Print a diagnosis of the database; 1 when something is wrong."""
    embedder = create_embedder(settings.embedder_options) if settings.embedder_options else None
    async with open_database(settings) as database:
        found = await diagnose(database, timeout=settings.database_timeout)
        with _counting("vectors") as progress:
            task = progress.add_task("", total=None, count=0)
            inventory = await take_inventory(
                database,
                dimensions=embedder.dimensions if embedder else None,
                model=embedder.model if embedder else None,
                progress=lambda done, total: progress.update(task, completed=done, total=total, count=done),
            )
        engine = await _engine(database, embedder, settings)
    console.print(_to_table(found, inventory, engine, settings.database))
    problems = [*found.problems, *inventory.problems]
    for problem in problems:
        console.print(f"• {problem}", highlight=False, soft_wrap=True)
    console.print("Something is wrong." if problems else "All is well.")
    return 1 if problems else 0


async def _engine(database: Database, embedder: Embedder | None, settings: Settings) -> str:
    """Which vector engine would answer, in words."""
    if embedder is None:
        return "none: no embedder is named (RECALLQL_EMBEDDER)"
    dimensions = embedder.dimensions
    if dimensions is None:
        return "known once the embedder has been asked (RECALLQL_EMBEDDER_DIMENSIONS)"
    if settings.vector_engine == "exact":
        return EngineName.EXACT
    probe = await probe_vector_index(database, dimensions, settings.vector_index, timeout=settings.database_timeout)
    if probe.obstacle is None:
        return EngineName.ATLAS
    return f"{EngineName.EXACT if settings.vector_engine == 'auto' else 'none'}: {probe.obstacle}"


def print_key(resource: str) -> None:
    """Make an API key and show it with its entry. Raises InvalidArgument for a blank resource."""
    made, entry = create_key(check_id(resource, "--resource"))
    console.print(f"key    {made}", soft_wrap=True, highlight=False)
    console.print(f"entry  {entry.to_text()}", soft_wrap=True, highlight=False)


def _to_table(found: Diagnosis, inventory: Inventory, engine: str, database: str) -> Table:
    table = Table(show_header=False, box=None)
    table.add_row("server", f"MongoDB {found.version}, {found.topology}")
    table.add_row("database", database)
    for name, count in found.counts.items():
        table.add_row(name, f"{count} documents")
    table.add_row("indexes", f"{len(found.present)} present, {len(found.missing)} missing")
    for collection in inventory.collections:
        table.add_row(collection.name, f"{collection.vectors} vectors")
    table.add_row("vector engine", engine)
    return table
