"""Common structure of all stages, and the one way to run them.

A stage is a function `run(config, inputs, out, job) -> report`. It reads the artifacts in `inputs`, writes files into
the folder `out`, and returns numbers. Everything else is done here, in the same way for every stage and for every
caller: reuse of artifacts, locks against other processes, publication, and the record of what the artifact was made
from. A stage sees only the sections of the configuration that are part of its fingerprint.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict

from nmt_core.config import BudgetConfig, PipelineConfig
from nmt_core.config.renamed import counted_values
from nmt_core.errors import DamagedError, StageError
from nmt_core.execution.pool import InProcess, Workers
from nmt_core.execution.torchrun import Launcher, LocalTorchrun
from nmt_core.store.artifacts import REPORT, Artifact, Identity, Manifest, Store, describe_outputs, fingerprint_of, now
from nmt_core.store.atomic import remove_drafts
from nmt_core.store.library_versions import versions

Inputs = Mapping[str, Artifact]
"""Artifacts that a stage reads, by the names in `Stage.needs`. Another stage may have made an artifact in place of the
stage of that name: see `Stage.replaces`."""

IDENTITY = "identity.json"
"""File in the unfinished output of a resumable stage. It holds the identity: everything that decides the artifact."""
STRICT_VERSIONS = "NMT_STRICT_VERSIONS"
"""Environment variable that adds the versions of libraries to the identity of an artifact."""

_WORDS_OF_A_FULL_DISK = (os.strerror(errno.ENOSPC), "database or disk is full")  # the second is SQLite's


class StageReport(BaseModel):
    """Report of a stage. Subclasses add numbers, `dict[str, int]` counts and lists of samples."""

    model_config = ConfigDict(frozen=True)
    items_in: int
    """Number of rows, sentences or files that the stage read."""
    items_out: int
    """Number of rows, sentences or files that the stage wrote."""
    unit: str
    """Unit of `items_out`, and usually of `items_in`: pairs, tokens, checkpoints..."""


class Reporter(Protocol):
    """Receiver of a running stage's progress, log lines and metrics."""

    def progress(self, done: float, total: float, note: str = "") -> None:
        """Report that `done` of `total` steps are done, with a short `note` such as "loss 3.2, 4,100 tokens/s"."""

    def log(self, message: str) -> None:
        """Log a line."""

    def notice(self, message: str) -> None:
        """Log a line, and show it to the user."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record a point of each curve."""


class SilentReporter:
    """Reporter that discards everything."""

    def progress(self, done: float, total: float, note: str = "") -> None: ...

    def log(self, message: str) -> None: ...

    def notice(self, message: str) -> None: ...

    def metrics(self, step: int, values: Mapping[str, float]) -> None: ...


@dataclass(frozen=True)
class Resources:
    """Resources of this machine for a stage. They change how fast a result is made, not the result."""

    threads: int = 1
    """Number of CPU threads that a stage may use."""
    scratch: str = ""
    """Folder, or address of a store that fsspec supports, for files that a stage needs between its steps and that all
    workers can reach. Empty means beside the result."""
    cache: str = ""
    """Folder for translations by other systems, so that none is paid for twice. Empty means that none are kept."""

    def scratch_for(self, out: Path) -> str:
        """Return the address for temporary files of the stage that fills the folder `out`.

        It is unique to this folder on this machine.
        """
        if not self.scratch:
            return str(out / ".scratch")
        home = hashlib.sha256(f"{socket.gethostname()}:{out.absolute()}".encode()).hexdigest()[:8]
        return f"{self.scratch.rstrip('/')}/{out.name}-{home}"


@dataclass(frozen=True)
class Job:
    """Context of a stage, in addition to its configuration and inputs."""

    reporter: Reporter
    resources: Resources
    workers: Workers = field(default_factory=InProcess)
    """Workers that process the shards of a stage."""
    launcher: Launcher = field(default_factory=LocalTorchrun)
    """Launcher of the training processes."""
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    """Limits on the time of training."""
    allow_code: bool = True
    """True if the recipe may name third-party code to run."""
    anew: bool = False
    """True if the stage was forced: it reuses no part of an earlier artifact."""


RunFunction = Callable[[PipelineConfig, Inputs, Path, Job], StageReport]
ConfigIdentity = Callable[[PipelineConfig], Identity]


@dataclass(frozen=True)
class Stage:
    """Stage of the pipeline."""

    name: str
    version: int
    """Version of the stage's output. It must be raised by any change that makes a different output from the same
    input."""
    sections: tuple[str, ...]
    """Sections of the configuration that the stage reads. The first is its own."""
    needs: tuple[str, ...]
    """Stages whose artifacts this stage reads."""
    run: str
    """Name of the `RunFunction`, as `module:function`, so that it is imported only when it is needed."""
    identity: str | None = None
    """Name of a function that returns the configuration's part of the identity, as `module:function`. None means that
    the sections are used unchanged."""
    resumable: bool = False
    """True if `run` resumes from what a killed run left in `out`."""
    needed_by: str | None = None
    """Option without which a recipe has no such stage, as `section.option`. None means that every recipe has it."""
    replaces: str | None = None
    """Earlier stage whose artifact later stages read no more: they read the artifact of this stage under its name.
    None means that it replaces no stage."""

    def is_part_of(self, config: PipelineConfig) -> bool:
        """Return True if a run of this recipe makes the stage."""
        if self.needed_by is None:
            return True
        section, _, option = self.needed_by.partition(".")
        return bool(getattr(getattr(config, section), option))

    def load(self) -> RunFunction:
        """Import the function that does the work."""
        return cast(RunFunction, _load(self.run))

    def identity_of(self, config: PipelineConfig, inputs: Mapping[str, str]) -> Identity:
        """Return the identity of the stage's artifact: everything that decides its content.

        Args:
            config: the recipe.
            inputs: fingerprint of each input, by the name of the stage that made it.
        """
        own = restrict(config, self.sections)
        if self.identity is not None:
            values = cast(ConfigIdentity, _load(self.identity))(own)
        else:
            values = {name: getattr(own, name).model_dump(mode="json") for name in self.sections}
        identity = {
            "stage": self.name,
            "version": self.version,
            "config": counted_values(values),
            "inputs": dict(inputs),
        }
        return identity | {"versions": versions()} if os.environ.get(STRICT_VERSIONS) == "1" else identity


