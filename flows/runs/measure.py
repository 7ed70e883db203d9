"""Measurement of this machine: every stage of a recipe on a small part of its text, for a minute or two.

The stages are the real ones, in a store of their own that is removed afterwards. A small training makes a few updates
of the recipe's own model, and later stages export it and translate with it. The result is a summary as a run has one,
from which forecasts are scaled.
"""

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.runs.cost import StageMeter
from flows.runs.effort import update_effort
from flows.runs.evidence import measurements
from flows.runs.forecast import Forecaster
from flows.runs.machine import Machine
from flows.runs.summary import RunSummary, StageSummary, new_run_id
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.corpus.preview.sample import draw
from nmt_core.errors import ConfigError
from nmt_core.stages.stage import Job, run_stage
from nmt_core.stages.table import STAGES, makers_of_inputs, plan, stages_of
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.train.spent import read_spent

_SAMPLED_PAIRS = 20_000
_HELD_OUT = 400
_SENTENCES_OF_EXPORT = 100
_OUTPUT_LENGTH = 20
_SECONDS_OF_TRAINING = 20.0
_FEWEST_UPDATES, _MOST_UPDATES = 4, 200
_FEWEST_PIECES = 64
_KEPT = 10
_TEXT_STAGES = ("download", "clean", "split", "tokenizer", "encode")
_INVENTED_WORDS = 30_000


def measure(
    config: PipelineConfig, settings: Settings, job: Job, tell: Callable[[str], None], pairs: int = _SAMPLED_PAIRS
) -> RunSummary:
    """Measure the stages of a recipe on this machine, and keep the result for forecasts.

    Args:
        config: the recipe.
        settings: settings of this machine.
        job: workers and launcher to measure with.
        tell: receives the name of each stage as it begins.
        pairs: number of pairs to sample from the text.

    Returns:
        A summary with the cost of each stage that was measured.

    Raises:
        NmtError: a stage failed.
    """
    summary = RunSummary.begin(config, new_run_id(config.name))
    summary.machine = Machine.of(settings)
    folder = measurements(settings) / f"{summary.run_id}.partial"
    try:
        text = _text_of(config, settings, folder, job, tell, pairs)
        small = _small(config, text, _updates(config, settings), _held_out(pairs))
        run = _Run(small, settings, Store(folder / "artifacts"), job, tell, summary)
        run.all(skipped=() if text.is_real else _TEXT_STAGES)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    summary.end(None)
    summary.write(measurements(settings))
    for old in sorted(measurements(settings).glob("*/"), reverse=True)[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return summary


@dataclass(frozen=True)
class _Text:
    """Sample of the text: the section `corpus` of a recipe that reads it."""

    corpus: Mapping[str, Any]
    is_real: bool
    """False if the words were invented because the text is not on this machine."""


def _text_of(
    config: PipelineConfig, settings: Settings, folder: Path, job: Job, tell: Callable[[str], None], pairs: int
) -> _Text:
    """Return a sample of the text if it is here, the toy corpus if the recipe has it, or else invented words."""
    if toy := config.corpus.toy:
        pairs = min(toy.pairs, pairs)
        return _Text(
            {"toy": {"pairs": pairs, "held_out": min(toy.held_out, _held_out(pairs)), "seed": toy.seed}}, is_real=True
        )
    from flows.runs.estimate import text_bytes

    folder.mkdir(parents=True, exist_ok=True)
    planned = plan(config, settings.store)[0]
    download = planned.artifact
    if download is None and text_bytes(config) is not None:
        tell("reading the text")
        own = Store(folder / "text")
        download = run_stage(STAGES["download"], config, own, {}, job).artifact
    if download is None:
        return _Text(_written(folder, _invented(pairs)), is_real=False)
    drawn, _ = draw(config, download, pairs)
    rows = zip(drawn["source"].to_list(), drawn["target"].to_list(), strict=True)
    return _Text(_written(folder, [(_line(source), _line(target)) for source, target in rows]), is_real=True)


def _line(text: str) -> str:
    return " ".join(text.split())


def _invented(pairs: int) -> list[tuple[str, str]]:
    """Return pairs of invented words, of the usual length and frequencies."""
    draw = random.Random(1)  # nothing here is secret
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(_INVENTED_WORDS)]
    frequencies = [1 / (rank + 10) for rank in range(_INVENTED_WORDS)]

    def sentence() -> str:
        return " ".join(draw.choices(words, frequencies, k=draw.randint(4, 30)))

    return [(sentence(), sentence()) for _ in range(pairs)]


