"""Cutting a text into overlapping pieces, at ends of sentences where it has them.

A piece is measured in bytes of UTF-8, because tokens follow bytes more closely than characters: a token of an
embedding model covers about four letters of English, three of French and one of Chinese.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from unicodedata import category

LONGEST = 1200
"""Bytes of a piece: about 300 tokens, well within the 512 that small models read, and still one topic."""
OVERLAP = 240
"""Bytes that a piece repeats from the one before, at most."""
_MOST_REPEATED = 2

# Runs are matched as a whole and only from their beginning, so that no text takes quadratic time. A sentence of a
# Latin, Cyrillic or Arabic text ends before white space; a Chinese, Japanese or Hindi one ends at its mark.
_CLOSING = r"(?:[ \u00a0\u202f]»|[\"'»”’)\]}*_」』）》】])*+"
_END = re.compile(
    rf"(?<![.!?…؟])(?P<mark>[.!?…؟]++){_CLOSING}\s++"
    rf"|(?<![。！？｡।])[。！？｡।]++{_CLOSING}\s*+"
    r"|\n\s*+"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(«“\"'])(?:[^\W\d_]|[^\W\d_]\.[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|vs|cf|ex|fig)$", re.IGNORECASE
)
_LONGEST_ABBREVIATION = 6

_ZERO_WIDTH_JOINER = "\u200d"
# What continues the character before it although it is no combining mark: the joiner, later parts of Korean
# syllables, skin tones, tags of flags, second halves of surrogate pairs.
_CONTINUATION = re.compile("[\u200d\u1160-\u11ff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\udc00-\udfff]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_LONGEST_CLUSTER = 32


def cut_pieces(text: str, *, longest: int = LONGEST, overlap: int = OVERLAP) -> list[str]:
    """The text in pieces of at most `longest` bytes of UTF-8, in order, without white space around them.

    Every sentence is in some piece; one that is too long is cut at white space, and words that are too long between
    characters. A piece begins with up to two sentences of the one before, `overlap` bytes of them at most. Blank
    text has no pieces.
    """
    if _size(text) <= longest:
        return [text.strip()] if text.strip() else []
    edges = [0, *_edges(text, longest)]
    sizes = [_size(text[start:end]) for start, end in pairwise(edges)]
    pieces = (text[edges[first] : edges[last]].strip() for first, last in _packed(sizes, longest, overlap))
    return [piece for piece in pieces if piece]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _edges(text: str, longest: int) -> Iterator[int]:
    """Where the text may be cut: ends of sentences, and as many places within long ones as they need."""
    start = 0
    for end in _sentence_ends(text):
        while _size(text[start : min(end, start + longest + 1)]) > longest:
            start = _cut_within(text, start, longest)
            yield start
        if end > start:
            yield end
        start = end


def _sentence_ends(text: str) -> Iterator[int]:
    for found in _END.finditer(text):
        if not _is_abbreviated(text, found) and not _is_within_character(text, found.end(), found.start()):
            yield found.end()
    yield len(text)


def _is_abbreviated(text: str, end: re.Match[str]) -> bool:
    start = end.start()
    before = text[max(0, start - _LONGEST_ABBREVIATION) : start]
    return end["mark"] == "." and "\n" not in end[0] and _ABBREVIATION.search(before) is not None


def _cut_within(text: str, start: int, longest: int) -> int:
    """Where to cut a text that is too long from `start` on: at white space, else between characters."""
    limit = max(start + 1, _fitting(text, start, longest))
    halfway = start + (limit - start) // 2
    spaces = (place for place in range(limit, halfway, -1) if text[place].isspace() or text[place - 1].isspace())
    nearest = range(limit, max(start, limit - _LONGEST_CLUSTER), -1)
    allowed = (place for place in chain(spaces, nearest) if not _is_within_character(text, place, start))
    return next(allowed, limit)


def _fitting(text: str, start: int, longest: int) -> int:
    """How far the text from `start` on fits into `longest` bytes."""
    data = text[start : start + longest].encode("utf-8", "surrogatepass")
    end = min(longest, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return start + len(data[:end].decode("utf-8", "surrogatepass"))


def _is_within_character(text: str, place: int, start: int) -> bool:
    """Whether a cut would part what is read as one character: marks, joined emoji, flags, halves of a pair.

    No character begins before `start` and ends after it.
    """
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if after.isascii() and before != _ZERO_WIDTH_JOINER:
        return False
    if before == _ZERO_WIDTH_JOINER or _CONTINUATION.match(after) or category(after).startswith("M"):
        return True
    return bool(_FLAG_LETTER.match(after)) and _flag_letters(text, start, place) % 2 == 1


def _flag_letters(text: str, start: int, end: int) -> int:
    """How many letters of flags stand directly before `end`; two make a flag."""
    place = end
    while place > start and _FLAG_LETTER.match(text[place - 1]):
        place -= 1
    return end - place


def _packed(sizes: Sequence[int], longest: int, overlap: int) -> Iterator[tuple[int, int]]:
    """The parts of each piece, as first and one past the last; as many as fit."""
    end = 0
    while end < len(sizes):
        first = end - _repeated(sizes, end, min(overlap, longest - sizes[end]))
        room = longest - sum(sizes[first : end + 1])
        end += 1
        while end < len(sizes) and sizes[end] <= room:
            room -= sizes[end]
            end += 1
        yield first, end


def _repeated(sizes: Sequence[int], end: int, room: int) -> int:
    """How many parts before `end` are repeated."""
    count = 0
    while count < min(_MOST_REPEATED, end) and sizes[end - count - 1] <= room:
        room -= sizes[end - count - 1]
        count += 1
    return count
