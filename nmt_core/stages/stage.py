"""The one shape of a stage, and the one way to run it.

A stage is a function `run(config, inputs, out, job) -> report`: it reads the artifacts in `inputs`, writes files into
the folder `out`, and returns numbers. Everything else - is it made already, who else is making it, where does it go,
what was it made from - is done here, the same for every stage, whether it was started from the command line or from
the Prefect UI. A stage sees only the sections of the configuration that its fingerprint holds.
"""

import errno
import hashlib
import importlib
import importlib.metadata
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict

from nmt_core.config import BudgetConfig, PipelineConfig
from nmt_core.config.renamed import with_first_names
from nmt_core.errors import DamagedError, StageError
from nmt_core.execution.pool import InProcess, Workers
from nmt_core.execution.torchrun import Launcher, LocalTorchrun
from nmt_core.store.artifacts import REPORT, Artifact, Identity, Manifest, Store, describe_outputs, fingerprint_of, now
from nmt_core.store.library_versions import versions

Inputs = Mapping[str, Artifact]
"""Artifacts that a stage reads, by the name of the stage that made them."""

IDENTITY = "identity.json"
"""File in what a resumable stage is making: all that decides it."""
STRICT_VERSIONS = "NMT_STRICT_VERSIONS"
"""Setting that makes the versions of libraries a part of what decides an artifact."""

_WORDS_OF_A_FULL_DISK = (os.strerror(errno.ENOSPC), "database or disk is full")  # the second are SQLite's


class StageReport(BaseModel):
    """What a stage has to tell. Subclasses add numbers, `dict[str, int]` counts and lists of samples."""

    model_config = ConfigDict(frozen=True)
    items_in: int
    """Rows, sentences or files that went in."""
    items_out: int
    """Rows, sentences or files that came out."""
    unit: str
    """What came out, and as a rule went in: pairs, tokens, checkpoints..."""


class Reporter(Protocol):
    """Where a running stage tells how it goes."""

    def progress(self, done: float, total: float, note: str = "") -> None:
        """`done` of `total` steps are done; `note` is a short text such as "loss 3.2, 4,100 tokens/s"."""

    def log(self, message: str) -> None:
        """A line for the log."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """A point of each curve."""


class SilentReporter:
    """A reporter that tells nobody."""

    def progress(self, done: float, total: float, note: str = "") -> None: ...

    def log(self, message: str) -> None: ...

    def metrics(self, step: int, values: Mapping[str, float]) -> None: ...


@dataclass(frozen=True)
class Resources:
    """What this machine gives to a stage; it changes how fast a result comes, not what it is."""

    threads: int = 1
    """CPU threads that a stage may keep busy."""
    scratch: str = ""
    """Folder, or address of any store that fsspec knows, for files that are needed between the steps of a stage and
    that all workers can reach; empty: beside the result."""

    def scratch_for(self, out: Path) -> str:
        """Where the stage that fills the folder `out` keeps such files: one place for each such folder anywhere."""
        if not self.scratch:
            return str(out / ".scratch")
        home = hashlib.sha256(f"{socket.gethostname()}:{out.absolute()}".encode()).hexdigest()[:8]
        return f"{self.scratch.rstrip('/')}/{out.name}-{home}"


@dataclass(frozen=True)
class Job:
    """What a stage gets beside its configuration and inputs."""

    reporter: Reporter
    resources: Resources
    workers: Workers = field(default_factory=InProcess)
    """Who does the shards of a stage that is cut into shards."""
    launcher: Launcher = field(default_factory=LocalTorchrun)
    """Who starts the processes that train."""
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    """What training may take."""
    allow_code: bool = True
    """Whether the recipe may name code of others to run."""


RunFunction = Callable[[PipelineConfig, Inputs, Path, Job], StageReport]
ConfigIdentity = Callable[[PipelineConfig], Identity]


@dataclass(frozen=True)
class Stage:
    """One box of the pipeline."""

    name: str
    version: int
    """Raised by whoever changes what the stage makes from the same input."""
    sections: tuple[str, ...]
    """Sections of the configuration that the stage reads; the first is its own."""
    needs: tuple[str, ...]
    """Stages whose artifacts it reads."""
    run: str
    """`module:function` of the `RunFunction`; a name, so that nothing is imported before it is needed."""
    identity: str = ""
    """`module:function` that gives the configuration's part of the identity; empty: the sections as they are."""
    resumable: bool = False
    """Whether `run` goes on from what a killed run left in `out`."""

    def load(self) -> RunFunction:
        """Import the function that does the work."""
        return cast(RunFunction, _load(self.run))

    def identity_of(self, config: PipelineConfig, inputs: Mapping[str, str]) -> Identity:
        """All that decides what the stage makes: `inputs` holds the fingerprint of each input."""
        own = restrict(config, self.sections)
        if self.identity:
            values = cast(ConfigIdentity, _load(self.identity))(own)
        else:
            values = {name: getattr(own, name).model_dump(mode="json") for name in self.sections}
        identity = {
            "stage": self.name,
            "version": self.version,
            "config": with_first_names(values),
            "inputs": {name: inputs[name] for name in self.needs},
        }
        return identity | {"versions": versions()} if os.environ.get(STRICT_VERSIONS) == "1" else identity


