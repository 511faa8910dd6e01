"""Every error has its place: ours a code for the client, the driver's a translation or a reason to have none."""

import importlib
import pkgutil
from typing import Any

import pymongo.errors
import pytest

import store
from graph.errors import CODES, ErrorCode
from store.driver import translated_errors
from store.errors import StoreError, Unavailable

SECRET = "svc:secret@db.internal"

# What is left as it is, and why: it tells of a mistake in our code or in stored data, and is masked and logged.
NOT_AN_OUTAGE: dict[type[Exception], str] = {
    pymongo.errors.PyMongoError: "the base of all; never raised itself",
    pymongo.errors.ProtocolError: "the driver and the server disagree about the wire protocol",
    pymongo.errors.OperationFailure: "the server refuses the command: ours is wrong, unless the code says otherwise",
    pymongo.errors.CursorNotFound: "a cursor was left unread for too long",
    pymongo.errors.WriteError: "serving never writes",
    pymongo.errors.WriteConcernError: "serving never writes",
    pymongo.errors.DuplicateKeyError: "serving never writes",
    pymongo.errors.BulkWriteError: "serving never writes",
    pymongo.errors.ClientBulkWriteException: "serving never writes",
    pymongo.errors.InvalidName: "names of collections are ours",
    pymongo.errors.CollectionInvalid: "collections are not created",
    pymongo.errors.DocumentTooLarge: "serving never writes",
    pymongo.errors.EncryptionError: "client-side encryption is not used",
    pymongo.errors.EncryptedCollectionError: "client-side encryption is not used",
}
ARGUMENTS: dict[type[Exception], tuple[Any, ...]] = {
    pymongo.errors.BulkWriteError: ({},),
    pymongo.errors.ClientBulkWriteException: ({}, False),
    pymongo.errors.EncryptionError: (ValueError(SECRET),),
    pymongo.errors.EncryptedCollectionError: (ValueError(SECRET), {}),
}


def descendants(kind: type[Exception]) -> list[type[Exception]]:
    """Every class below another."""
    return [found for child in kind.__subclasses__() for found in (child, *descendants(child))]


def store_errors() -> list[type[Exception]]:
    """Every error of ours, after every module that may hold one was imported."""
    for module in pkgutil.walk_packages(store.__path__, "store."):
        importlib.import_module(module.name)
    return descendants(StoreError)


def driver_errors() -> list[type[Exception]]:
    """Every exception of the driver."""
    candidates = vars(pymongo.errors).values()
    return [kind for kind in candidates if isinstance(kind, type) and issubclass(kind, pymongo.errors.PyMongoError)]


def translated(error: Exception) -> Exception:
    """What is raised where the driver raises `error`."""
    with pytest.raises(Exception, match=r".") as caught, translated_errors():
        raise error
    return caught.value


# Ours


@pytest.mark.parametrize("kind", store_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_store_has_a_code(kind: type[StoreError]) -> None:
    assert isinstance(CODES.get(kind), ErrorCode)


def test_the_codes_are_the_documented_ones() -> None:
    assert set(ErrorCode) == {
        "BAD_USER_INPUT",
        "UNAUTHENTICATED",
        "FORBIDDEN",
        "NOT_FOUND",
        "EMBEDDING_MISMATCH",
        "EMBEDDER_FAILED",
        "LIMIT_EXCEEDED",
        "UNAVAILABLE",
        "INTERNAL",
    }
    assert CODES[Unavailable] == "UNAVAILABLE"


# The driver's


@pytest.mark.parametrize("kind", driver_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_is_translated_or_left_for_a_reason(kind: type[Exception]) -> None:
    error = kind(*ARGUMENTS.get(kind, (SECRET,)))
    found = translated(error)
    assert (found is error) if kind in NOT_AN_OUTAGE else isinstance(found, Unavailable)


@pytest.mark.parametrize("kind", [pymongo.errors.ServerSelectionTimeoutError, pymongo.errors.AutoReconnect])
def test_an_outage_keeps_the_drivers_words_for_the_log_alone(kind: type[Exception]) -> None:
    found = translated(kind(f"{SECRET}: connection refused"))
    assert SECRET in str(found.__cause__)
    assert "secret" not in str(found)
    assert "db.internal" not in str(found)


def test_a_timeout_of_our_own_is_an_outage() -> None:
    assert isinstance(translated(TimeoutError()), Unavailable)


# Unauthorized, AuthenticationFailed, and what Atlas says for both.
REFUSED = [13, 18, 8000]
# HostUnreachable, HostNotFound, NetworkTimeout, FailedToSatisfyReadPreference, ExceededTimeLimit, SocketException:
# what a router or a member still says of others that are away once the driver has tried again.
AWAY = [6, 7, 89, 133, 262, 9001]


@pytest.mark.parametrize("code", [*REFUSED, *AWAY])
def test_a_refusal_that_is_no_mistake_of_ours_is_an_outage(code: int) -> None:
    found = translated(pymongo.errors.OperationFailure(SECRET, code))
    assert isinstance(found, Unavailable)
    assert SECRET not in str(found)


# BadValue, NamespaceNotFound, an unknown stage.
@pytest.mark.parametrize("code", [None, 2, 26, 40324])
def test_a_refusal_of_our_command_is_our_fault(code: int | None) -> None:
    error = pymongo.errors.OperationFailure("no", code)
    assert translated(error) is error
