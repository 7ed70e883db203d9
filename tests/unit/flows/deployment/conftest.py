"""A client of the Prefect server, on which a test leaves no deployments: later tests would list them."""

from collections.abc import Iterator

import pytest
from prefect.client.orchestration import SyncPrefectClient

from flows.deployment.installation import deployments_of_this_package


@pytest.fixture
def client(prefect: SyncPrefectClient) -> Iterator[SyncPrefectClient]:
    yield prefect
    for deployment in list(deployments_of_this_package(prefect)):
        prefect.delete_deployment(deployment.id)
