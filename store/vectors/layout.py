"""How BSON lays out vectors, and numpy views straight onto it.

An array is a document whose keys are "0", "1", ... (bsonspec.org): four bytes of size, for each element its type, its
key, a zero byte and its value, and a closing zero byte. As long as every element is a double, elements whose keys have
the same number of digits lie a fixed stride apart. A binary vector (subtype 9) is one byte of element type, one byte
of padding, and the numbers.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_ARRAY, _BINARY = b"\x04embedding\x00", b"\x05embedding\x00"
_SUBTYPE = b"\x09"
_DOUBLE_SIZE, _FLOAT32_SIZE = 8, 4
_FLOAT32_VECTOR, _INT8_VECTOR = b"\x27\x00", b"\x03\x00"
_VECTOR_HEADER = 2
# Keys of up to five digits and their frame fit the eight bytes in which they are compared.
_MAX_DIMENSIONS = 100_000
# Arrays read at a time: few enough for the processor's cache, enough to make numpy's calls cheap.
_AT_A_TIME = 128

Vectors = NDArray[np.float32]
Sound = NDArray[np.bool_]


class Form(Protocol):
    """One way to store an embedding of a certain number of dimensions."""

    head: bytes
    """How the element begins: type, name, and all sizes and marks before the numbers."""
    size: int
    """How many bytes follow the head, to the end of the element."""

    def read(self, bodies: Sequence[memoryview]) -> tuple[Vectors, Sound]:
        """The vectors in what follows the heads, one a row, and which rows really have this form.

        The other rows hold nonsense.
        """


@lru_cache(maxsize=16)
def forms(dimensions: int) -> tuple[Form, ...]:
    """The forms that can be read fast. Raises ValueError unless there are from 1 to 100 000 dimensions."""
    if not 0 < dimensions <= _MAX_DIMENSIONS:
        raise ValueError(f"a vector has from 1 to {_MAX_DIMENSIONS} numbers, not {dimensions}")
    return DoubleArrays(dimensions), Float32Binaries(dimensions)


def from_binary(payload: bytes) -> Vectors | None:
    """The numbers of a binary vector of float32 or int8, however many; None for bits and for broken ones."""
    header, numbers = payload[:_VECTOR_HEADER], payload[_VECTOR_HEADER:]
    if header == _FLOAT32_VECTOR and len(numbers) % _FLOAT32_SIZE == 0:
        return np.frombuffer(numbers, dtype="<f4").astype(np.float32, copy=False)
    if header == _INT8_VECTOR:
        return np.frombuffer(numbers, dtype=np.int8).astype(np.float32)
    return None


class Float32Binaries:
    """Binary vectors of float32: nothing but the numbers follows the head."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self.size = dimensions * _FLOAT32_SIZE
        self.head = _BINARY + _int32(_VECTOR_HEADER + self.size) + _SUBTYPE + _FLOAT32_VECTOR

    def read(self, bodies: Sequence[memoryview]) -> tuple[Vectors, Sound]:
        """The numbers; every row is sound."""
        vectors = np.frombuffer(b"".join(bodies), dtype="<f4").reshape(-1, self._dimensions)
        return vectors.astype(np.float32, copy=False), np.ones(len(bodies), dtype=np.bool_)


class DoubleArrays:
    """Arrays of doubles. No array of fewer or more doubles has the same size."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._runs = _runs(dimensions)
        last = self._runs[-1]
        self.size = last.offset + last.count * last.stride + 1
        self.head = _ARRAY + _int32(self.size + 4)

    def read(self, bodies: Sequence[memoryview]) -> tuple[Vectors, Sound]:
        """The numbers; doubles beyond float32 become infinite. Sound are arrays of nothing but doubles."""
        vectors = np.empty((len(bodies), self._dimensions), dtype=np.float32)
        sound = np.ones(len(bodies), dtype=np.bool_)
        with np.errstate(over="ignore"):
            for start in range(0, len(bodies), _AT_A_TIME):
                rows = slice(start, start + _AT_A_TIME)
                self._read_into(vectors[rows], sound[rows], b"".join(bodies[rows]))
        return vectors, sound

    def _read_into(self, vectors: Vectors, sound: Sound, block: bytes) -> None:
        for run in self._runs:
            view = run.view(block, len(vectors), self.size)
            sound &= ((view["head"] & run.mask) == run.heads).all(axis=1)
            vectors[:, run.first : run.first + run.count] = view["value"]


class _Run:
    """Neighbouring elements whose keys have equally many digits."""

    def __init__(self, digits: int, first: int, count: int, offset: int) -> None:
        self.first, self.count, self.offset = first, count, offset
        head = 1 + digits + 1
        self.stride = head + _DOUBLE_SIZE
        self.mask = np.uint64((1 << 8 * head) - 1)
        keys = (b"\x01%d\x00" % index for index in range(first, first + count))
        self.heads = np.array([int.from_bytes(key, "little") for key in keys], dtype=np.uint64)
        # The eight bytes from the type on reach into the value, which the mask takes away again.
        self._element: np.dtype[Any] = np.dtype(
            {"names": ["head", "value"], "formats": ["<u8", "<f8"], "offsets": [0, head], "itemsize": self.stride}
        )

    def view(self, block: bytes, arrays: int, size: int) -> NDArray[Any]:
        """The elements of this run in every array of the block."""
        shape, strides = (arrays, self.count), (size, self.stride)
        return np.ndarray(shape, dtype=self._element, buffer=block, offset=self.offset, strides=strides)


def _runs(dimensions: int) -> list[_Run]:
    runs: list[_Run] = []
    first, offset, digits = 0, 0, 1
    while first < dimensions:
        count = min(dimensions, 10**digits) - first
        run = _Run(digits, first, count, offset)
        runs.append(run)
        first, offset, digits = first + count, offset + count * run.stride, digits + 1
    return runs


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "little", signed=True)
