"""Forecast of a run, stage by stage: time, memory, disk and money, scaled from runs of other sizes."""

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from flows.runs.effort import effort, kind, update_effort
from flows.runs.estimate import BYTES_PER_PAIR, estimate, memory
from flows.runs.evidence import Evidence, evidence_of
from flows.runs.machine import Machine
from flows.runs.selection import REGISTER, Selection
from flows.runs.sizes import Sizes, expected
from flows.runs.span import Span, StageForecast
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.errors import NmtError
from nmt_core.stages.table import PlannedStage, plan

_log = logging.getLogger(__name__)

_CONSTANT = {
    "download": 0.5,
    "clean": 2.0,
    "split": 0.7,
    "tokenizer": 1.7,
    "encode": 0.2,
    "train": 7.0,
    "average": 2.2,
    "export": 5.0,
    "evaluate": 0.3,
    "register": 1.4,
}
"""CPU seconds that a stage takes whatever its effort: imports, starts of processes, the making of graphs."""
_MOST_CONSTANT = 0.95  # share of an earlier run's time
_BYTES_OF_A_RUN = 0.45e9  # Prefect and MLflow in the process of a run
_USES_THREADS = {"clean", "encode", "tokenizer", "train", "average", "export", "evaluate"}

_FACTOR = {"run": 1.15, "measurement": 1.25, "reference": 2.5}
"""Width of the range around a forecast from equal work, by the origin of the evidence."""
_FACTOR_OF_SIZE = 0.08  # more for each factor of e between the efforts
_FACTOR_OF_SMALL_MODEL = 0.15  # more for each factor of e between the models
_OTHER_KIND = 1.5
_OTHER_MACHINE = 1.6
_SIZE_UNKNOWN = 1.4
_UNTRAINED = 2.0  # a search that writes almost nothing says little about one that does
_COMPARED = 5


@dataclass(frozen=True)
class _Scaled:
    """Forecast from one piece of evidence."""

    evidence: Evidence
    seconds: float
    factor: float


