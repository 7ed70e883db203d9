"""A run that loses its place in a deployment's limit continues."""

import time
from uuid import uuid4

import pytest
from prefect import flow_engine
from prefect._internal.concurrency.cancellation import CancelledError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.servers.isolated import keep_running_without_a_lease


def test_a_run_without_a_lease_is_not_ended(prefect_api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server does not know the lease, as after a restart.

    By default, Prefect ends such a run after a few seconds.
    """
    monkeypatch.setattr(flow_engine, "maintain_concurrency_lease", flow_engine.maintain_concurrency_lease)
    monkeypatch.setattr("prefect.concurrency._leases._RENEWAL_RETRY_BASE_DELAY", 0.05)
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        with (
            pytest.raises(CancelledError),
            flow_engine.maintain_concurrency_lease(uuid4(), 300, raise_on_lease_renewal_failure=True),
        ):
            for _ in range(200):
                time.sleep(0.05)
            pytest.fail("Prefect no longer ends such a run: this package need not prevent it")
        keep_running_without_a_lease()
        with flow_engine.maintain_concurrency_lease(uuid4(), 300, raise_on_lease_renewal_failure=True):
            time.sleep(3)
