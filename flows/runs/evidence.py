"""Evidence for forecasts: finished stages of earlier runs, of measurements, and of machines that others measured."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from flows.runs.cost import Cost
from flows.runs.machine import Machine
from flows.runs.sizes import Sizes
from flows.runs.span import Origin
from flows.runs.summary import RunSummary, last_runs
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError
from nmt_core.recipes.recipe import load_recipe

_RUNS_READ = 40
_MEASUREMENTS_READ = 10
_REFERENCES = Path(__file__).with_name("references.json")


@dataclass(frozen=True)
class Evidence:
    """Stages that ran, with the recipe, the sizes and the machine."""

    origin: Origin
    label: str
    """Name of the run, the measurement or the machine, for messages."""
    config: PipelineConfig
    sizes: Sizes
    machine: Machine
    costs: Mapping[str, Cost]
    """Cost of each stage that ran, was not reused and finished."""


def measurements(settings: Settings) -> Path:
    """Return the folder of the measurements of this machine."""
    return settings.home / "measurements"


def evidence_of(settings: Settings) -> list[Evidence]:
    """Return all evidence: runs and measurements, each the newest first, then the references."""
    runs = _read("run", last_runs(settings.runs, _RUNS_READ))
    measured = _read("measurement", last_runs(measurements(settings), _MEASUREMENTS_READ))
    return [*runs, *measured, *references()]


def _read(origin: Origin, summaries: list[RunSummary]) -> Iterator[Evidence]:
    for summary in summaries:
        costs = {row.name: row.cost for row in summary.stages if row.status == "done"}
        if summary.sizes.is_resumed:
            costs.pop("train", None)
        if not costs or summary.machine is None:  # a run of an earlier version, which recorded no sizes
            continue
        with suppress(ValidationError):  # a recipe of an earlier version
            config = PipelineConfig.model_validate(summary.config)
            label = f"{origin} {summary.run_id}"
            yield Evidence(origin, label, config, summary.sizes, summary.machine, costs)


def references() -> list[Evidence]:
    """Return the figures of machines that were measured for this package."""
    evidence = []
    for one in json.loads(_REFERENCES.read_text(encoding="utf-8")):
        machine = Machine.model_validate(one["machine"])
        costs = {name: Cost.model_validate(cost) for name, cost in one["costs"].items()}
        with suppress(NmtError):
            config = load_recipe(one["recipe"], one["overrides"])
            sizes = Sizes.model_validate(one["sizes"])
            evidence.append(Evidence("reference", f"guess by {machine.name}", config, sizes, machine, costs))
    return evidence
