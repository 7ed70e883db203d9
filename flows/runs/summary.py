"""What became of a run: `runs/<run id>/summary.json`, rewritten after every stage, whatever happens next."""

import re
import secrets
import sys
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from flows.runs.cost import Cost, total
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, PreemptedError, words_of
from nmt_core.evaluate.verdict import Verdict

SUMMARY = "summary.json"
TRACEBACK = "traceback.txt"
PAGE = "report.html"
"""The report, beside the summary."""
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_MOST_OF_AN_ERROR = 10_000  # characters; a training that fails shows its last lines

Status = Literal["FINISHED", "FAILED", "KILLED"]
"""MLflow's words for the end of a run."""
RunStatus = Literal["running", "finished", "failed", "killed"]
RUN_STATUS: dict[Status, RunStatus] = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "killed"}
"""Our words for the same."""


def status_of(error: BaseException | None) -> Status:
    """How a run ended that ended with `error`."""
    if error is None:
        return "FINISHED"
    is_failure = isinstance(error, Exception) and not isinstance(error, PreemptedError)
    return "FAILED" if is_failure else "KILLED"


class StageSummary(BaseModel):
    """One stage of one run."""

    name: str
    fingerprint: str
    status: Literal["running", "reused", "done", "failed", "killed"]
    reused: bool = False
    seconds: float = 0
    items_in: int = 0
    items_out: int = 0
    unit: str = ""
    artifact: str = ""
    """Folder of the artifact."""
    mlflow_run_id: str = ""
    cost: Cost = Cost()
    """What it took in this run."""


class Score(BaseModel):
    """A score and how it was computed."""

    test_set: str
    metric: str
    score: float
    signature: str
    low: float | None = None
    """Lower end of the 95% confidence interval; None: not computed."""
    high: float | None = None


class Sample(BaseModel):
    """A sentence and its translation."""

    source: str
    reference: str = ""
    translation: str


class RegisteredModel(BaseModel):
    """What the registry holds of this run."""

    name: str
    version: str
    aliases: list[str]
    verdict: str
    """Why it is champion, or is not."""
    gate: Verdict | None = None
    """The same with every check; None: registered before there was a gate."""
    reused: bool = False
    made_of: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of its weights and its vocabulary, by the stage that made them."""
    registry: str = ""
    """Where it is registered, see `Settings.registry`; empty: a run of an earlier version, which did not say."""

    @property
    def uri(self) -> str:
        """The address that `nmt translate` and MLflow take."""
        return f"models:/{self.name}/{self.version}"


class Champion(BaseModel):
    """The champion that a run found when it registered its own model."""

    version: str
    evaluate: str
    """Fingerprint of the artifact that holds its translations."""


class RunSummary(BaseModel):
    """One run."""

    run_id: str
    recipe: str
    description: str
    status: RunStatus = "running"
    error: str = ""
    started: datetime
    seconds: float = 0
    inputs: list[str] = Field(default_factory=list)
    """`stage/fingerprint` of what other runs have made and this one reads."""
    stages: list[StageSummary] = Field(default_factory=list)
    metrics: list[Score] = Field(default_factory=list)
    samples: list[Sample] = Field(default_factory=list)
    not_published: list[str] = Field(default_factory=list)
    """What the model has not been exported in, why, and what that costs: a line each."""
    model: RegisteredModel | None = None
    champion: Champion | None = None
    currency: str = ""
    """Of the money in `cost`."""
    prefect_flow_run_id: str = ""
    mlflow_run_id: str = ""
    config: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def begin(cls, config: PipelineConfig, run_id: str) -> "RunSummary":
        """The summary of a run that starts now.

        Raises:
            ConfigError: the id cannot be the name of a folder.
        """
        if not _RUN_ID.fullmatch(run_id):  # it may be typed into a form, and must not lead out of the folder of runs
            raise ConfigError(f"run_id={run_id[:80]!r}: must be of letters, digits, ., _ and -, or be left empty")
        values = config.model_dump(mode="json")
        now = datetime.now(UTC)
        return cls(run_id=run_id, recipe=config.name, description=config.description, started=now, config=values)

    def stage(self, name: str) -> StageSummary | None:
        """One stage, if the run came to it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def cost(self) -> Cost:
        """What all stages took in this run."""
        return total([stage.cost for stage in self.stages])

    def end(self, error: BaseException | None) -> None:
        """Note how the run ended."""
        self.status = RUN_STATUS[status_of(error)]
        self.error = words_of(error, _MOST_OF_AN_ERROR) if error else ""

    def write(self, runs: Path) -> None:
        """Replace the file in one step. A full disk must not hide the error that filled it."""
        folder = runs / self.run_id
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            draft = folder / f"{SUMMARY}.partial"
            draft.write_text(self.model_dump_json(indent=1), encoding="utf-8")
            draft.replace(folder / SUMMARY)


def new_run_id(recipe: str) -> str:
    """An id that sorts by time and names the recipe."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{recipe}-{secrets.token_hex(2)}"


def read_summary(runs: Path, run_id: str) -> RunSummary | None:
    """The summary of a run, if it is there and whole."""
    with suppress(OSError, ValidationError):
        return RunSummary.model_validate_json((runs / run_id / SUMMARY).read_bytes())
    return None


def last_runs(runs: Path, count: int) -> list[RunSummary]:
    """The newest runs, newest first."""
    names = sorted((folder.name for folder in runs.glob("*/")), reverse=True)
    found = (summary for name in names if (summary := read_summary(runs, name)))
    return list(islice(found, count))  # no more are read


def find_run(runs: Path, name: str) -> RunSummary:
    """The run whose id begins so, or the newest if the name is empty.

    Raises:
        ArtifactError: there is none, or there are several.
    """
    found = [summary for summary in last_runs(runs, sys.maxsize) if summary.run_id.startswith(name)]
    if not name and found:
        return found[0]
    exact = [summary for summary in found if summary.run_id == name]
    if len(exact or found) != 1:
        problem = f"{len(found)} runs begin so: give more of its id" if found else "there is none"
        raise ArtifactError(f"run {name or 'latest'!r} in {runs}: {problem}")
    return (exact or found)[0]
