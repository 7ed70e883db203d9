"""Checkpoints of one run and models of other runs become one bundle, which evaluation takes as any other."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_model
from support.facts import raises
from support.published import identity_like

from nmt_core.bundle.folder import read_bundle
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError, StageError
from nmt_core.evaluate.report import EvaluateReport
from nmt_core.export.members import check_members
from nmt_core.export.onnx import ExportReport, load_members
from nmt_core.models.build import build_model
from nmt_core.search.beam import beam_search
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Manifest, Store, describe_outputs, fingerprint_of, now
from nmt_core.tokenizer.tokenizer import EOS_ID, Tokenizers
from nmt_core.train.weights import Label
from nmt_core.translator import Translator

_EXPORT = {"precisions": ["fp32", "int8"], "parity_sentences": 8, "calibration_sentences": 4, "quality_sentences": 8}
_EXPORT |= {"max_bleu_loss": 100, "bleu_loss_bound": 100}  # random weights translate nothing
_RECIPE: dict[str, Any] = {
    "export": _EXPORT,
    "train": {"keep_checkpoints": 4},
    "average": {"checkpoints": 1},
    "search": {"beam_size": 2, "max_length_offset": 4, "precision": "fp32"},
    "evaluate": {"must_translate": []},
}


class Bench:
    """Publish trainings whose checkpoints have random weights, and run the stages after them."""

    def __init__(self, tiny: Mapping[str, Artifact], make_config: Callable[..., PipelineConfig], folder: Path) -> None:
        self.made = dict(tiny)
        self.make_config = make_config
        self.folder = folder
        self.store = Store(folder / "store")
        self.tokenizers = Tokenizers.load(tiny["tokenizer"].path)

    def config(self, **sections: Mapping[str, Any]) -> PipelineConfig:
        values = {name: {**_RECIPE.get(name, {}), **sections.get(name, {})} for name in {*_RECIPE, *sections}}
        return self.make_config(**values)

    def weights(self, file: Path, config: PipelineConfig, seed: int, tokenizer: Path | None = None) -> Path:
        torch.manual_seed(seed)
        model = build_model(config.model, self.tokenizers.target.vocab_size)
        model.output.weight.data *= 2
        model.output.weight.data[EOS_ID] *= 2
        label = Label.of(config.model, tokenizer or self.made["tokenizer"].path)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_model(model, str(file), metadata=label.metadata())
        return file

    def training(self, config: PipelineConfig, seeds: range) -> Artifact:
        folder = self.folder / f"train{seeds.start}"
        for seed in seeds:
            self.weights(folder / "weights" / f"{seed:09d}.safetensors", config, seed)
        return published(self.store, "train", folder, str(seeds.start))

    def run(self, config: PipelineConfig, *stages: str, **inputs: Artifact) -> dict[str, Artifact]:
        made = self.made | inputs
        for name in stages:
            needed = {need: made[need] for need in STAGES[name].needs}
            job = Job(SilentReporter(), Resources())
            made[name] = run_stage(STAGES[name], config, self.store, needed, job).artifact
        return made


def published(store: Store, stage: str, folder: Path, digit: str) -> Artifact:
    identity = identity_like(stage, digit)
    manifest = Manifest(
        stage=stage,
        fingerprint=fingerprint_of(identity),
        identity=identity,
        recipe="tiny",
        outputs=describe_outputs(folder),
        versions={},
        seconds=0,
        host="",
        created=now(),
    )
    (store.root / stage).mkdir(parents=True, exist_ok=True)
    return store.publish(folder, manifest)


@pytest.fixture
def bench(tiny: dict[str, Artifact], make_config: Callable[..., PipelineConfig], tmp_path: Path) -> Bench:
    return Bench(tiny, make_config, tmp_path)


def test_checkpoints_and_another_run_become_one_bundle_with_scores(bench: Bench) -> None:
    config = bench.config(average={"ensemble": 2})
    alone = bench.config()
    other = bench.run(alone, "average", train=bench.training(alone, range(10, 11)))["average"]
    both = bench.config(average={"ensemble": 2}, export={**_EXPORT, "members": [str(other.path)]})
    training = bench.training(config, range(1, 5))
    made = bench.run(both, "average", "export", "evaluate", train=training)
    averaged = made["average"].report()
    assert averaged["members"] == ["3", "4"]
    assert min(one["dev_loss"] for one in averaged["kept"][2:]) > 0
    report = ExportReport.model_validate(made["export"].report())
    assert [(one.model, one.checkpoint, one.is_own) for one in report.members] == [
        (made["average"].short, "3", True),
        (made["average"].short, "4", True),
        (other.short, "", False),
    ]
    assert report.identical_beams == report.compared_sentences == 8
    assert set(report.bleu) == {"fp32", "int8"}
    assert read_bundle(made["export"].path).members == 3
    files = [*sorted((made["average"].path / "members").iterdir()), other.path / "model.safetensors"]
    model = load_members(files, config.model, bench.tokenizers)
    assert report.items_out == sum(weight.numel() for weight in model.parameters()) > 2 * 600 * 16
    lines = ["a red house", "the small cat sees"]
    translations = Translator.load(made["export"].path, both.search).translate(lines)
    expected = beam_search(TorchStepper(model), bench.tokenizers.source.encode(lines), both.search)
    assert [one.text for one in translations] == bench.tokenizers.target.decode([one.ids for one in expected])
    first = beam_search(TorchStepper(load_members(files[:1], config.model, bench.tokenizers)), [[5, 6]], both.search)
    assert first[0].score != beam_search(TorchStepper(model), [[5, 6]], both.search)[0].score
    scores = EvaluateReport.model_validate(made["evaluate"].report()).scores
    assert [score.metric for score in scores][:1] == ["BLEU"]


def test_the_loss_of_an_ensemble_is_the_loss_of_its_mean_probability(bench: Bench) -> None:
    """It is at most the mean of the losses (Jensen), and smaller if members differ."""
    config = bench.config(average={"ensemble": 3, "strategy": "best"})
    report = bench.run(config, "average", train=bench.training(config, range(1, 5)))["average"].report()
    losses = sorted(one["dev_loss"] for one in report["kept"])[:3]
    assert len(report["members"]) == 3
    assert report["ensemble_dev_loss"] < sum(losses) / 3
    twice = bench.config(average={"ensemble": 2})
    training = bench.training(twice, range(20, 21))
    (weights,) = (training.path / "weights").iterdir()
    folder = bench.folder / "twice"
    for update in (1, 2):
        (folder / "weights").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(weights, folder / "weights" / f"{update:09d}.safetensors")
    report = bench.run(twice, "average", train=published(bench.store, "train", folder, "9"))["average"].report()
    assert report["ensemble_dev_loss"] == pytest.approx(report["kept"][0]["dev_loss"], rel=1e-5), "two equal members"


def test_members_count_by_their_content(bench: Bench) -> None:
    config = bench.config()
    one, other = (bench.weights(bench.folder / f"{seed}.safetensors", config, seed) for seed in (1, 2))
    shutil.copyfile(one, bench.folder / "copy.safetensors")
    fingerprints = [
        fingerprint_of(STAGES["export"].identity_of(bench.config(export={"members": members}), {"average": "0"}))
        for members in ([], [str(one)], [str(bench.folder / "copy.safetensors")], [str(other)], ["no/such/file"])
    ]
    assert fingerprints[1] == fingerprints[2]
    assert len(set(fingerprints)) == 4


def test_what_cannot_be_a_member_is_refused_by_name(bench: Bench, tmp_path: Path, tiny_tokenizer_file: Path) -> None:
    config = bench.config()
    average = bench.run(config, "average", train=bench.training(config, range(1, 2)))["average"]

    def export(member: Path) -> None:
        members = bench.config(export={**_EXPORT, "members": [str(member)]})
        bench.run(members, "export", average=average)

    deeper = bench.config(model={"decoder_layers": 2, "dropout": 0.3})
    with raises(ConfigError, "deeper.safetensors", "has model.decoder_layers=2, not 1: ", "one shape"):
        export(bench.weights(tmp_path / "deeper.safetensors", deeper, 2))
    strange = bench.weights(tmp_path / "strange.safetensors", config, 2, tiny_tokenizer_file.parent)
    with raises(ConfigError, "strange.safetensors", "the source vocabulary", "tokenizer.start_from"):
        export(strange)
    with raises(ConfigError, average.short, "have the same weights", "name other models"):
        export(average.path)
    with raises(StageError, "nothing", "has no weights", "average/FINGERPRINT"):
        export(tmp_path / "nothing")
    members = {"members": [str(tmp_path / "deeper.safetensors")]}
    with raises(ConfigError, "deeper.safetensors", "model.decoder_layers=2"):
        check_members(bench.config(export=members))
    check_members(bench.config(export={"members": [str(strange), "no/such/file"]}))  # the vocabulary is not known yet
    reused = {"start_from": str(bench.made["tokenizer"].path)}
    with raises(ConfigError, "strange.safetensors", "the source vocabulary"):
        check_members(bench.config(export={"members": [str(strange)]}, tokenizer=reused))
    assert json.loads((average.path / "report.json").read_text())["members"] == []
