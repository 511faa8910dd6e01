"""What the store raises.

StoreError
├── InvalidArgument      an argument breaks a documented rule; the message names both
├── Forbidden            the thread belongs to somebody else; never says to whom
├── NotFound             the thing asked for does not exist, or is not the caller's to see
├── LimitExceeded        more rows or work than a configured limit allows; the message names it
├── EmbeddingMismatch    stored vectors and the embedder disagree in length
├── EmbedderFailed       the embedder refused, timed out or answered nonsense
└── Unavailable          the database did not answer in time

TaskFailed               long work of the command line stopped early: a server's start, an import, filling vectors

Everything else that escapes is a fault of ours and is not caught here.
"""


class StoreError(Exception):
    """Base of every error the store raises on purpose; its text may be shown to a client."""


class InvalidArgument(StoreError):
    """An argument breaks a documented rule. The message names the argument and the rule."""


class Forbidden(StoreError):
    """The thread belongs to another resource. The message never names the owner."""


class NotFound(StoreError):
    """The thing asked for does not exist, or is not the caller's to see."""


class LimitExceeded(StoreError):
    """A configured limit would be passed. The message names the limit and its value."""


class EmbeddingMismatch(StoreError):
    """Stored vectors have another length than the embedder's. The message names both lengths."""


class EmbedderFailed(StoreError):
    """The embedder refused, timed out, or answered something that is no embedding."""


class Unavailable(StoreError):
    """The database did not answer in time, or refused the connection."""


class TaskFailed(Exception):
    """Long work of the command line stopped early. The message says what to do about it; no read raises it."""
