"""Every setting, read once from the environment (prefix RECALLQL_); the README lists them all."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from graph.limits import QueryLimits
from store.embedders.choosing import EmbedderKind, EmbedderOptions
from store.errors import StoreError
from store.paging import Limits
from store.semantic import SemanticRecall
from store.semantic_search import SearchOptions
from store.vectors.choosing import EngineChoice

_DATABASE_NAME = r"""^[^\s/\\.$"*<>:|?\x00]{1,63}$"""
"""What no platform's MongoDB takes in a name is refused at once."""


def _false(value: object) -> object:
    return False if isinstance(value, str) and value.strip().lower() == "false" else value


class Settings(BaseSettings):
    """The settings of one process. Raises pydantic's ValidationError that names each variable at fault."""

    model_config = SettingsConfigDict(env_prefix="RECALLQL_", frozen=True)

    mongodb_uri: SecretStr | None = Field(
        None, description="Connection string. Not set: `make run` starts an embedded server."
    )
    database: str = Field("mastra", pattern=_DATABASE_NAME, description="Name of the database.")
    host: str = Field("127.0.0.1", description="Address to serve on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to serve on.")
    database_timeout: float = Field(
        5.0, gt=0, description="Seconds that one exchange with the database may take before it counts as unavailable."
    )
    max_page_size: int = Field(1000, ge=1, description="The most rows of one page.")
    max_rows: int = Field(50_000, ge=1, description="The most rows of an answer with `perPage: false`.")
    max_body_bytes: int = Field(1_000_000, ge=1, description="The largest request body, in bytes.")
    max_depth: int = Field(15, ge=1, description="The most levels of a query.")
    max_aliases: int = Field(
        50,
        ge=0,
        description="The most aliases in a query; a field that is asked for again in the same place counts as one.",
    )
    max_directives: int = Field(50, ge=0, description="The most directives in a query.")
    max_tokens: int = Field(3000, ge=1, description="The most tokens of a query.")
    max_cost: int = Field(50_000, ge=1, description="The most rows that a query may ask for, nested lists multiplied.")
    request_timeout: float = Field(30.0, gt=0, description="Seconds that one request may take.")
    last_messages: Annotated[Annotated[int, Field(ge=0)] | Literal[False], BeforeValidator(_false)] = Field(
        10, description="Page size of `recall` when the request names none; `false`: no history."
    )
    create_indexes: bool = Field(
        False, description="Create missing indexes at start; the embedded server's are always created."
    )
    survey_interval: float = Field(
        300.0, gt=0, description="Seconds between two looks at how the collections are kept (collation, times as text)."
    )
    embedder: EmbedderKind | None = Field(
        None,
        description="What turns a search text into a vector: `openai` (any compatible service), `wordllama`, "
        "`fastembed`, or `toy` (for tests). It must be the model that wrote the stored vectors.",
    )
    embedder_model: str | None = Field(None, description="Name of the model, for `openai` and `fastembed`.")
    embedder_dimensions: int | None = Field(
        None, ge=1, description="Numbers of a vector, where the model has a choice."
    )
    embedder_url: str = Field(
        "https://api.openai.com/v1", description="Address of the service, up to but without `/embeddings`."
    )
    embedder_api_key: SecretStr | None = Field(None, description="Key of the service.")
    embedder_timeout: float = Field(30.0, gt=0, description="Seconds that one request to the service may take.")
    embedder_azure_api_version: str | None = Field(
        None, description="Azure's `api-version`; set it when the service is Azure OpenAI."
    )
    semantic_recall: Annotated[Any, NoDecode] = Field(
        None, description="Mastra's `semanticRecall` as JSON (`true` or options), for recalls that do not say."
    )
    vector_engine: EngineChoice = Field(
        "auto", description="`atlas`, `exact`, or `auto`: Atlas where its index can be queried, else exact."
    )
    vector_index: str | None = Field(None, description="Name of the Atlas vector index; found by itself if not set.")
    vector_cache_bytes: int = Field(
        512 * 1024 * 1024, ge=0, description="The most memory for vectors of the exact engine, in bytes."
    )
    vector_cache_seconds: float = Field(
        5.0, ge=0, description="How long vectors are kept where the server has no change streams, in seconds."
    )
    auth: Literal["none", "api-key", "jwt"] = Field(
        "none", description="How callers prove who they are; `none`: everybody sees everything."
    )
    api_keys: SecretStr | None = Field(
        None, description="Hashed keys, parted by `;`: `sha256:<hex> <resource id, or *>`. Make one: `recallql key`."
    )
    api_keys_file: Path | None = Field(None, description="A file of hashed keys, one a line.")
    jwt_secret: SecretStr | None = Field(None, description="Shared secret of HS256 tokens.")
    jwt_public_key: str | None = Field(None, description="Public key (PEM) of RS256 or ES256 tokens.")
    jwt_jwks_url: str | None = Field(
        None, description="Address of the key set (JWKS); cached, and fetched anew for new keys."
    )
    jwt_issuer: str | None = Field(None, description="The issuer (`iss`) that tokens must have.")
    jwt_audience: str | None = Field(None, description="The audience (`aud`) that tokens must have.")
    jwt_leeway: float = Field(30.0, ge=0, description="Seconds by which clocks may differ.")
    jwt_claim: str = Field("sub", description="The claim that names the only resource its bearer may see.")
    jwt_scope_claim: str = Field(
        "scope", description="The claim that holds scopes; `memory:read:all` opens every resource."
    )
    cors_origins: str = Field("", description="Origins of other sites that may call from a browser, parted by spaces.")
    compression: bool = Field(True, description="Compress answers of more than 1 kB for clients that accept gzip.")
    metrics: bool = Field(True, description="Serve `/metrics` for Prometheus.")
    opentelemetry: bool = Field(False, description="Trace operations with OpenTelemetry (extra `opentelemetry`).")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least level to log.")
    log_format: Literal["text", "json"] = Field("text", description="Lines of text, or of JSON.")
    graphiql: bool = Field(True, description="Serve GraphiQL to browsers; needs introspection.")
    introspection: bool = Field(
        True, description="Let clients ask for the schema; `false` also keeps names out of error messages."
    )
    data_dir: Path = Field(Path(".recallql"), description="Folder of the embedded server's data.")

    @field_validator("semantic_recall", mode="before")
    @classmethod
    def _read_semantic_recall(cls, value: object) -> SemanticRecall | None:
        try:
            return SemanticRecall.from_json(json.loads(value) if isinstance(value, str) and value else value)
        except StoreError as error:
            raise ValueError(str(error)) from None

    @property
    def embedder_options(self) -> EmbedderOptions | None:
        """What makes the embedder; None where none is named."""
        if self.embedder is None:
            return None
        return EmbedderOptions(
            kind=self.embedder,
            model=self.embedder_model,
            dimensions=self.embedder_dimensions,
            url=self.embedder_url,
            api_key=self.embedder_api_key.get_secret_value() if self.embedder_api_key else None,
            timeout=self.embedder_timeout,
            azure_api_version=self.embedder_azure_api_version,
        )

    @property
    def search_options(self) -> SearchOptions:
        """How semantic search is done."""
        return SearchOptions(
            engine=self.vector_engine,
            index=self.vector_index,
            cache_bytes=self.vector_cache_bytes,
            cache_seconds=self.vector_cache_seconds,
            timeout=self.database_timeout,
        )

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of other sites that may call."""
        return tuple(self.cors_origins.split())

    @property
    def query_limits(self) -> QueryLimits:
        """The limits on a query."""
        return QueryLimits(
            max_depth=self.max_depth,
            max_aliases=self.max_aliases,
            max_directives=self.max_directives,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            unpaged_rows=self.max_page_size,
            max_seconds=self.request_timeout,
            last_messages=self.last_messages or 0,
            semantic_recall=self.semantic_recall or SemanticRecall(),
        )

    @property
    def limits(self) -> Limits:
        """The limits of the store."""
        return Limits(self.max_page_size, self.max_rows)
