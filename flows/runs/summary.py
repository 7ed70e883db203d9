"""Summary of a run: `runs/<run id>/summary.json`, which is rewritten after every stage."""

import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from flows.runs.cost import Cost, PartCost, total
from flows.runs.machine import Machine
from flows.runs.sizes import Sizes
from flows.runs.span import StageForecast
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, PreemptedError, words_of
from nmt_core.evaluate.verdict import Verdict
from nmt_core.store.atomic import write_atomically

SUMMARY = "summary.json"
TRACEBACK = "traceback.txt"
PAGE = "report.html"
"""Name of the report, beside the summary."""
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_MOST_OF_AN_ERROR = 10_000  # characters; the error of a training contains its last lines

Status = Literal["FINISHED", "FAILED", "KILLED"]
"""Status of a run that has ended, in MLflow's terms."""
RunStatus = Literal["running", "finished", "failed", "killed"]
RUN_STATUS: dict[Status, RunStatus] = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "killed"}
"""Status in our terms by the status in MLflow's terms."""


def status_of(error: BaseException | None) -> Status:
    """Return the status of a run that ended with `error`."""
    if error is None:
        return "FINISHED"
    is_failure = isinstance(error, Exception) and not isinstance(error, PreemptedError)
    return "FAILED" if is_failure else "KILLED"


class StageSummary(BaseModel):
    """Summary of one stage in one run."""

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
    """Cost in this run."""


class Score(BaseModel):
    """Score, with how it was computed."""

    test_set: str
    metric: str
    score: float
    signature: str
    low: float | None = None
    """Lower end of the 95% confidence interval. None if it was not computed."""
    high: float | None = None


class Sample(BaseModel):
    """Sentence with its translation."""

    source: str
    reference: str = ""
    translation: str
    pair: str = ""
    """Pair of languages. Empty means the only pair of the recipe."""


