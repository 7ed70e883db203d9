"""Training as a Slurm batch job: `sbatch` starts it, `squeue` shows its state, `scancel` ends it.

The machine that runs the flow needs these commands, and NMT_HOME on a file system that it shares with the nodes. The
name of the job is derived from its folder, so a flow that starts again finds the running job.
"""

import contextlib
import logging
import os
import re
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.launchers.cluster_job import ClusterJob, cluster_job, look_anew, template_of, training_environment
from flows.launchers.reach import NoAnswerError, OutOfReachError, Pace, Reach
from flows.settings import Settings
from nmt_core.errors import ConfigError, PreemptedError
from nmt_core.execution.torchrun import Launched, Notice
from nmt_core.train.spent import note_allocation

_log = logging.getLogger(__name__)

_RENDEZVOUS = "RENDEZVOUS"
"""Placeholder of the address where the nodes meet. The batch script replaces it when the job has its nodes."""
_PASSING = re.compile(r"unable to contact|timed out|connection refused|zero bytes|try again|temporarily|standby", re.I)
"""Messages of Slurm's commands when the controller does not answer, as opposed to errors of the job."""
_KILLS_TRAINING = 'kill -TERM "$srun"'
"""Command of the templates before version 0.2. `srun` does not pass SIGTERM on, but kills the processes."""
_HELD = "held"
"""Part of the reasons for which Slurm never starts a job by itself, such as `launch failed requeued held`."""
_COLONS = 2  # in a time of Slurm
_SECONDS_FOR_A_COMMAND = 120
_SECONDS_BETWEEN_LOOKS = 1.0
"""Interval between reads of the log, which is a file and cheap to read."""


@dataclass(frozen=True)
class SlurmLauncher:
    """Launcher that starts training as a Slurm job."""

    settings: Settings
    recipe: str
    poll: float = 3.0
    """Seconds between two requests to the controller while the job changes, and up to 8 times that otherwise."""
    grace: float = 120.0
    """Seconds for a checkpoint after a job was told to end."""
    patience: float = 1_800.0
    """Seconds without an answer of the controller before giving up."""

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """Launch training as `Launcher.launch` does.

        Raises:
            ConfigError: Slurm is not installed here, or refuses the job, or the template is outdated.
            PreemptedError: The job was cancelled before it ran.
            OutOfReachError: The controller has not answered for too long.
        """
        job = cluster_job(self.settings, self.recipe, folder)
        _require_a_checkpoint_at_the_end(template_of(self.settings))
        messages: deque[str] = deque()
        launched = _SlurmJob(job, Reach("the Slurm controller", self.patience, messages.append), messages, self.poll)
        try:
            launched.start(self._submission(job))
            yield launched
        except (OutOfReachError, ConfigError):  # it cannot be cancelled either
            raise
        except BaseException:
            launched.cancel(self.grace)
            raise
        look_anew(job.folder)

    def manifest(self, folder: Path) -> str:
        """Return the command that submits the job of a folder, and the script that it submits."""
        command = self._submission(cluster_job(self.settings, self.recipe, folder))
        return f"# {shlex.join(command)}\n{template_of(self.settings).read_text(encoding='utf-8')}"

    def _submission(self, job: ClusterJob) -> list[str]:
        folder_in_a_pattern = str(job.folder).replace("%", "%%")
        settings = [f"{name}={value}" for name, value in training_environment().items()]
        return [
            *("sbatch", "--parsable", f"--job-name={job.name}", f"--nodes={job.least_nodes}-{job.most_nodes}"),
            *(f"--chdir={job.folder}", f"--output={folder_in_a_pattern}/slurm-%j.log", str(template_of(self.settings))),
            *("env", *settings, *job.command(_RENDEZVOUS, sys.executable)),
        ]


@dataclass(frozen=True)
class _Queued:
    """Job that has not ended."""

    slurm_id: str
    state: str
    reason: str

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason not in {"", "None"} else ""
        said = f"Slurm job {self.slurm_id} is {self.state}{reason}"
        if _HELD not in self.reason.lower():
            return said
        return (
            f"{said}. It does not start until you run `scontrol release {self.slurm_id}`. `sinfo --list-reasons` shows "
            "problems of nodes, such as a full disk"
        )


