"""The embedding service under the tests."""

from collections.abc import AsyncIterator

import pytest

from tests.store.embedders.service import EmbeddingService, running_service


@pytest.fixture(scope="session")
async def shared_service(anyio_backend: str) -> AsyncIterator[EmbeddingService]:
    """An OpenAI-compatible service; starting and stopping one takes longer than most tests."""
    async with running_service() as service:
        yield service


@pytest.fixture
def service(shared_service: EmbeddingService) -> EmbeddingService:
    """The service, with nothing prepared and nothing asked yet."""
    shared_service.forget()
    return shared_service
