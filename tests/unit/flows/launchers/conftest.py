"""Stand-ins for a Slurm cluster and for a Kubernetes API server. Neither shows anything about a real one."""

import contextlib
import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.until import until

STAND_IN = Path(__file__).with_name("slurm_stand_in.py")
KUBERNETES = Path(__file__).with_name("kubernetes_stand_in.py")
COMMANDS = ("sbatch", "squeue", "scancel", "srun", "scontrol", "sacct")


class SlurmStandIn:
    """The stand-in as tests see it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def be(self, condition: str) -> None:
        """Make the controller `away`, `busy` or `forgetful`."""
        (self.home / condition).touch()

    def be_no_more(self, condition: str) -> None:
        (self.home / condition).unlink()

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs that were ever submitted."""
        return [json.loads(file.read_text()) for file in sorted(self.home.glob("*.json"))]

    def states(self) -> list[str]:
        return [job["state"] for job in self.jobs()]

    def send(self, name: str) -> None:
        """Send a signal to the batch script of the newest job, as an administrator would."""
        os.kill(self.jobs()[-1]["pid"], signal.Signals[name])


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmStandIn]:
    """Commands of Slurm on the PATH. Jobs that a test leaves behind end with the fixture."""
    home, commands = tmp_path / "slurm", tmp_path / "bin"
    home.mkdir()
    commands.mkdir()
    for name in COMMANDS:
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{STAND_IN}" {name} "$@"\n')
        (commands / name).chmod(0o755)
    (commands / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")  # the rendezvous stays on the loopback
    (commands / "hostname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(home))
    stand_in = SlurmStandIn(home)
    yield stand_in
    for job in stand_in.jobs():
        if job["state"] in {"PENDING", "RUNNING"}:
            (home / f"{job['number']}.json").write_text(json.dumps(job | {"state": "CANCELLED"}))
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.killpg(job["pid"], signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Server of `kubernetes_stand_in.py`, which the kubeconfig names. Its pods end with it."""
    specification = importlib.util.spec_from_file_location("kubernetes_stand_in", KUBERNETES)
    assert specification and specification.loader
    sys.modules["kubernetes_stand_in"] = module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    server = module.KubernetesStandIn()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "teamspace"}}],
        "clusters": [{"name": "here", "cluster": {"server": server.address}}],
        "users": [{"name": "me", "user": {"token": "none"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    yield server
    server.end()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds."""

    return until
