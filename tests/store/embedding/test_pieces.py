"""Texts cut into pieces: where they are cut, and that nothing is lost."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.embedding.pieces import LONGEST, OVERLAP, cut_pieces

WORDS = st.sampled_from(["Rain", "falls", "on", "Lyon", "über", "天气", "很好", "👩🏽‍🚀", "🇫🇷", "e\u0301", "x" * 90])
ENDS = st.sampled_from([". ", "! ", "? ", " ! ", "… ", "。", "！", "？", "\n", "\n\n", '." ', " », ", ", ", " "])
PROSE = st.lists(st.tuples(WORDS, ENDS), max_size=80).map(lambda parts: "".join(map("".join, parts)))
ANY_TEXT = PROSE | st.text() | st.text(st.characters(codec=None), max_size=200)
LENGTHS = st.integers(40, 300)


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def sentences(count: int, words: int = 6) -> list[str]:
    return [f"Sentence {number} has {'words ' * words}here." for number in range(count)]


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u3000"])
def test_blank_text_has_no_pieces(text: str) -> None:
    assert cut_pieces(text) == []


def test_a_short_text_is_one_piece() -> None:
    assert cut_pieces("  Hello. How are you?\n") == ["Hello. How are you?"]


def test_a_long_text_is_cut_at_ends_of_sentences_and_repeats_two() -> None:
    parts = sentences(9)
    pieces = cut_pieces(" ".join(parts), longest=300, overlap=140)
    assert pieces == [" ".join(parts[first : first + 5]) for first in (0, 3)] + [" ".join(parts[6:])]


def test_a_longer_sentence_is_not_repeated() -> None:
    parts = sentences(4, words=12)
    assert cut_pieces(" ".join(parts), longest=200, overlap=90) == [" ".join(parts[:2]), " ".join(parts[2:])]


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("It rained all day. We stayed at home.", "We stayed at home."),
        ('He said "It is raining." "So it is," she said.', '"So it is," she said.'),
        ("Is it **raining?** Take an umbrella, please.", "Take an umbrella, please."),
        ("Il pleut\u00a0! Prenez donc un parapluie.", "Prenez donc un parapluie."),
        ("« Il pleut. » Elle prend son parapluie.", "Elle prend son parapluie."),
        ("We met Dr. Who and J. Smith. They send regards.", "They send regards."),
        ("Fruit, e.g. apples, costs 3.50 now. Vegetables more.", "Vegetables more."),
        ("今天下雨了。我们待在家里吧！", "我们待在家里吧！"),
        ("「今天下雨了。」我们待在家里吧？", "我们待在家里吧？"),
        ("- a list without stops\n- and another item", "- and another item"),
        ("هل تمطر اليوم؟ خذ المظلة معك.", "خذ المظلة معك."),
    ],
)
def test_where_a_sentence_ends(text: str, second: str) -> None:
    longest = size(text) - 1
    assert cut_pieces(text, longest=longest, overlap=0)[1:] == [second]


def test_text_without_ends_is_cut_at_spaces() -> None:
    pieces = cut_pieces("word " * 100, longest=50, overlap=0)
    assert {piece.strip("word ") for piece in pieces} == {""}
    assert {piece.count("word") for piece in pieces} == {10}


def test_a_word_that_is_too_long_is_cut_anywhere() -> None:
    assert cut_pieces("x" * 25, longest=10, overlap=5) == ["x" * 10, "x" * 10, "x" * 5]


@pytest.mark.parametrize(
    "character", ["e\u0301", "👩🏽‍🚀", "🇫🇷", "❤\ufe0f", "1\ufe0f\u20e3", "\ud83d\ude00", "\u1112\u1161\u11ab", "नि"]
)
def test_what_is_read_as_one_character_stays_whole(character: str) -> None:
    for padding in ("", "a", "ab", "abc"):
        pieces = cut_pieces(padding + character * 30, longest=50, overlap=0)
        assert "".join(pieces) == padding + character * 30
        assert all(piece.removeprefix(padding).replace(character, "") == "" for piece in pieces)


def test_chinese_is_measured_by_its_bytes() -> None:
    pieces = cut_pieces("今天天气很好。" * 200)
    assert all(300 < len(piece) <= LONGEST // 3 for piece in pieces[:-1])


@pytest.mark.parametrize("text", [".", '."', "。", "\n", " ", "x", "🇫🇷", "\u0301", "a.", "« »"])
def test_a_huge_text_takes_linear_time(text: str) -> None:
    # Quadratic work on a million characters would take hours.
    pieces = cut_pieces(text * 1_000_000)
    assert all(size(piece) <= LONGEST for piece in pieces)


@given(ANY_TEXT, LENGTHS, st.integers(0, 120))
@example("\ud83d\ude00" * 40, 40, 0)
def test_pieces_are_bounded_and_trimmed(text: str, longest: int, overlap: int) -> None:
    pieces = cut_pieces(text, longest=longest, overlap=overlap)
    assert all(0 < size(piece) <= longest and piece == piece.strip() for piece in pieces)


@given(ANY_TEXT, LENGTHS, st.integers(0, 120))
def test_pieces_cover_the_text_in_order(text: str, longest: int, overlap: int) -> None:
    reached = 0
    for piece in cut_pieces(text, longest=longest, overlap=overlap):
        reached += len(text[reached:]) - len(text[reached:].lstrip())
        # As late as it may lie without leaving anything out.
        start = text.rfind(piece, 0, reached + len(piece))
        assert start >= 0
        reached = start + len(piece)
    assert not text[reached:].strip()


@given(st.lists(st.text("abc de", min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=40))
def test_every_sentence_is_in_some_piece(words: list[str]) -> None:
    parts = [f"S{word.strip()}xx." for word in words]
    pieces = cut_pieces(" ".join(parts), longest=100, overlap=40)
    assert all(any(part in piece for piece in pieces) for part in parts)


@given(PROSE)
def test_no_piece_begins_or_ends_within_a_character(text: str) -> None:
    for piece in cut_pieces(text, longest=60, overlap=20):
        assert not unicodedata.category(piece[0]).startswith("M")
        assert piece[0] != "\u200d" != piece[-1]


@given(PROSE)
def test_what_is_repeated_is_short(text: str) -> None:
    pieces = cut_pieces(text)
    assert size("".join(pieces)) <= size(text) + OVERLAP * len(pieces)