@dataclass(frozen=True)
class _End:
    """End of a job."""

    state: str
    code: int
    nodes: int = 0
    """Number of its nodes. 0 if the job never had one, or waited for nodes again when it ended."""
    time: str = ""
    """Time that it had its nodes, as Slurm accounts for it."""

    @property
    def node_seconds(self) -> float:
        """Seconds of `time`, which is [days-]hours:minutes:seconds, times the nodes."""
        days, _, clock = self.time.rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":")) if clock.count(":") == _COLONS else (0, 0, 0)
        return self.nodes * (((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)

    def __str__(self) -> str:
        used = f", after {self.time} on {self.nodes} node{'s' * (self.nodes > 1)}" if self.nodes and self.time else ""
        return f"{self.state}, exit code {self.code}{used}"


@dataclass
class _SlurmJob:
    """Running job, which implements `Launched`."""

    job: ClusterJob
    reach: Reach
    said: deque[str]
    """Messages about Slurm that the user has not seen yet."""
    poll: float
    slurm_id: str = ""
    """Number of the job in Slurm."""
    _seen: str = ""
    _end: _End | None = None

    def start(self, command: Sequence[str]) -> None:
        """Submit the job, or find it in the queue."""
        self.slurm_id = self.reach.insist(lambda: _find_or_submit(self.job, command), self.poll)

    def lines(self) -> Iterator[str]:
        """Yield lines as `Launched.lines` does."""
        log = _Log(self.job.folder / f"slurm-{self.slurm_id}.log")
        pace = Pace(self.poll)
        is_over = False
        while not is_over:
            is_over = pace.is_due() and self.reach.ask(lambda: self._is_over(pace)) is True
            yield from self._tell()
            yield from log.lines(is_over)
            if not is_over:
                time.sleep(min(self.poll, _SECONDS_BETWEEN_LOOKS))
        self._end = self.reach.insist(lambda: _end_of(self.slurm_id), self.poll)
        self.said.append(f"Slurm job {self.slurm_id} ended: {self._end}")
        if node_seconds := self._end.node_seconds:
            note_allocation(self.job.folder, node_seconds)
        yield from self._tell()
        if self._end.state == "CANCELLED" and not self._end.nodes:
            raise PreemptedError(
                f"train: Slurm job {self.slurm_id} was cancelled before it ran: the same command submits it again"
            )

    def wait(self) -> int:
        """Wait as `Launched.wait` does."""
        while self._end is None:  # the caller has not read all lines
            for _ in self.lines():
                pass
        return self._end.code

    def cancel(self, grace: float) -> None:
        """Request a checkpoint, wait for it, and end the job in any case."""
        # Without --batch the signal goes to the training processes, whatever the batch script does with its own.
        if not (self._is_ended_by(("--signal=TERM",), grace) or self._is_ended_by((), grace)):
            _log.warning(
                "Slurm job %s may still be running: end it with `scancel --name=%s`", self.slurm_id, self.job.name
            )

    def _is_ended_by(self, options: tuple[str, ...], grace: float) -> bool:
        """Call `scancel` as soon as the controller answers, and wait for the end of the job."""
        deadline, is_sent = time.monotonic() + grace, False
        while time.monotonic() < deadline:
            with contextlib.suppress(NoAnswerError, _RefusedError):
                queued = _queued(self.job.name)
                if queued is None:
                    return True
                if not is_sent:  # a job that has not begun to train is removed
                    _run("scancel", *(options if _trains(queued) else ()), queued.slurm_id)
                    is_sent = True
            time.sleep(self.poll)
        return False

    def _is_over(self, pace: Pace) -> bool:
        queued = _queued(self.job.name)
        if queued and str(queued) != self._seen:
            self._seen = str(queued)
            self.said.append(self._seen)
            pace.hurry()
        return queued is None

    def _tell(self) -> Iterator[str]:
        while self.said:
            yield Notice(self.said.popleft())


@dataclass
class _Log:
    """Growing file on another machine."""

    file: Path
    _position: int = 0

    def lines(self, is_complete: bool) -> Iterator[str]:
        """Yield new complete lines, and the incomplete rest if the log has ended."""
        try:
            with self.file.open("rb") as stream:  # open it each time: NFS checks for changes on open
                stream.seek(self._position)
                new = stream.read()
        except FileNotFoundError:
            return
        whole = new if is_complete else new[: new.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            yield line.decode("utf-8", "replace").rstrip()


class _RefusedError(Exception):
    """Slurm refuses the request."""


def _require_a_checkpoint_at_the_end(template: Path) -> None:
    """Raise an error for a copy of an early `train.sbatch`, whose training was killed where it should save."""
    if _KILLS_TRAINING in template.read_text(encoding="utf-8"):
        raise ConfigError(
            f"NMT_LAUNCH_TEMPLATE={template}: at the end of its time it kills the training before it saves a "
            f"checkpoint, because of the line with `{_KILLS_TRAINING}`: copy infra/slurm/train.sbatch again, and set "
            "your options in the copy"
        )


def _find_or_submit(job: ClusterJob, command: Sequence[str]) -> str:
    """Return the number of the job.

    It is searched before it is submitted, because a request that failed here may have succeeded in Slurm.
    """
    if queued := _queued(job.name):
        return queued.slurm_id
    try:
        answer = _run(*command)
    except _RefusedError as error:
        raise ConfigError(
            f"NMT_LAUNCHER=slurm: Slurm refuses the job: {error}: copy infra/slurm/train.sbatch, set the options that "
            "your cluster needs, and set NMT_LAUNCH_TEMPLATE to the copy"
        ) from None
    return answer.split(";")[0]  # on a federation the name of the cluster follows


def _queued(name: str) -> _Queued | None:
    """Return the job of this name that has not ended, or None."""
    try:
        answer = _run("squeue", "--noheader", f"--user={os.getuid()}", f"--name={name}", "--format=%i|%T|%r")
    except _RefusedError as error:  # there is nothing to refuse, so the problem is temporary
        raise NoAnswerError(f"{error}") from None
    return _Queued(*answer.splitlines()[0].split("|", 2)) if answer else None


def _trains(queued: _Queued) -> bool:
    """Return True if the job has started processes. A signal to a job without any would be lost."""
    steps = _run("squeue", "--noheader", "--steps", f"--jobs={queued.slurm_id}", "--format=%i")
    return any(step.rpartition(".")[2].isdigit() for step in steps.split())


_ACCOUNTS = (
    (
        ("scontrol", "show", "job"),
        r"JobState=(?P<state>\w+)[\s\S]*?ExitCode=(?P<code>\d+):(?P<signal>\d+)[\s\S]*?RunTime=(?P<time>\S+)"
        r"[\s\S]*? NodeList=(?P<list>\S*)[\s\S]*? NumNodes=(?P<nodes>\d+)",
    ),
    (
        (
            *("sacct", "--noheader", "--allocations", "--parsable2"),
            *("--format=State,ExitCode,Elapsed,NodeList,NNodes", "--jobs"),
        ),
        r"(?P<state>\w+)[^|]*\|(?P<code>\d+):(?P<signal>\d+)\|(?P<time>[^|]*)\|(?P<list>[^|]*)\|(?P<nodes>\d+)",
    ),
)
"""Commands that show how a job ended, and the form of their answers.

The controller forgets a job after some minutes. The accounting, if it is configured, does not.
"""


def _end_of(slurm_id: str) -> _End:
    """Return how a job ended."""
    for command, pattern in _ACCOUNTS:
        with contextlib.suppress(_RefusedError, ConfigError):
            if match := re.search(pattern, _run(*command, slurm_id)):
                signal, code = int(match["signal"]), int(match["code"])
                failed = code or (128 + signal if signal else 1)
                nodes = 0 if match["list"] in {"", "(null)", "None assigned"} else int(match["nodes"])
                return _End(match["state"], 0 if match["state"] == "COMPLETED" else failed, nodes, match["time"])
    return _End("in an unknown state", 1, nodes=1)


def _run(*command: str) -> str:
    """Return the output of a Slurm command.

    Raises:
        NoAnswerError: The controller does not answer.
        _RefusedError: Slurm refuses the request.
        ConfigError: The command does not exist.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_FOR_A_COMMAND, check=False)
    except FileNotFoundError:
        raise ConfigError(
            f"NMT_LAUNCHER=slurm: command {command[0]} not found: run `nmt` on a machine that submits to Slurm"
        ) from None
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"{command[0]} took more than {_SECONDS_FOR_A_COMMAND} s") from None
    if done.returncode:
        message = " ".join(done.stderr.split()) or f"{command[0]} failed with exit code {done.returncode}"
        raise NoAnswerError(message) if _PASSING.search(message) else _RefusedError(message)
    return done.stdout.strip()
