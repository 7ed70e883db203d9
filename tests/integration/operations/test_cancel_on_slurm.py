"""Cancel in Prefect while a stage trains on a real Slurm cluster: `make cluster` runs this."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.curves import UNDER_WAY, own_updates, saved_at
from support.slurm import SlurmCluster, missing, slurm_cluster
from support.until import until

pytestmark = [pytest.mark.cluster, pytest.mark.cpu(120), pytest.mark.timeout(1_800)]

_UPDATES = 1_000_000  # more than are made before it is cancelled


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    if problem := missing():
        pytest.fail(f"no Slurm cluster on this machine: {problem}")
    with slurm_cluster() as cluster:
        yield cluster


def test_cancel_ends_the_job_with_a_checkpoint_and_the_next_run_resumes(
    nmt: Any, start_up: Callable[..., Any], slurm: SlurmCluster, small_recipe: dict[str, Any]
) -> None:
    on_slurm = {"NMT_LAUNCHER": "slurm", "NMT_NODES": "2", "NMT_PROCESSES": "1"}
    up = start_up(nmt, SLURM_CONF=str(slurm.configuration), **on_slurm)
    train = small_recipe["train"] | {"max_updates": _UPDATES, "checkpoint_every": _UPDATES}
    config = small_recipe | {"train": train}

    def updates() -> list[int]:
        return [update for folder in nmt.home.glob(UNDER_WAY) for update in own_updates(folder)]

    def train_and_cancel(after: int) -> str:
        run = str(up.start("retrain/quickstart", config=config, until="train"))

        def trains() -> bool:
            assert up.state(run) in {"SCHEDULED", "PENDING", "RUNNING"}, up.call(f"flow_runs/{run}")["state"]
            return len([update for update in updates() if update > after]) >= 2

        until(trains, lambda: f"{up.call(f'flow_runs/{run}')['state']} {slurm.logs()}", every=0.2)
        assert len(slurm.jobs()) == 1
        assert up.call(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})["status"] == "ACCEPT"
        assert up.wait(run) == "CANCELLED"
        until(lambda: not slurm.jobs(), slurm.logs, every=0.2)
        return run

    train_and_cancel(after=0)
    saved = max(map(saved_at, nmt.home.glob(UNDER_WAY)))
    assert 0 < saved < _UPDATES, "saved for the cancellation, and not because it was due"
    again = train_and_cancel(after=max(updates()))
    first = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"
    assert dict(up.tracked(again, first))["train"] > saved, "it resumes, and does not start over"