class RegisteredModel(BaseModel):
    """Registered model of this run."""

    name: str
    version: str
    aliases: list[str]
    verdict: str
    """Reason why it is or is not champion."""
    gate: Verdict | None = None
    """Verdict with every check. None if it was registered before gates existed."""
    reused: bool = False
    made_of: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of its weights and its vocabulary by stage."""
    registry: str = ""
    """Registry, see `Settings.registry`. Empty for a run of an earlier version, which did not record it."""

    @property
    def alias(self) -> str:
        """Its most important alias, or "" if it is neither champion nor challenger."""
        return next((alias for alias in ("champion", "challenger") if alias in self.aliases), "")

    @property
    def uri(self) -> str:
        """Address for `nmt translate` and MLflow."""
        return f"models:/{self.name}/{self.version}"


class RoundModel(BaseModel):
    """Model that a run with rounds trained before its own, or its own."""

    round: int
    """Number of the round, from 1."""
    direction: str
    """Languages that it translates from and into, such as `en-de`."""
    run_id: str
    model: str = ""
    """Address of the registered model. Empty means that it was not registered."""
    verdict: str = ""
    """Reason why it is or is not champion."""
    scores: list[Score] = Field(default_factory=list)
    seconds: float = 0
    """Seconds that its run took. Stages that the run reused took none."""
    costs: list[PartCost] = Field(default_factory=list)
    """Time and tokens of its translations and its training, in whichever run made them."""

    @property
    def line(self) -> str:
        """Round, direction, first score and model in one line."""
        score = "".join(f", {score.metric} {score.score:.2f} on {score.test_set}" for score in self.scores[:1])
        return f"Round {self.round}, {self.direction}{score}: {self.model or 'not registered'}"


class Champion(BaseModel):
    """Champion at the time when a run registered its own model."""

    version: str
    evaluate: str
    """Fingerprint of the artifact with its translations."""


class RunSummary(BaseModel):
    """Summary of one run."""

    run_id: str
    recipe: str
    description: str
    status: RunStatus = "running"
    error: str = ""
    started: datetime
    seconds: float = 0
    inputs: list[str] = Field(default_factory=list)
    """Artifacts that other runs made and this one reads, as `stage/fingerprint`."""
    stages: list[StageSummary] = Field(default_factory=list)
    metrics: list[Score] = Field(default_factory=list)
    samples: list[Sample] = Field(default_factory=list)
    not_published: list[str] = Field(default_factory=list)
    """Variants of the model that were not exported, each with the reason and its cost, one a line."""
    model: RegisteredModel | None = None
    champion: Champion | None = None
    champions_of_pairs: dict[str, Champion] = Field(default_factory=dict)
    """Champion of each pair of languages that has one of its own."""
    rounds: list[RoundModel] = Field(default_factory=list)
    """Models of a run with rounds, in the order in which they were trained. The run's own model is the last one, also
    while it is trained and after a failure."""
    currency: str = ""
    """Currency of the money in `cost`."""
    prefect_flow_run_id: str = ""
    mlflow_run_id: str = ""
    pages: dict[str, str] = Field(default_factory=dict)
    """Addresses of the run's pages on the servers that showed them when it ended, by the name of the server."""
    config: dict[str, Any] = Field(default_factory=dict)
    machine: Machine | None = None
    """Machine that ran it. None for a run of an earlier version, which did not record it."""
    sizes: Sizes = Sizes()
    """Sizes of its text and model, by which later runs are forecast."""
    forecast: list[StageForecast] = Field(default_factory=list)
    """Forecast of each stage that was to run, made before the run."""

    @classmethod
    def begin(cls, config: PipelineConfig, run_id: str) -> "RunSummary":
        """Return the summary of a run that starts now.

        Raises:
            ConfigError: The id cannot be the name of a folder.
        """
        if not _RUN_ID.fullmatch(run_id):  # users type it into a form, and it must not lead out of the folder of runs
            raise ConfigError(f"run_id={run_id[:80]!r}: must consist of letters, digits, ., _ and -, or be left empty")
        values = config.model_dump(mode="json")
        now = datetime.now(UTC)
        return cls(run_id=run_id, recipe=config.name, description=config.description, started=now, config=values)

    def stage(self, name: str) -> StageSummary | None:
        """Return the summary of a stage, or None if the run did not reach it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def forecast_of(self, name: str) -> StageForecast | None:
        """Return the forecast of a stage, or None if none was made."""
        return next((one for one in self.forecast if one.name == name), None)

    @property
    def cost(self) -> Cost:
        """Total cost of all stages in this run."""
        return total([stage.cost for stage in self.stages])

    def end(self, error: BaseException | None) -> None:
        """Record how the run ended."""
        self.status = RUN_STATUS[status_of(error)]
        self.error = words_of(error, _MOST_OF_AN_ERROR) if error else ""

    def write(self, runs: Path) -> None:
        """Replace the file atomically.

        Errors are ignored, so that a full disk does not hide the error that it caused.
        """
        folder = runs / self.run_id
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / SUMMARY, self.model_dump_json(indent=1))


def new_run_id(recipe: str) -> str:
    """Return an id that sorts by time and contains the name of the recipe."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{recipe}-{secrets.token_hex(2)}"


def read_summary(runs: Path, run_id: str) -> RunSummary | None:
    """Return the summary of a run, or None if it is missing or damaged."""
    with suppress(OSError, ValidationError):
        return RunSummary.model_validate_json((runs / run_id / SUMMARY).read_bytes())
    return None


def newest_runs(runs: Path) -> Iterator[RunSummary]:
    """Yield the runs, newest first. Each is read when it is asked for."""
    for name in sorted((folder.name for folder in runs.glob("*/")), reverse=True):
        if summary := read_summary(runs, name):
            yield summary


def last_runs(runs: Path, count: int) -> list[RunSummary]:
    """Return the newest runs, newest first."""
    return list(islice(newest_runs(runs), count))


def find_run(runs: Path, name: str) -> RunSummary:
    """Return the run whose id begins with `name`, or the newest one if it is empty.

    Raises:
        ArtifactError: No run matches, or several do.
    """
    matching = [summary for summary in last_runs(runs, sys.maxsize) if summary.run_id.startswith(name)]
    if not name and matching:
        return matching[0]
    exact = [summary for summary in matching if summary.run_id == name]
    if len(exact or matching) != 1:
        problem = f"{len(matching)} runs match: give more of the id" if matching else "no run matches: check the id"
        raise ArtifactError(f"run {name or 'latest'!r} in {runs}: {problem}")
    return (exact or matching)[0]