@dataclass(frozen=True)
class Outcome:
    """Result of one stage in one run."""

    artifact: Artifact
    reused: bool
    seconds: float


def restrict(config: PipelineConfig, sections: Sequence[str]) -> PipelineConfig:
    """Return the configuration with only these sections. Reading any other raises AttributeError.

    If a stage read a section outside its fingerprint, its artifact would be reused when the stage should run.
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
    """Reuse or make the artifact of a stage. Safe against other processes that need the same artifact.

    Args:
        config: the recipe.
        store: the store of the artifact.
        inputs: artifacts that the stage needs, by the names in `Stage.needs`.
        job: reporter, resources, workers and launcher.
        force: run the stage even if its artifact exists.
        on_damage: called with a sentence about an artifact that cannot be reused. By default, the sentence is logged.

    Returns:
        The artifact, whether it was reused, and the seconds that this took.

    Raises:
        NmtError: the stage failed. StageError means that the disk is full, or comes from the stage itself.
    """
    start = time.monotonic()
    noted = set[str]()

    def warn(problem: str) -> None:
        if problem not in noted:
            noted.add(problem)
            (on_damage or job.reporter.log)(f"WARNING: {problem}; {stage.name} is made again if no other store has it")

    def find() -> Outcome | None:
        fingerprint = fingerprint_of(_identity(stage, config, inputs))
        existing = None if force else store.find(stage.name, fingerprint, warn)
        if existing is None:
            return None
        try:
            store.share(existing)
        except DamagedError as error:  # a file has changed on disk since it was hashed
            warn(str(error))
            return None
        return Outcome(existing, reused=True, seconds=time.monotonic() - start)

    if outcome := find():
        return outcome
    fingerprint = fingerprint_of(_identity(stage, config, inputs))

    def wait() -> None:
        job.reporter.log(f"another process is making {stage.name}: waiting")

    with _explained_full_disk(stage, store), store.lock(stage.name, fingerprint, wait):
        # The previous holder of the lock may have changed the identity, by fetching a file and recording its hash.
        if outcome := find():
            return outcome
        artifact = _make(stage, config, store, inputs, replace(job, anew=force), store.partial(stage.name, fingerprint))
        store.share(artifact)
    return Outcome(artifact, reused=False, seconds=time.monotonic() - start)


@contextmanager
def _explained_full_disk(stage: Stage, store: Store) -> Iterator[None]:
    """Turn the errors of a full disk into one that names the remedy."""
    try:
        yield
    except Exception as error:
        if not is_full_disk(error):
            raise
        raise StageError(
            f"stage {stage.name}: the disk of {store.root} is full: free space (`nmt artifacts gc` lists what can be "
            "removed), then run the same command again; finished stages are kept"
        ) from None


def require_sum(stage: str, items_in: int, parts: Mapping[str, int]) -> None:
    """Check that every item that went into a stage is accounted for.

    Args:
        stage: name of the stage.
        items_in: number of items that went in.
        parts: what became of them, with the number of each: `{"kept": 7, "dropped": 3}`.

    Raises:
        StageError: the sum is another number.
    """
    if items_in != sum(parts.values()):
        counts = ", ".join(f"{count:,} {name}" for name, count in parts.items())
        raise StageError(
            f"{stage}: {items_in:,} pairs went in, but the parts do not add up to that ({counts}): this is a bug of "
            "the program; please report it with the recipe"
        )


def _identity(stage: Stage, config: PipelineConfig, inputs: Inputs) -> Identity:
    read = [inputs[need] for need in stage.needs]
    return stage.identity_of(config, {artifact.stage: artifact.fingerprint for artifact in read})


def _make(stage: Stage, config: PipelineConfig, store: Store, inputs: Inputs, job: Job, out: Path) -> Artifact:
    start = time.monotonic()
    try:  # starts before the folder exists, because Ctrl-C may come at any moment
        if not stage.resumable and out.exists():  # left by a process that was killed
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        if stage.resumable:
            (out / IDENTITY).write_text(json.dumps(_identity(stage, config, inputs), indent=1), encoding="utf-8")
        report = stage.load()(restrict(config, stage.sections), inputs, out, job)
        (out / IDENTITY).unlink(missing_ok=True)
        (out / REPORT).write_text(report.model_dump_json(indent=1), encoding="utf-8")
        # Computed again: the run may have extended the identity (the hash of a fetched file), as the next run will see.
        identity = _identity(stage, config, inputs)
        remove_drafts(out)
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
            finally:  # polars handles Ctrl-C itself, and Python raises it once more, possibly in the line above
                shutil.rmtree(out, ignore_errors=True)
        raise


def is_full_disk(error: BaseException) -> bool:
    """Return True if an error was caused by a full disk.

    Libraries wrap the error, and some keep only the text of its message.
    """
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
