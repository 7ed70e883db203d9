"""The end of training, and the weights that it keeps: by the loss, BLEU or chrF of the dev set."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.store.artifacts import Artifact
from nmt_core.train.curves import Listener
from nmt_core.train.distributed import World
from nmt_core.train.progress import watched
from nmt_core.train.trainer import Trainer
from nmt_core.train.translate_dev import DevTranslator
from nmt_core.train.validate import DevSet

Curve = dict[int, dict[str, float]]


class Remembering:
    """Listener that keeps the validations and the messages."""

    def __init__(self) -> None:
        self.validations: Curve = {}
        self.said: list[str] = []

    def point(self, values: Mapping[str, float]) -> None:
        if "dev_loss" in values:
            self.validations[int(values["update"])] = dict(values)

    def say(self, message: str) -> None:
        self.said.append(message)

    def go_back(self, update: int) -> None: ...


@pytest.fixture(scope="module")
def trainer(tiny: dict[str, Artifact], make_config: Any, world: World) -> Callable[..., Any]:
    """Make a trainer with a translator, in a folder."""

    def make(options: Mapping[str, Any], listener: Listener, folder: Path) -> tuple[Trainer, DevTranslator | None]:
        folder.mkdir(exist_ok=True)
        whole = make_config(train=options, average={"checkpoints": 1})
        config: TrainConfig = whole.train
        torch.manual_seed(config.seed)
        places = {"text": str(tiny["split"].path), "tokenizers": str(tiny["tokenizer"].path)}
        job = places | {"target_language": "ko", "spelling": ["NFC", "as_is", "en"]}
        translator = DevTranslator.load(job, config, world) if config.dev_sentences else None
        return Trainer(Transformer(whole.model, 600), config, world, folder, listener), translator

    return make


@pytest.fixture(scope="module")
def fit_in(trainer: Any, tiny: dict[str, Artifact]) -> Callable[..., Remembering]:
    """Train in a folder to the end, or until it is stopped after an update."""
    data = tiny["encode"].path
    pairs = TokenShards([data / "train-00000.parquet"]), read_pairs([data / "dev.parquet"])

    def run(folder: Path, options: Mapping[str, Any], stop_at: int = 0) -> Remembering:
        listener = Remembering()
        one, translator = trainer(options, listener, folder)
        finished = one.fit(
            pairs[0], DevSet(pairs[1], translator), lambda: bool(stop_at) and one.progress.update == stop_at - 1
        )
        assert finished is not bool(stop_at)
        return listener

    return run


@pytest.fixture
def fit(fit_in: Any, tmp_path: Path) -> Callable[..., Remembering]:
    """Train in a folder of the test."""

    def run(options: Mapping[str, Any], folder: str = "run", stop_at: int = 0) -> Remembering:
        return fit_in(tmp_path / folder, options, stop_at)

    return run


def kept(folder: Path) -> set[int]:
    """Return the updates whose weights exist."""
    return {int(file.stem) for file in (folder / "weights").iterdir()}


def best(validations: Curve, name: str, count: int) -> set[int]:
    """Return the updates of the best validations. Of two equal ones, the later counts."""
    sign = 1 if name == "dev_loss" else -1
    return set(sorted(validations, key=lambda update: (sign * validations[update][name], -update))[:count])


EARLY = {"max_updates": 60, "validate_every": 10, "checkpoint_every": 20, "patience": 2, "dev_sentences": 10}


@pytest.mark.parametrize("stop_on", ["dev_loss", "bleu"])
def test_training_stops_when_bleu_does_not_improve_though_the_dev_loss_does(fit: Any, stop_on: str) -> None:
    """Such a young model gets no four words right, so that its BLEU stays. Its loss falls all the time."""
    validations = fit(EARLY | {"stop_on": stop_on}).validations
    losses = [point["dev_loss"] for point in validations.values()]
    assert losses == sorted(losses, reverse=True), "the loss has improved each time"
    bleu = [point["dev_bleu"] for point in validations.values()]
    assert max(bleu[1:3]) <= bleu[0]
    assert max(validations) == (30 if stop_on == "bleu" else 60)


SCRIPTED = """
import sys
from pathlib import Path
calls = Path({log!r})
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
score = {scores!r}[len(calls.read_text()) - 1]
if score is None: sys.exit("no GPU here")
for line in sys.stdin: print(score)
"""
"""Judge that gives every sentence of a validation the next of some scores. None means that it fails."""


@pytest.mark.parametrize(
    ("scores", "lower_is_better", "last"),
    [
        ([5, 4, 3, 2, 1, 0], False, 30),
        ([5, 4, 3, 2, 1, 0], True, 60),
        ([5, None, None, 4, 3, 9], False, 50),
    ],
)
def test_training_stops_by_a_program_and_a_failure_of_it_does_not_count(
    fit: Any, tmp_path: Path, scores: list[int | None], lower_is_better: bool, last: int
) -> None:
    (tmp_path / "judge.py").write_text(SCRIPTED.format(log=str(tmp_path / "log"), scores=scores))
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'judge.py'))}"
    metric = {"name": "judge", "command": command, "lower_is_better": lower_is_better}
    found = fit(EARLY | {"stop_on": "dev_metric", "dev_metric": metric})
    points = [found.validations[update].get("dev_metric") for update in sorted(found.validations)]
    assert points == scores[: last // 10] and max(found.validations) == last
    failures = [line for line in found.said if "judge of the dev set is left out of this validation" in line]
    assert len(failures) == points.count(None) and all("no GPU here" in line for line in failures)


def test_the_best_weights_are_kept_by_another_metric(fit: Any, tmp_path: Path) -> None:
    options = SCORED | {"stop_on": "dev_metric", "dev_metric": "chrF++"} | KEEPING
    validations = fit(options).validations
    expected, updates = best(validations, "dev_metric", 3), sorted(validations)
    assert expected - set(updates[-3:]), "otherwise the last alone would pass"
    assert kept(tmp_path / "run") == expected | set(updates[-2:])


def test_a_lower_ter_is_better() -> None:
    def value(metric: str, **point: float) -> float | None:
        config = TrainConfig.model_validate({"dev_sentences": 1, "stop_on": "dev_metric", "dev_metric": metric})
        return watched(config, {"dev_loss": 1.0} | point)

    assert (value("TER", dev_metric=40.0), value("chrF++", dev_metric=40.0), value("TER")) == (40, -40, None)


WILD = {"max_updates": 80, "validate_every": 8, "checkpoint_every": 8, "learning_rate_scale": 32.0}
"""At this rate the loss diverges as soon as the rate has risen, so that the best validations are early ones."""
SCORED = WILD | {"max_updates": 120, "stop_on": "chrf", "dev_sentences": 20, "learning_rate_scale": 64.0}
"""Training whose chrF ends near zero at this learning rate, on any CPU.