def _written(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Write pairs to two files, and return the section `corpus` that reads them."""
    files = {side: folder / f"sample.{side}" for side in ("source", "target")}
    for place, file in enumerate(files.values()):
        file.write_text("".join(f"{pair[place]}\n" for pair in pairs), encoding="utf-8")
    return {"train": [{"name": "sample"} | {side: str(file) for side, file in files.items()}]}


def _updates(config: PipelineConfig, settings: Settings) -> int:
    """Return a number of updates that takes some seconds, by the forecast of a training of one hundred."""
    few = config.model_copy(update={"train": config.train.model_copy(update={"max_updates": 100})})
    forecaster = Forecaster(few, settings, plan(few, settings.store))
    forecast, device = forecaster.stage("train"), "gpu" if Machine.of(settings).gpus else "cpu"
    if not forecast.seconds or not update_effort(few, forecaster.sizes, device):
        return _FEWEST_UPDATES
    of_one = max(1e-4, forecast.seconds.likely / 100)
    return round(min(_MOST_UPDATES, max(_FEWEST_UPDATES, _SECONDS_OF_TRAINING / of_one)))


def _held_out(pairs: int) -> int:
    """Return the size of the dev set and of the test set."""
    return min(_HELD_OUT, pairs // 5)


def _small(config: PipelineConfig, text: _Text, updates: int, held_out: int) -> PipelineConfig:
    """Return a recipe with the same options of speed, for little text and few updates."""
    values = config.model_dump(mode="json")
    values["corpus"] = dict(text.corpus)
    values["mix"] = values["synthesis"] = values["augmentation"] = {}
    values["split"] |= {"dev_pairs": held_out, "test_pairs": held_out}
    values["clean"] |= {"overrides": [], "in_domain": "sample" if config.clean.in_domain else ""}
    if not text.is_real:  # invented words are in no language
        values["clean"] = {"min_script_share": 0, "min_language_probability": 0, "decontaminate": False}
    values["train"] |= {
        "max_updates": updates,
        "validate_every": updates,
        "checkpoint_every": updates,
        "keep_checkpoints": 1,
        "keep_best": 0,
        "patience": 0,
        "stop_on": "dev_loss",
        "dev_sentences": 0,
        "profile_updates": 0,
        "start_from": "",
        "start_optimizer": "fresh",
        "spike_deviations": 0,
    }
    values["average"] = {"checkpoints": 1}
    values["export"] |= {"parity_sentences": 20, "calibration_sentences": 20}
    values["export"] |= {"members": []}  # a vocabulary of other text does not fit theirs
    values["export"] |= {"quality_sentences": _SENTENCES_OF_EXPORT, "max_bleu_loss": 100, "bleu_loss_bound": 100}
    values["search"] |= {"min_length": _OUTPUT_LENGTH}  # a model of so few updates may write nothing
    values["evaluate"] |= {"must_translate": [], "sentences": [], "metrics": []}  # a judge may take hours
    values["budget"] = {}
    return PipelineConfig.model_validate(values)


@dataclass
class _Run:
    """Run of the small recipe."""

    config: PipelineConfig
    settings: Settings
    store: Store
    job: Job
    tell: Callable[[str], None]
    summary: RunSummary

    def all(self, skipped: tuple[str, ...]) -> None:
        """Run all stages, and record the cost of each except those that are skipped."""
        artifacts = dict[str, Artifact]()
        for stage in stages_of(self.config):
            name = stage.name
            self.tell(name)
            meter = StageMeter()
            with meter.watching_memory(0.2):
                artifact = artifacts[name] = self._made(name, artifacts)
            cost = meter.cost(artifact.report(), read_spent(artifact.path), self.settings.prices)
            self.summary.sizes = self.summary.sizes.with_report(name, artifact.report())
            if name not in skipped:
                row = StageSummary(name=name, fingerprint=artifact.fingerprint, status="done")
                row.seconds, row.cost = cost.seconds, cost
                self.summary.stages.append(row)
        self.summary.config = self.config.model_dump(mode="json")

    def _made(self, name: str, artifacts: Mapping[str, Artifact]) -> Artifact:
        """Run a stage. A vocabulary that is too large for the sample is halved until it fits."""
        stage = STAGES[name]
        inputs = {need: artifacts[maker] for need, maker in makers_of_inputs(stage, self.config).items()}
        while True:
            try:
                return run_stage(stage, self.config, self.store, inputs, self.job).artifact
            except ConfigError:
                size = self.config.tokenizer.vocab_size // 2
                if name != "tokenizer" or size < _FEWEST_PIECES:
                    raise
                of_both = {"vocab_size": size, "target_vocab_size": min(size, self.config.tokenizer.target_vocab_size)}
                tokenizer = self.config.tokenizer.model_copy(update=of_both)
                self.config = self.config.model_copy(update={"tokenizer": tokenizer})
