"""The house rules that a reader relies on: who imports whom, what an import does, how long things are."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(chain.from_iterable((ROOT / package).rglob("*.py") for package in ("graph", "store")))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

DRIVERS = {"pymongo", "bson", "gridfs", "motor"}
WEB = {"graph", "strawberry", "starlette", "graphql", "uvicorn"}
SUPERVISOR = "store/supervisor.py"

LONGEST_MODULE = 400
LONGEST_FUNCTION = 50
MOST_STATEMENTS_OF_A_RESOLVER = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Imports every module by itself and tells what happened besides: the code of the project is forgotten before each
# one, so that a module which only works after another was imported is found too. Bytecode is not written (-B).
IMPORTING = """
import os, sys, threading, warnings

warnings.simplefilter("error")
importing = None

def hook(event, arguments):
    is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    is_effect = event.startswith(("socket.", "subprocess.", "os.mkdir", "os.remove", "os.fork", "os.putenv"))
    if importing and (is_write or is_effect):
        print(importing, event, arguments)

# The libraries first: what they do when they are imported is not ours.
for name in sys.argv[1:]:
    __import__(name)
threads = threading.active_count()
sys.addaudithook(hook)
for name in sys.argv[1:]:
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] in ("graph", "store")]:
        del sys.modules[loaded]
    importing = name
    __import__(name)
    importing = None
    if threading.active_count() != threads:
        print(name, "started a thread")
"""


def imported(tree: ast.AST) -> Iterator[str]:
    """The names of the modules that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def packages(tree: ast.AST) -> set[str]:
    """The top-level packages that a module imports."""
    return {name.partition(".")[0] for name in imported(tree)}


def functions(tree: ast.AST) -> list[Function]:
    """Every function and method, nested ones too."""
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def import_name(path: str) -> str:
    """The name under which a file is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# Who imports whom


@pytest.mark.parametrize("path", [path for path in TREES if path.startswith("store/")])
def test_the_store_knows_nothing_of_graphql_and_http(path: str) -> None:
    assert not packages(TREES[path]) & WEB


@pytest.mark.parametrize("path", [path for path in TREES if path.startswith("graph/")])
def test_only_the_store_speaks_to_mongodb(path: str) -> None:
    assert not packages(TREES[path]) & DRIVERS


@pytest.mark.parametrize("path", TREES)
def test_the_embedded_server_is_a_program_and_never_imported(path: str) -> None:
    named = {node.value for node in ast.walk(TREES[path]) if isinstance(node, ast.Constant)}
    assert "secantus" not in packages(TREES[path])
    # By its name it may be started (`-m`) or looked for, which these two alone do.
    assert "secantus" not in named or path in ("store/embedded.py", "graph/cli.py")


def test_the_supervisor_stands_alone() -> None:
    assert packages(TREES[SUPERVISOR]) <= sys.stdlib_module_names
    assert not [path for path in TREES if any(name.startswith("store.supervisor") for name in imported(TREES[path]))]


# What an import does


def test_an_import_does_nothing_that_can_be_seen() -> None:
    names = [import_name(path) for path in TREES if not path.endswith("__main__.py")]
    command = [sys.executable, "-B", "-c", IMPORTING, *names]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)


# How long things are


@pytest.mark.parametrize("path", TREES)
def test_a_module_fits_a_reader(path: str) -> None:
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", TREES)
def test_a_function_fits_a_screen(path: str) -> None:
    lengths = {function.name: _lines(function) for function in functions(TREES[path])}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION}


def _lines(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_a_resolver_unpacks_calls_and_converts() -> None:
    counts = {
        f"{path}: {function.name}": _statements(function)
        for path, tree in TREES.items()
        for function in functions(tree)
        if path.startswith("graph/") and function.name.startswith("resolve_")
    }
    assert not {name: count for name, count in counts.items() if count > MOST_STATEMENTS_OF_A_RESOLVER}
    assert len(counts) >= 10


def _statements(function: Function) -> int:
    """Statements of the body, those inside others too, without the docstring; a call on many lines is one."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return sum(isinstance(node, ast.stmt) for statement in body for node in ast.walk(statement))


# What is written down


@pytest.mark.parametrize("path", TREES)
def test_what_is_public_has_a_docstring(path: str) -> None:
    assert not [name for name, node in _public(TREES[path], "") if not _is_described(node)]


def _public(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    for node in parent.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, node.name + ".")


def _is_described(node: Function | ast.ClassDef) -> bool:
    """By a docstring, by the description of the GraphQL type, or by the protocol that the method belongs to."""
    described = [
        keyword.arg
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    ]
    is_declaration = isinstance(node, FUNCTIONS) and ast.unparse(node.body[0]) == "..."
    return ast.get_docstring(node) is not None or "description" in described or is_declaration


@pytest.mark.parametrize("path", [path for path in TREES if (ROOT / path).stat().st_size])
def test_a_module_says_what_it_is(path: str) -> None:
    assert ast.get_docstring(TREES[path])
