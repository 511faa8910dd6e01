"""Reading files of Extended JSON (v2, canonical or relaxed), as `mongoexport` writes them.

A file holds one document a line, one JSON array, or documents spread over lines (`--pretty`); UTF-8 with or
without a byte order mark, plain or gzip. Lines are read as a stream, the other two forms as a whole.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NoReturn

import bson
from bson import json_util
from bson.codec_options import DatetimeConversion
from bson.errors import BSONError

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""MongoDB's limit for one document."""

_GZIP_MAGIC = b"\x1f\x8b"
_SPACE = re.compile(r"[ \t\r\n]*")
_OPTIONS = json_util.JSONOptions(tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
_ILL_FORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, BSONError)
"""What the parsers of Extended JSON and the BSON encoder raise for a value that makes no sense."""


class Malformed(Exception):
    """A file that cannot be read, or something in it that is no document. The message names the place."""


class _BadLine(Exception):
    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


def read_documents(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each document of a file with its place in words; dates become aware datetimes.

    Every document can be stored: its values encode to BSON, and it is within MongoDB's size.
    Raises Malformed at the first line that holds none, and for a file that cannot be read.
    """
    number = 0
    try:
        with _opened(path) as stream:
            for number, value in _read_values(stream):
                yield f"{path}, line {number}", _to_document(number, value)
    except (OSError, EOFError, zlib.error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise Malformed(f"{path}, after line {number}: cannot be read: {reason}.") from error
    except _BadLine as error:
        raise Malformed(f"{path}, line {error.number}: {error}.") from error


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    with path.open("rb") as stream:
        # The first bytes tell, not the name: a compressed file may come under any.
        if stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            with gzip.open(stream) as unpacked:
                yield unpacked
        else:
            yield stream


def _read_values(stream: BufferedIOBase) -> Iterator[tuple[int, Any]]:
    is_first = True
    for number, line in enumerate(stream, 1):
        text = _decode(line, number)
        if not text.strip():
            continue
        if is_first and _is_spread_over_lines(text):
            yield from _read_spread(text + _decode(stream.read(), number + 1), number)
            return
        is_first = False
        yield number, _parse(text, number)


def _is_spread_over_lines(first_line: str) -> bool:
    return first_line.lstrip().startswith("[") or first_line.strip() == "{"


def _decode(data: bytes, number: int) -> str:
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line = number + data.count(b"\n", 0, error.start)
        raise _BadLine(line, "not UTF-8 text") from error


def _parse(text: str, number: int) -> Any:
    value, end = _parse_at(text, _skip_space(text, 0), number)
    if _skip_space(text, end) < len(text):
        raise _BadLine(number, f"something follows the document, from column {end + 1}")
    return value


def _read_spread(text: str, number: int) -> Iterator[tuple[int, Any]]:
    """The elements of one array, or documents one after another; `number` is the first line's."""
    first, start = number, _skip_space(text, 0)
    is_array = text.startswith("[", start)
    position = _skip_space(text, start + 1) if is_array else start
    counted = 0
    is_more = not (is_array and text.startswith("]", position))
    while is_more:
        number += text.count("\n", counted, position)
        counted = position
        value, position = _parse_at(text, position, number)
        yield number, value
        position, is_more = _step(text, position, is_array, first)
    end = _skip_space(text, position + 1) if is_array else position
    if end < len(text):
        raise _BadLine(first + text.count("\n", 0, end), "something follows the array")


def _step(text: str, position: int, is_array: bool, first: int) -> tuple[int, bool]:
    """From the end of a value to the start of the next, or to the end of all; whether there is a next."""
    position = _skip_space(text, position)
    if not is_array:
        return position, position < len(text)
    if text.startswith(",", position):
        return _skip_space(text, position + 1), True
    if text.startswith("]", position):
        return position, False
    raise _BadLine(first + text.count("\n", 0, position), "the array is cut off, or a comma is missing")


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _parse_at(text: str, position: int, number: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        line = number + text.count("\n", position, error.pos)
        raise _BadLine(line, f"not JSON: {error.msg}, column {error.colno}") from error
    except RecursionError as error:
        raise _BadLine(number, "nested too deeply") from error
    except _ILL_FORMED as error:
        raise _BadLine(number, f"not Extended JSON: {error}") from error


def _from_extended(value: dict[str, Any]) -> Any:
    return json_util.object_hook(value, _OPTIONS)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} must be written as $numberDouble")


_DECODER = json.JSONDecoder(object_hook=_from_extended, parse_constant=_refuse_constant)


def _to_document(number: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _BadLine(number, "not a document")
    if operators := [name for name in value if name.startswith("$")]:
        raise _BadLine(number, f"a field name begins with a dollar sign: {operators[0]}")
    try:
        size = len(bson.encode(value))
    except RecursionError as error:
        raise _BadLine(number, "nested too deeply") from error
    except _ILL_FORMED as error:
        raise _BadLine(number, f"cannot be stored: {error}") from error
    if size > MAX_DOCUMENT_BYTES:
        raise _BadLine(number, f"{size} bytes, more than MongoDB's {MAX_DOCUMENT_BYTES} for one document")
    return value