@dataclass(frozen=True)
class Outcome:
    """What became of one stage in one run."""

    artifact: Artifact
    reused: bool
    seconds: float


def restrict(config: PipelineConfig, sections: Sequence[str]) -> PipelineConfig:
    """The configuration with only these sections; reading any other raises AttributeError.

    A stage that read a section outside its fingerprint would be reused when it should run.
    """
    restricted = config.model_copy()
    for name in PipelineConfig.model_fields.keys() - set(sections):
        restricted.__dict__.pop(name, None)
    return restricted


def run_stage(
    stage: Stage,
    config: PipelineConfig,
    store: Store,
    inputs: Inputs,
    job: Job,
    *,
    force: bool = False,
    on_damage: Callable[[str], None] | None = None,
) -> Outcome:
    """Reuse the stage's artifact or make it. Safe against other processes that want the same one.

    `on_damage` is called with a sentence about an artifact that cannot be reused; by default it goes to the log.

    Raises:
        NmtError: what the stage raises, or StageError when the disk is full.
    """
    start = time.monotonic()
    noted = set[str]()

    def warn(problem: str) -> None:
        if problem not in noted:
            noted.add(problem)
            (on_damage or job.reporter.log)(f"WARNING: {problem}; {stage.name} is made anew if no other place has it")

    def find() -> Outcome | None:
        fingerprint = fingerprint_of(_identity(stage, config, inputs))
        found = None if force else store.find(stage.name, fingerprint, warn)
        if found is None:
            return None
        try:
            store.share(found)
        except DamagedError as error:  # since it was hashed, the disk has changed it
            warn(str(error))
            return None
        return Outcome(found, reused=True, seconds=time.monotonic() - start)

    if outcome := find():
        return outcome
    fingerprint = fingerprint_of(_identity(stage, config, inputs))
    try:
        with store.lock(
            stage.name, fingerprint, lambda: job.reporter.log(f"another process makes {stage.name}: waiting")
        ):
            # Whoever held the lock may have learnt what decides the artifact: the hash of a file, once it is fetched.
            if outcome := find():
                return outcome
            artifact = _make(stage, config, store, inputs, job, store.partial(stage.name, fingerprint))
            store.share(artifact)
    except Exception as error:
        if not is_full_disk(error):
            raise
        raise StageError(
            f"stage {stage.name}: the disk of {store.root} is full: free space (`nmt artifacts gc` shows what can go), "
            "then run the same command again; finished stages are kept"
        ) from None
    return Outcome(artifact, reused=False, seconds=time.monotonic() - start)


def _identity(stage: Stage, config: PipelineConfig, inputs: Inputs) -> Identity:
    return stage.identity_of(config, {name: artifact.fingerprint for name, artifact in inputs.items()})


def _make(stage: Stage, config: PipelineConfig, store: Store, inputs: Inputs, job: Job, out: Path) -> Artifact:
    start = time.monotonic()
    try:  # from before the folder is there: Ctrl-C may come at any moment
        if not stage.resumable and out.exists():  # left by a process that was killed
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        if stage.resumable:
            (out / IDENTITY).write_text(json.dumps(_identity(stage, config, inputs), indent=1), encoding="utf-8")
        report = stage.load()(restrict(config, stage.sections), inputs, out, job)
        (out / IDENTITY).unlink(missing_ok=True)
        (out / REPORT).write_text(report.model_dump_json(indent=1), encoding="utf-8")
        # Anew: the run may have learnt more of what decides the artifact, and the next run begins by knowing it.
        identity = _identity(stage, config, inputs)
        manifest = Manifest(
            stage=stage.name,
            fingerprint=fingerprint_of(identity),
            identity=identity,
            recipe=config.name,
            outputs=describe_outputs(out),
            versions=versions(),
            seconds=round(time.monotonic() - start, 3),
            host=socket.gethostname(),
            created=now(),
        )
        return store.publish(out, manifest)
    except BaseException:
        if not stage.resumable:
            try:
                shutil.rmtree(out, ignore_errors=True)
            finally:  # polars obeys Ctrl-C by itself; Python then raises it once more, which may be in the line above
                shutil.rmtree(out, ignore_errors=True)
        raise


def is_full_disk(error: BaseException) -> bool:
    """Whether a full disk is behind an error; libraries wrap it, and some keep nothing of it but the words."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}:
            return True
        if any(words in str(cause) for words in _WORDS_OF_A_FULL_DISK):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
