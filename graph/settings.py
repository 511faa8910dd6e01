"""Every setting, read once from the environment (prefix RECALLQL_); the README lists them all."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from store.paging import Limits


def _false(value: object) -> object:
    return False if isinstance(value, str) and value.strip().lower() == "false" else value


class Settings(BaseSettings):
    """The settings of one process. Raises pydantic's ValidationError that names each variable at fault."""

    model_config = SettingsConfigDict(env_prefix="RECALLQL_", frozen=True)

    mongodb_uri: SecretStr | None = Field(
        None, description="Connection string. Not set: `make run` starts an embedded server."
    )
    database: str = Field("mastra", min_length=1, description="Name of the database.")
    host: str = Field("127.0.0.1", description="Address to serve on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to serve on.")
    database_timeout: float = Field(
        5.0, gt=0, description="Seconds that one exchange with the database may take before it counts as unavailable."
    )
    max_page_size: int = Field(1000, ge=1, description="The most rows of one page.")
    max_rows: int = Field(50_000, ge=1, description="The most rows of an answer with `perPage: false`.")
    max_body_bytes: int = Field(1_000_000, ge=1, description="The largest request body.")
    last_messages: Annotated[int | Literal[False], BeforeValidator(_false)] = Field(
        10, description="Page size of `recall` when the request names none; `false`: no history."
    )
    create_indexes: bool = Field(
        False, description="Create missing indexes at start; the embedded server's are always created."
    )
    survey_interval: float = Field(
        300.0, gt=0, description="Seconds between two looks at how the collections are kept (collation, times as text)."
    )
    graphiql: bool = Field(True, description="Serve GraphiQL to browsers.")
    data_dir: Path = Field(Path(".recallql"), description="Folder of the embedded server's data.")

    @property
    def limits(self) -> Limits:
        """The limits of the store."""
        return Limits(self.max_page_size, self.max_rows)
