"""What happens to a text before a model sees it, the same for every model."""

from collections.abc import Sequence

from store.embedders.protocol import Vectors

# Some services refuse empty text; every one of them takes a space.
_STAND_IN = " "


def prepared(texts: Sequence[str], limit: int) -> list[str]:
    """The texts, fit to be sent: at most `limit` characters, no half surrogate pairs, none of them empty."""
    return [_encodable(text[:limit]) if text.strip() else _STAND_IN for text in texts]


def with_blanks_silenced(texts: Sequence[str], vectors: Vectors) -> Vectors:
    """The vectors of the texts, with zeros for blank ones: a text without words resembles nothing."""
    blank = [row for row, text in enumerate(texts) if not text.strip()]
    if not blank:
        return vectors
    silenced = vectors.copy()
    silenced[blank] = 0
    return silenced


def _encodable(text: str) -> str:
    """The text with every half of a surrogate pair replaced, and with two halves that meet joined."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
