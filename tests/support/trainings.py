"""Trainings on a cluster: submitted, watched, and disturbed at an update."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.launchers.slurm import SlurmLauncher
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.execution.torchrun import Launcher
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from support.until import patient, until


@dataclass
class Watched(SilentReporter):
    """Reporter that keeps its messages, and calls a function once when training has reached an update."""

    update: int = 0
    act: Callable[[], None] | None = None
    lines: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    points: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def log(self, message: str) -> None:
        self.lines.append(message)

    def notice(self, message: str) -> None:
        self.notices.append(message)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.points.append((step, dict(values)))
        if self.act and step >= self.update:
            act, self.act = self.act, None
            act()


@dataclass
class Training:
    """One training, by any launcher, which may be started several times."""

    config: PipelineConfig
    inputs: dict[str, Artifact]
    store: Store

    def by(self, launcher: Launcher, reporter: SilentReporter) -> Artifact:
        job = Job(reporter, Resources(), launcher=launcher)
        return run_stage(STAGES["train"], self.config, self.store, self.inputs, job).artifact

    def on_slurm(self, reporter: SilentReporter | None = None, **settings: str) -> Artifact:
        """Train through Slurm, with the template of the package if the settings name no other."""
        environment = {"NMT_LAUNCHER": "slurm", "NMT_PROCESSES": "1"} | settings
        launcher = SlurmLauncher(Settings.load(environment), "tiny", poll=0.3)
        return self.by(launcher, reporter or SilentReporter())

    @property
    def saved_update(self) -> int:
        """Update of the newest complete checkpoint."""
        return max(int(file.parent.name) for file in self.store.root.glob("train/*/checkpoints/*/.metadata"))

    def updates(self) -> list[float]:
        """Updates of the training's own curve, in its order."""
        (curve,) = self.store.root.glob("train/*/metrics.jsonl")
        points = map(json.loads, curve.read_text().splitlines())
        return [point["update"] for point in points if "train_loss" in point]

    def log(self) -> str:
        """Return everything that the jobs have printed."""
        return "".join(file.read_text() for file in sorted(self.store.root.glob("train/*/slurm-*.log")))


class InBackground:
    """Call in a thread, and its result."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        self._thread.join(patient(300))
        assert not self._thread.is_alive()
        if self._error:
            raise self._error
        return self._result

    def until(self, condition: Callable[[], Any]) -> Any:
        """Return the first true value of the condition, while the call runs."""

        def holds() -> Any:
            if self._error:
                raise self._error
            return condition()

        return until(holds, every=0.1)
