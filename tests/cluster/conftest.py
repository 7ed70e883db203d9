"""A real Slurm cluster of two nodes on this machine, trainings that are submitted to it, and a network of hosts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import network
from support.network import Network
from support.slurm import SlurmCluster, missing, slurm_cluster
from support.trainings import Training

from nmt_core.store.artifacts import Store

# No rectifiers: one bit of a number next to zero turns a gradient on or off there.
SMOOTH = {"activation": "gelu", "dropout": 0.0}


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[SlurmCluster]:
    if problem := missing():
        pytest.fail(f"no Slurm cluster on this machine: {problem}")
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(running_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """Cluster that each test gets without jobs and with both nodes."""
    monkeypatch.setenv("SLURM_CONF", str(running_cluster.configuration))
    yield running_cluster
    running_cluster.clear()


@pytest.fixture
def joined(request: pytest.FixtureRequest) -> Iterator[Network]:
    """Network of as many hosts as the module of the test says."""
    if problem := network.missing():
        pytest.fail(f"no network of hosts on this machine: {problem}")
    with network.network(request.module.HOSTS) as hosts:
        yield hosts


@pytest.fixture
def training_of(make_config: Any, training_inputs: Any, tmp_path: Path) -> Callable[..., Training]:
    """Make a training of the tiny model, in its own store."""

    def make(store: str = "store", **train: Any) -> Training:
        return Training(make_config(train=train, model=SMOOTH), training_inputs(), Store(tmp_path / store))

    return make
