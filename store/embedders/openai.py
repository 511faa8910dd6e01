"""Any service that speaks OpenAI's `/embeddings`: OpenAI, Azure, Ollama, vLLM, TEI, LM Studio."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np

from store.embedders.openai_wire import error_code, parsed_reply, request_body
from store.embedders.protocol import Embeddings, no_embeddings
from store.embedders.retrying import RETRIABLE_STATUSES, Backoff, seconds_asked
from store.embedders.texts import prepared, with_blanks_silenced
from store.errors import EmbedderFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """How the service is reached and asked.

    `base_url` ends before `/embeddings`; a user and password in it go into the header in which the key would go.
    `dimensions` is sent when set, and then binds. `timeout` is in seconds for one attempt. The defaults of `batch_size`
    (texts a request) and `max_characters` (of a text) are what the pickiest known services take: TEI 32 texts, OpenAI
    8192 tokens. `base64_vectors` asks for the compact form; both forms are understood. `azure_api_version` switches
    to Azure's header and query parameter; `base_url` then names the deployment.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    dimensions: int | None = None
    timeout: float = 30.0
    batch_size: int = 32
    max_characters: int = 8000
    base64_vectors: bool = True
    azure_api_version: str | None = None
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why an attempt failed, in words that may be shown, and whether another one may do better."""

    reason: str
    retriable: bool = False
    wait_asked: float | None = None
    cause: Exception | None = None


class OpenAIEmbedder:
    """Asks an embedding service over HTTP, batch after batch, with bounded retries."""

    def __init__(self, settings: OpenAISettings) -> None:
        """Raises EmbedderFailed for a base URL or a key that no request can carry. Connects to nothing yet."""
        self._settings = settings
        self._dimensions = settings.dimensions
        self._url, auth = _endpoint(settings)
        self._client = httpx.AsyncClient(headers=_headers(settings), auth=auth, timeout=settings.timeout)

    @property
    def model(self) -> str:
        """The model's name, as sent to the service."""
        return self._settings.model

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has: as asked for, else as first answered."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of the texts, and the tokens where every reply names them. Raises EmbedderFailed."""
        if not texts:
            return no_embeddings(self._dimensions)
        fit = prepared(texts, self._settings.max_characters)
        size = self._settings.batch_size
        parts = [await self._embed_batch(fit[start : start + size]) for start in range(0, len(fit), size)]
        vectors = np.concatenate([part.vectors for part in parts])
        return Embeddings(with_blanks_silenced(texts, vectors), _sum(part.tokens for part in parts))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _embed_batch(self, texts: Sequence[str]) -> Embeddings:
        settings = self._settings
        body = request_body(
            texts, model=settings.model, dimensions=settings.dimensions, base64_vectors=settings.base64_vectors
        )
        embeddings = parsed_reply(await self._post_retrying(body), len(texts), self._dimensions)
        self._dimensions = embeddings.vectors.shape[1]
        return embeddings

    async def _post_retrying(self, body: bytes) -> bytes:
        attempts = 0
        while True:
            answer = await self._post(body)
            if isinstance(answer, bytes):
                return answer
            attempts += 1
            wait = self._settings.backoff.wait(attempts, answer.wait_asked) if answer.retriable else None
            if wait is None:
                raise _failure(answer, attempts) from answer.cause
            await asyncio.sleep(wait)

    async def _post(self, body: bytes) -> bytes | _Refusal:
        seconds = self._settings.timeout
        try:
            # The client's own timeout starts anew with every packet; this one bounds the whole attempt.
            async with asyncio.timeout(seconds):
                response = await self._client.post(self._url, content=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            return _Refusal(f"did not answer within {seconds:g} s", retriable=True, cause=error)
        except httpx.TransportError as error:
            return _Refusal("could not be reached, or broke the connection off", retriable=True, cause=error)
        except httpx.RequestError as error:
            return _Refusal("answered in an encoding that cannot be read", cause=error)
        return response.content if response.status_code == httpx.codes.OK else _refusal(response)


def _failure(refusal: _Refusal, attempts: int) -> EmbedderFailed:
    tries = f" ({attempts} attempts)" if attempts > 1 else ""
    return EmbedderFailed(f"The embedding service {refusal.reason}{tries}.")


def _refusal(response: httpx.Response) -> _Refusal:
    status = response.status_code
    code = error_code(response.content)
    reason = f"answered with status {status}" + (f", {code}" if code else "")
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        reason = f"refused the credentials: it {reason}"
    wait = seconds_asked(response.headers.get("Retry-After"))
    return _Refusal(reason, retriable=status in RETRIABLE_STATUSES, wait_asked=wait)


def _endpoint(settings: OpenAISettings) -> tuple[httpx.URL, tuple[str, str] | None]:
    """The address to post to, and the user and password that stood in it: addresses are logged, passwords must not."""
    try:
        base = httpx.URL(settings.base_url)
    except httpx.InvalidURL:
        raise EmbedderFailed("The base URL of the embedding service is no URL.") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise EmbedderFailed("The base URL of the embedding service needs http:// or https:// and a host.")
    url = base.copy_with(path=base.path.rstrip("/") + "/embeddings", username=None, password=None)
    if settings.azure_api_version:
        url = url.copy_set_param("api-version", settings.azure_api_version)
    return url, (base.username, base.password) if base.username or base.password else None


def _headers(settings: OpenAISettings) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    key = settings.api_key
    if not key:
        return headers
    # The HTTP library repeats a header that it cannot send in its error; that must never happen to a key.
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise EmbedderFailed("The key of the embedding service holds characters that no HTTP header can carry.")
    if settings.azure_api_version:
        return headers | {"api-key": key}
    return headers | {"Authorization": f"Bearer {key}"}


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts, None when any of them is unknown."""
    known = list(counts)
    return None if any(count is None for count in known) else sum(count or 0 for count in known)