The best three validations are hardly ever the last.
"""
KEEPING = {"keep_checkpoints": 2, "keep_best": 3}


@pytest.fixture(scope="module")
def scored(fit_in: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Curve]:
    """Folder and validations of an undisturbed training that keeps the best by chrF. No test changes it."""
    folder = tmp_path_factory.mktemp("scored")
    return folder, fit_in(folder, SCORED | KEEPING).validations


@pytest.mark.parametrize("name", ["dev_loss", "dev_chrf"])
def test_the_weights_of_the_best_and_the_last_are_kept(
    fit: Any, scored: tuple[Path, Curve], tmp_path: Path, name: str
) -> None:
    folder, validations = scored if name == "dev_chrf" else (tmp_path / "run", fit(WILD | KEEPING).validations)
    expected, updates = best(validations, name, 3), sorted(validations)
    assert expected - set(updates[-3:]), "otherwise the last alone would pass"
    assert kept(folder) == expected | set(updates[-2:])


@pytest.mark.slow
def test_a_stopped_run_keeps_and_scores_what_an_undisturbed_one_does(
    fit: Any, scored: tuple[Path, Curve], tmp_path: Path
) -> None:
    """This also holds if training is stopped between two checkpoints, after the best of them."""
    folder, validations = scored
    found: Curve = {}
    for stop_at in (20, 99, 0):
        found |= fit(SCORED | KEEPING, stop_at=stop_at).validations
    assert found == validations
    assert kept(tmp_path / "run") == kept(folder)
    for update in kept(folder):
        files = [each / "weights" / f"{update:09d}.safetensors" for each in (tmp_path / "run", folder)]
        stopped, expected = (safetensors.torch.load_file(file) for file in files)
        assert all(torch.equal(stopped[name], tensor) for name, tensor in expected.items())


def test_patience_counts_on_through_a_stop(fit: Any) -> None:
    """Without a disturbance, it ends at 30 as well, as the test above shows."""
    assert max(fit(EARLY | {"stop_on": "bleu"}, stop_at=25).validations) == 20
    assert max(fit(EARLY | {"stop_on": "bleu"}).validations) == 30


def test_translations_change_no_weight(fit: Any, tmp_path: Path) -> None:
    """Validations draw no random numbers, and leave the model unchanged."""
    short = {"max_updates": 20, "validate_every": 5, "checkpoint_every": 20}
    for sentences in (0, 5):
        said = fit(short | {"dev_sentences": sentences}, f"{sentences}").said
        assert bool(said) is bool(sentences)
    without, with_them = (
        safetensors.torch.load_file(tmp_path / f"{sentences}" / "weights" / "000000020.safetensors")
        for sentences in (0, 5)
    )
    assert all(torch.equal(with_them[name], tensor) for name, tensor in without.items())
