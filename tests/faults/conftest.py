"""Training jobs and translation jobs in processes of their own, to be killed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.until import command_line, patient, until

from nmt_core.config import PipelineConfig
from nmt_core.jobs.folder import JobFolder, read_bytes
from nmt_core.store.artifacts import Artifact
from nmt_core.train.launch import METRICS

SECONDS = 300
COMPUTED = {
    *("update", "epoch", "train_loss", "dev_loss", "best_dev_loss"),
    *("learning_rate", "gradient_norm", "target_tokens", "useful_token_share"),
}
"""Values of the curves that do not depend on the clock or the machine."""
STAGE_IN_A_PROCESS = str(Path(__file__).with_name("stage_in_a_process.py"))
TRANSLATION_IN_A_PROCESS = str(Path(__file__).with_name("translation_in_a_process.py"))


@dataclass
class Translation:
    """Translation job that any number of processes do. Its output has a name in a place, and its folder is `job`."""

    bundle: Path
    source: str
    place: str
    name: str
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The place, if it is on this machine."""
        return Path(self.place)

    def output(self) -> bytes | None:
        """Return the output, or None if there is none yet."""
        return read_bytes(f"{self.place}/{self.name}")

    def unreadable(self) -> bytes | None:
        """Return the lines of the text that are not UTF-8, as they have been kept."""
        return read_bytes(f"{self.place}/{self.name}.unreadable.jsonl")

    def start(self, workers: int = 1, within: Sequence[str] = ()) -> "subprocess.Popen[str]":
        """Start a process that does the rest of the job."""
        arguments = [self.bundle, self.source, self.place, self.name, workers]
        command = [*within, sys.executable, TRANSLATION_IN_A_PROCESS, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def translated(self) -> int:
        """Chunks that are done."""
        folder = JobFolder(f"{self.place}/job")
        plan = folder.plan()
        return len(folder.parts(plan.order.fingerprint).translated()) if plan else 0

    def wait_for(self, chunks: int, process: "subprocess.Popen[str]") -> None:
        """Return when this many chunks are done, while the process runs."""

        def are_done() -> bool:
            assert process.poll() is None, process.communicate()
            return self.translated() >= chunks

        until(are_done, seconds=SECONDS, every=0.01)

    def kill_when(self, condition: Callable[[], object]) -> None:
        """Start a process, and kill it as soon as the condition holds."""
        process = self.start()

        def holds() -> bool:
            assert process.poll() is None, process.communicate()
            return bool(condition())

        until(holds, every=0.001)
        process.kill()
        process.wait(patient(SECONDS))

    @staticmethod
    def ended(process: "subprocess.Popen[str]") -> int:
        """Return the number of rows that a process translated, which must have succeeded."""
        out, error = process.communicate(timeout=patient(SECONDS))
        assert process.returncode == 0, error
        return int(out)


@dataclass
class Training:
    """The real `train` stage, in its own process and store, which may be started several times."""

    folder: Path
    config: PipelineConfig
    inputs: dict[str, Artifact]
    within: Sequence[str] = ()
    """Prefix of the command."""
    stage: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def log(self) -> str:
        """Return everything that has been printed."""
        return (self.folder / "log").read_text()

    @property
    def made(self) -> Path:
        """Return the artifact, finished or not."""
        (found,) = [path for path in self._seen.glob("store/train/*") if path.is_dir()]
        return found

    @property
    def points(self) -> list[dict[str, float]]:
        """Return the points of its curves, without the values that depend on the clock or the machine."""
        return points(self.made)

    @property
    def _seen(self) -> Path:
        """Return the folder as the stage sees it, which may have mounted something there."""
        if self.within and self.stage and self.stage.poll() is None:
            return Path(f"/proc/{self.stage.pid}/root{self.folder}")
        return self.folder

    def start(self, processes: int = 2) -> None:
        """Start the stage."""
        inputs = {name: (artifact.fingerprint, str(artifact.path)) for name, artifact in self.inputs.items()}
        arguments = [self.folder / "store", json.dumps(inputs), processes, self.config.model_dump_json()]
        command = [*self.within, sys.executable, STAGE_IN_A_PROCESS, *map(str, arguments)]
        with (self.folder / "log").open("ab") as log:
            self.stage = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        assert self.stage
        return self.stage.wait(patient(SECONDS))

    def run(self, processes: int = 2) -> Path:
        """Run the stage, which must succeed, and return the artifact."""
        self.start(processes)
        assert self.wait() == 0, self.log
        return self.made

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Return as soon as the condition holds, while the stage runs."""

        def holds() -> bool:
            assert self.stage
            found = condition()
            assert found or self.stage.poll() is None, f"the stage has ended: {self.log}"
            return bool(found)

        until(holds, lambda: f"waited without success: {self.log}", SECONDS, every=0.005)

    def wait_for_update(self, update: int) -> None:
        """Return when this many updates are done, and the checkpoint that is due by then is complete."""
        due = update >= self.config.train.checkpoint_every

        def is_there() -> bool:
            with suppress(FileNotFoundError, ValueError, IndexError):  # the folder or the last line is not there yet
                return self.points[-1]["update"] >= update and (self.newest_complete() > 0 or not due)
            return False

        self.wait_for(is_there)

    def processes(self) -> list[psutil.Process]:
        """Return all processes: the stage first, then torchrun and the processes that train, orphans too."""
        return sorted(processes_naming(str(self.folder)), key=lambda process: process.pid)

    def agents(self) -> list[psutil.Process]:
        """Return the processes of `torchrun`."""
        return [process for process in self.processes() if "torch.distributed.run" in command_line(process)]

    def ranks(self) -> list[psutil.Process]:
        """Return the processes that train."""
        modules = [(process, command_line(process)) for process in self.processes()]
        return [each for each, line in modules if "nmt_core.train" in line and "torch.distributed.run" not in line]

    def newest_complete(self) -> int:
        """Update of the newest whole checkpoint."""
        files = self._seen.glob("store/train/*/checkpoints/*/.metadata")
        return max((int(file.parent.name) for file in files), default=0)

    def freeze(self) -> list[psutil.Process]:
        """Stop all processes with SIGSTOP."""
        frozen = self.processes()
        for process in frozen:
            process.suspend()
        return frozen

    def kill_all(self) -> None:
        """Kill the whole tree with SIGKILL at one moment, so that no process sees another one die."""
        for process in self.freeze():
            process.kill()
        if self.stage:
            self.stage.wait(patient(SECONDS))

    def kept(self) -> bytes:
        """Return the curves up to the newest complete checkpoint.

        They contain times, so that a process that computes them again writes others.
        """
        lines = (self.made / METRICS).read_bytes().splitlines(keepends=True)
        newest = self.newest_complete()
        return b"".join(line for line in lines if line.endswith(b"\n") and json.loads(line)["update"] <= newest)


def processes_naming(text: str) -> list[psutil.Process]:
    """Processes with a text in their command line."""
    return [process for process in psutil.process_iter() if text in " ".join(command_line(process))]


def points(folder: Path) -> list[dict[str, float]]:
    """Points of the curves, as far as they are computed."""
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [{name: point[name] for name in point if name in COMPUTED} for point in lines]


@pytest.fixture(scope="session")
def curve() -> Callable[[Path], list[dict[str, float]]]:
    """Reads the curves of a run."""
    return points


@pytest.fixture(scope="session")
def named_in() -> Callable[[str], list[psutil.Process]]:
    """Finds processes by what their command line names."""
    return processes_naming


@pytest.fixture(scope="module")
def training(
    training_inputs: Any, make_config: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Training]]:
    """Make jobs, each in its own folder. Every update is validated, so the curves show each one."""
    made: list[Training] = []

    def make(
        train: dict[str, Any], model: dict[str, Any], encode: Artifact | None = None, within: Sequence[str] = ()
    ) -> Training:
        config = make_config(train={"validate_every": 1} | train, model=model)
        inputs = training_inputs(**({"encode": encode} if encode else {}))
        made.append(Training(tmp_path_factory.mktemp("job"), config, inputs, within))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


@pytest.fixture(scope="module")
def translations(tiny_bundle: Path) -> Iterator[Callable[..., Translation]]:
    """Make translation jobs of a source in a folder or store, in fp32 unless a bundle is given."""
    made: list[Translation] = []

    def make(source: str, place: str, bundle: Path = tiny_bundle, name: str = "out.parquet") -> Translation:
        made.append(Translation(bundle, source, place, name))
        return made[-1]

    yield make
    for process in (process for job in made for process in job.started):
        if process.poll() is None:
            process.kill()
        process.communicate()
