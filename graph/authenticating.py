"""Making the authenticator that the settings name."""

from graph.api_keys import ApiKeys, read_entries
from graph.identity import Authenticator, NoAuthentication
from graph.settings import Settings
from graph.tokens import TokenOptions, Tokens
from store.errors import InvalidArgument


def create_authenticator(settings: Settings) -> Authenticator:
    """The authenticator. Raises InvalidArgument for settings that do not go together, OSError for a missing file."""
    if settings.auth == "api-key":
        return _api_keys(settings)
    if settings.auth == "jwt":
        return Tokens(_token_options(settings))
    return NoAuthentication()


def _api_keys(settings: Settings) -> ApiKeys:
    text = settings.api_keys.get_secret_value() if settings.api_keys else ""
    entries = read_entries(text, settings.api_keys_file)
    if not entries:
        raise InvalidArgument("RECALLQL_AUTH=api-key needs RECALLQL_API_KEYS or RECALLQL_API_KEYS_FILE.")
    return ApiKeys(entries)


def _token_options(settings: Settings) -> TokenOptions:
    return TokenOptions(
        secret=settings.jwt_secret.get_secret_value() if settings.jwt_secret else None,
        public_key=settings.jwt_public_key,
        jwks_url=settings.jwt_jwks_url,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        leeway=settings.jwt_leeway,
        claim=settings.jwt_claim,
        scope_claim=settings.jwt_scope_claim,
    )
