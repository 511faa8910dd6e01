"""Semantic recall as it is asked for: Mastra's `semanticRecall` option, read strictly."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from store.errors import InvalidArgument, LimitExceeded
from store.filters import MetadataFilter
from store.windows import check_window

MAX_TOP_K = 1000
_KEYS = ("topK", "messageRange", "scope", "threshold", "filter")


@dataclass(frozen=True, slots=True)
class SemanticRecall:
    """How many messages to find, with how many neighbours, among whose messages, and how alike they must be.

    `threshold` is on the scale of the scores, (1 + cosine) / 2. `filter` restrains the threads, by their metadata.
    """

    top_k: int = 4
    before: int = 2
    after: int = 2
    scope: Literal["thread", "resource"] = "resource"
    threshold: float | None = None
    filter: MetadataFilter = MetadataFilter()

    @classmethod
    def from_json(cls, value: object, argument: str = "semanticRecall") -> "SemanticRecall | None":
        """Read true, false, or an object; None is "not enabled". A key that is null counts as left out.

        Raises InvalidArgument or LimitExceeded that names the key.
        """
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidArgument(f"{argument} must be true, false, or an object with {', '.join(_KEYS)}.")
        unknown = sorted(str(key) for key in value if key not in _KEYS)
        if unknown:
            raise InvalidArgument(f"{argument} has no key {unknown[0]!r}; its keys are {', '.join(_KEYS)}.")
        given = {key: item for key, item in value.items() if item is not None}
        before, after = _range(given.get("messageRange", 2), f"{argument}.messageRange")
        return cls(
            top_k=_top_k(given.get("topK", 4), f"{argument}.topK"),
            before=before,
            after=after,
            scope=_scope(given.get("scope", "resource"), f"{argument}.scope"),
            threshold=_threshold(given.get("threshold"), f"{argument}.threshold"),
            filter=MetadataFilter.from_json(given.get("filter"), f"{argument}.filter"),
        )


def _whole(value: object, argument: str, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{argument} must be a whole number >= {least}, not {value!r}.")
    return value


def _top_k(value: object, argument: str) -> int:
    count = _whole(value, argument, 1)
    if count > MAX_TOP_K:
        raise LimitExceeded(f"{argument} is {count}, but at most {MAX_TOP_K} messages can be found.")
    return count


def _range(value: object, argument: str) -> tuple[int, int]:
    if not isinstance(value, Mapping):
        size = _whole(value, argument, 0)
        check_window(size, argument)
        return size, size
    unknown = sorted(str(key) for key in value if key not in ("before", "after"))
    if unknown:
        raise InvalidArgument(f"{argument} has no key {unknown[0]!r}; its keys are before, after.")
    return _side(value, "before", argument), _side(value, "after", argument)


def _side(value: Mapping[str, Any], name: str, argument: str) -> int:
    given = value.get(name)
    size = 2 if given is None else _whole(given, f"{argument}.{name}", 0)
    check_window(size, f"{argument}.{name}")
    return size


def _scope(value: object, argument: str) -> Literal["thread", "resource"]:
    if value == "thread":
        return "thread"
    if value == "resource":
        return "resource"
    raise InvalidArgument(f'{argument} must be "thread" or "resource", not {value!r}.')


def _threshold(value: object, argument: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidArgument(f"{argument} must be a number on the scale of the scores, 0 to 1, not {value!r}.")
    if not 0 <= value <= 1:
        raise InvalidArgument(f"{argument} must lie between 0 and 1, the scale of the scores, not {value!r}.")
    return float(value)
