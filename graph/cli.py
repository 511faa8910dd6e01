"""The command line `recallql`."""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console

from graph import commands, embed_command
from graph.serving import serve_database, serve_demo
from graph.settings import Settings
from store.errors import StoreError, TaskFailed

T = TypeVar("T")
app = typer.Typer(
    help="RecallQL: the GraphQL API over the memory of AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
errors = Console(stderr=True)

Collection = Annotated[
    str | None, typer.Option("--collection", "-c", help="Name of the collection; left out: the file's name.")
]


@app.command()
def serve() -> None:
    """Serve the API over the database that RECALLQL_MONGODB_URI names."""
    serve_database(_settings())


@app.command()
def demo() -> None:
    """Serve the API; without RECALLQL_MONGODB_URI over an embedded server with sample conversations."""
    serve_demo(_settings())


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Files that mongoexport wrote: JSON lines or an array.")],
    collection: Collection = None,
) -> None:
    """Write Extended JSON into a collection; a document replaces the one with the same id."""
    _run(commands.import_files(_settings(), files, collection))


@app.command()
def schema(
    check: Annotated[bool, typer.Option("--check", help="Compare with the file; fail when they differ.")] = False,
    file: Annotated[Path, typer.Option(help="The file to write or to compare with.")] = Path("schema.graphql"),
) -> None:
    """Write the schema to schema.graphql."""
    raise typer.Exit(commands.export_schema(file, check=check))


@app.command()
def embed(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Then follow new and changed messages.")] = False,
    create_index: Annotated[bool, typer.Option("--create-index", help="Create the vector index on Atlas.")] = False,
) -> None:
    """Fill the vectors of messages that have none or whose text changed."""
    raise typer.Exit(_run(embed_command.embed(_settings(), dry_run=dry_run, watch=watch, create_index=create_index)))


@app.command()
def indexes() -> None:
    """Create the indexes that serve every listing; those of others are never dropped."""
    raise typer.Exit(_run(commands.make_indexes(_settings())))


@app.command()
def doctor() -> None:
    """Look at the database: server, collections, indexes; the exit code is 1 when something is wrong."""
    raise typer.Exit(_run(commands.examine(_settings())))


@app.command()
def key(
    resource: Annotated[str, typer.Option(help="The resource that the key opens; * for every one.")],
) -> None:
    """Make an API key: the key itself, shown once, and the line to keep in RECALLQL_API_KEYS."""
    commands.print_key(resource)


def _settings() -> Settings:
    return Settings()


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def main() -> None:
    """Run the command line: errors are a sentence and an exit code, never a traceback."""
    try:
        app(standalone_mode=True)
    except ValidationError as error:
        _fail("\n".join(_explain(detail) for detail in error.errors()))
    except (StoreError, TaskFailed) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    except KeyboardInterrupt:
        sys.exit(130)


def _explain(detail: Any) -> str:
    variable = "RECALLQL_" + "_".join(str(part) for part in detail["loc"][:1]).upper()
    return f"{variable}: {detail['msg']}."


def _fail(sentence: str) -> None:
    errors.print(f"[bold red]recallql:[/] {sentence}", highlight=False)
    sys.exit(1)
