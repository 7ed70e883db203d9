"""A client of the Prefect server of the tests, under both of its names in them."""

from collections.abc import Iterator

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client


@pytest.fixture(scope="module")
def prefect(prefect_api: str) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def client(prefect: SyncPrefectClient) -> SyncPrefectClient:
    return prefect