class Forecaster:
    """Forecaster of one recipe on this machine.

    Args:
        config: the recipe.
        settings: settings of this machine.
        planned: plan of the run. Artifacts that it reuses tell the sizes.
        evidence: earlier runs. By default all evidence in the home.
    """

    def __init__(
        self,
        config: PipelineConfig,
        settings: Settings,
        planned: Sequence[PlannedStage],
        evidence: Sequence[Evidence] | None = None,
    ) -> None:
        self._config = config
        self._settings = settings
        self._machine = Machine.of(settings)
        self.evidence = evidence_of(settings) if evidence is None else evidence
        known = Sizes()
        for one in planned:
            with suppress(OSError, ValueError):  # a damaged report: the run finds that out
                known = known.with_report(one.stage.name, one.artifact.report()) if one.artifact else known
        same_text = [one.sizes for one in self.evidence if one.origin == "run" and one.config.corpus == config.corpus]
        self.sizes = expected(config, known, same_text)
        self._is_text_known = bool(known.pairs or same_text or config.corpus.toy)

    def stage(self, name: str) -> StageForecast:
        """Return the forecast of a stage."""
        config, settings = self._config, self._settings
        if name == REGISTER:
            disk, held = estimate("export", config, settings.store).bytes, None
        else:
            disk, held = estimate(name, config, settings.store, _text(self.sizes)).bytes, self._memory(name)
        best = self._best(name)
        if not best:
            basis = "no run or measurement is like it" if effort(name, config, self.sizes) else "the text is not here"
            return StageForecast(name=name, memory_bytes=held, disk_bytes=disk, basis=basis)
        nearest = min(best, key=lambda one: one.factor)
        seconds, cost = median(one.seconds for one in best), nearest.evidence.costs[name]
        span = Span.around(seconds, nearest.factor).containing([one.seconds for one in best])
        if name == "train" and (config.train.patience or config.budget.max_hours):
            span = self._may_end_early(span)
        per_second = span.likely / max(0.01, cost.seconds)
        more = f" and {len(best) - 1} more" if len(best) > 1 else ""
        return StageForecast(
            name=name,
            seconds=span,
            cpu_seconds=cost.cpu_seconds * per_second,
            gpu_seconds=cost.gpu_seconds * per_second,
            memory_bytes=held,
            disk_bytes=disk,
            origin=nearest.evidence.origin,
            basis=nearest.evidence.label + more,
        )

    def _may_end_early(self, span: Span) -> Span:
        """Return the range of a training that `patience` or the budget may end before its last update."""
        train, budget = self._config.train, self._config.budget.max_hours * SECONDS_PER_HOUR
        if train.patience:
            fewest = min(1.0, train.patience * train.validate_every / train.max_updates)
            span = span.model_copy(update={"low": span.low * fewest})
        if budget:
            span = Span(**{name: min(value, budget) for name, value in span.model_dump().items()})
        return span

    def _best(self, name: str) -> list[_Scaled]:
        """Return the forecasts from the best evidence, at most `_COMPARED` of them."""
        candidates = [scaled for one in self.evidence if name in one.costs and (scaled := self._scaled(name, one))]
        if not candidates:
            return []
        least = min(one.factor for one in candidates)
        return [one for one in candidates if one.factor <= least * 1.05][:_COMPARED]

    def _scaled(self, name: str, evidence: Evidence) -> _Scaled | None:
        """Scale the time of a stage to this recipe, or return None if the two cannot be compared."""
        device = "gpu" if self._machine.gpus or self._machine.training != "local" else "cpu"
        of_evidence = "gpu" if evidence.machine.gpus or evidence.machine.training != "local" else "cpu"
        if name == "train" and device != of_evidence:
            return None
        planned_effort = effort(name, self._config, self.sizes, device)
        past_effort = effort(name, evidence.config, evidence.sizes, device)
        cost = evidence.costs[name]
        if not planned_effort or not past_effort or not cost.seconds:
            return None
        # On a busy machine a CPU second takes longer, so the constant part is a share and not a number of seconds
        share = min(_MOST_CONSTANT, _CONSTANT.get(name, 0.0) / (cost.cpu_seconds or cost.seconds))
        variable = (1 - share) * cost.seconds
        if name == "train":
            variable = self._of_updates(evidence, variable, past_effort, device)
        distance = abs(math.log(planned_effort / past_effort))
        if name == "export" and evidence.origin == "measurement":
            # A model of few updates writes too little or too much, except where `evaluate` sets the length
            share, variable, past_effort = 1.0, planned_effort * self._of_search(evidence), planned_effort
        likely = share * cost.seconds + variable * planned_effort / past_effort
        factor = _FACTOR[evidence.origin] * (1 + _FACTOR_OF_SIZE * distance)
        factor *= self._unlikeness(name, evidence)
        if evidence.machine != self._machine:
            factor *= _OTHER_MACHINE
            if name in _USES_THREADS and not (name == "train" and device == "gpu"):
                likely *= evidence.machine.threads / self._machine.threads
            if name == "train" and device == "gpu" and evidence.machine.gpus:
                likely *= len(evidence.machine.gpus) / max(1, len(self._machine.gpus))
        return _Scaled(evidence, likely, factor)

    def _of_search(self, evidence: Evidence) -> float:
        """Return the seconds of one unit of effort in the search of a measurement."""
        cost, past_effort = evidence.costs.get("evaluate"), effort("evaluate", evidence.config, evidence.sizes)
        if not cost or not past_effort:
            return 0.0
        share = min(_MOST_CONSTANT, _CONSTANT["evaluate"] / (cost.cpu_seconds or cost.seconds))
        return (1 - share) * cost.seconds / past_effort

    def _of_updates(self, evidence: Evidence, variable: float, past_effort: float, device: str) -> float:
        """Return the time of a training without its start, by the speed of its updates.

        In a training of few updates, the start is much of the time, and varies.
        """
        sizes = evidence.sizes
        if not (sizes.updates and sizes.trained_tokens and sizes.tokens_per_second):
            return variable
        of_updates = sizes.trained_tokens / sizes.tokens_per_second
        share = sizes.updates * update_effort(evidence.config, sizes, device) / past_effort
        by_speed = of_updates / share
        return variable if of_updates > variable / 2 else by_speed

    def _unlikeness(self, name: str, evidence: Evidence) -> float:
        """Return the factor by which the range grows because the two recipes differ."""
        factor = 1.0 if kind(name, self._config) == kind(name, evidence.config) else _OTHER_KIND
        if name in ("train", "average", "export", "evaluate") and self.sizes.weights and evidence.sizes.weights:
            ratio = self.sizes.weights / evidence.sizes.weights
            factor *= 1 + _FACTOR_OF_SMALL_MODEL * abs(math.log(ratio))
            if (
                name in ("export", "evaluate")
                and (evidence.sizes.output_length or 0) < evidence.sizes.tokens_per_pair / 2
            ):
                factor *= _UNTRAINED
        elif not self._is_text_known:
            factor *= _SIZE_UNKNOWN
        return factor

    def _memory(self, name: str) -> float | None:
        """Return the peak memory of a stage: by the rule, and by how far the rule was from an earlier run."""
        config, threads = self._config, self._settings.threads
        rule = memory(name, config, threads, _text(self.sizes)).bytes
        if rule is None:
            return None
        like = [one for one in self._best(name) if one.evidence.costs[name].memory_bytes]
        if not like:
            return rule + _BYTES_OF_A_RUN
        one = like[0].evidence
        of_it = memory(name, one.config, one.machine.threads, _text(one.sizes)).bytes or rule
        measured = (one.costs[name].memory_bytes or 0) - (0 if one.origin == "measurement" else _BYTES_OF_A_RUN)
        if name != "train":
            return _BYTES_OF_A_RUN + max(0.0, measured) * rule / of_it
        activations = (
            max(0.0, measured - of_it) * _activations(config, self.sizes) / _activations(one.config, one.sizes)
        )
        return _BYTES_OF_A_RUN + rule + activations


def _text(sizes: Sizes) -> float | None:
    """Return the size of the text that is cleaned, unpacked."""
    return sizes.pairs and sizes.pairs * BYTES_PER_PAIR


def _activations(config: PipelineConfig, sizes: Sizes) -> float:
    """Return a number in proportion to which the activations of training grow."""
    train, model = config.train, config.model
    tokens = train.micro_batch_tokens if train.batching == "padded" else train.max_tokens_per_pass
    layers = model.encoder_layers + model.decoder_layers
    return tokens * (layers * (16 * model.d_model + 2 * model.d_ff) + 3 * (sizes.target_vocab or 0))


def forecast_run(config: PipelineConfig, settings: Settings, selection: Selection) -> list[StageForecast]:
    """Return the forecasts of the stages that a run would not reuse.

    Raises:
        NmtError: a file of the recipe does not exist or is wrong.
    """
    planned = plan(config, settings.store, selection.force)
    names = [one.stage.name for one in planned if not one.artifact and selection.includes(one.stage.name)]
    try:
        forecaster = Forecaster(config, settings, planned)
        return [forecaster.stage(name) for name in (*names, *([REGISTER] if selection.includes(REGISTER) else []))]
    except NmtError:
        raise
    except Exception:  # a forecast must not end a run
        _log.warning("there is no forecast, because it failed", exc_info=True)
        return []
