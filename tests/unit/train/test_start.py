"""Training that starts from a model: it must fit, the training continues from it, and its path does not count."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import Job, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Manifest, Store, describe_outputs, fingerprint_of, now
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE
from nmt_core.train.curves import Curves
from nmt_core.train.distributed import World
from nmt_core.train.launch import identity
from nmt_core.train.start import Start, find_start
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet
from nmt_core.train.weights import Label

UPDATES = 100
PARENT = {"max_updates": UPDATES, "validate_every": UPDATES, "checkpoint_every": UPDATES}
CHILD = {"max_updates": 4, "validate_every": 1, "checkpoint_every": 4, "learning_rate_scale": 1e-6}


class Trainings:
    """Train in this process, in folders of the test."""

    def __init__(self, tiny: dict[str, Artifact], world: World, folder: Path) -> None:
        data = tiny["encode"].path
        self._pairs: tuple[TokenShards, DevSet] = (
            TokenShards([data / "train-00000.parquet"]),
            DevSet(read_pairs([data / "dev.parquet"])),
        )
        self._world, self._folder, self.tokenizer = world, folder, tiny["tokenizer"]

    def trainer(self, config: PipelineConfig, folder: str, start: Start | None = None) -> Trainer:
        (self._folder / folder).mkdir(exist_ok=True)
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, self._pairs[0].vocab_size)
        start = start or find_start(config.train, config.model, self.tokenizer)
        curves = Curves(self._folder / folder / "metrics.jsonl")
        return Trainer(model, config.train, self._world, self._folder / folder, curves, start)

    def fit(self, trainer: Trainer, stop_at: int = 0) -> None:
        trainer.fit(*self._pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)

    def dev_losses(self, folder: str) -> dict[int, float]:
        lines = (self._folder / folder / "metrics.jsonl").read_text().splitlines()
        return {point["update"]: point["dev_loss"] for point in map(json.loads, lines) if "dev_loss" in point}


def published(folder: Path, stage: str, **inputs: str) -> Artifact:
    """Return the folder with a manifest, as in the store."""
    made: dict[str, Any] = {"stage": stage, "inputs": inputs, "folder": folder.name}
    manifest = Manifest(
        stage=stage,
        fingerprint=fingerprint_of(made),
        identity=made,
        recipe="tiny",
        outputs=describe_outputs(folder),
        versions={},
        seconds=0,
        host="",
        created=now(),
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    return Artifact(stage, manifest.fingerprint, folder)


@pytest.fixture(scope="module")
def trainings(tiny: dict[str, Artifact], world: World, tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tiny, world, tmp_path_factory.mktemp("trainings"))


@pytest.fixture(scope="module")
def parent(trainings: Trainings, make_config: Any) -> Artifact:
    """Artifact of a training of a few updates."""
    trainer = trainings.trainer(make_config(train=PARENT), "parent")
    trainings.fit(trainer)
    return published(trainings._folder / "parent", "train")


@pytest.fixture
def child(make_config: Any, parent: Artifact) -> Callable[..., PipelineConfig]:
    """Configuration that starts from the parent, and hardly changes it."""
    return lambda **train: make_config(train=CHILD | {"start_from": str(parent.path)} | train)


def moments(trainer: Trainer) -> list[torch.Tensor]:
    return [state["exp_avg_sq"].clone() for state in trainer._optimizer.state.values()]


def test_a_training_begins_with_the_loss_of_the_model_that_it_starts_from(
    trainings: Trainings, child: Any, make_config: Any, parent: Artifact
) -> None:
    trainer = trainings.trainer(child(), "tuned")
    assert trainer.progress.update == 0
    trainings.fit(trainer)
    trainings.fit(trainings.trainer(make_config(train=CHILD), "random"))
    ended = trainings.dev_losses("parent")[UPDATES]
    assert trainings.dev_losses("tuned")[1] == pytest.approx(ended, abs=1e-3)
    assert trainings.dev_losses("random")[1] > ended + 1
    assert list(trainings.dev_losses("tuned")) == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["folder of an average", "file"])
def test_an_average_and_a_file_are_started_from_as_well(
    trainings: Trainings, child: Any, parent: Artifact, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "model.safetensors"
    shutil.copyfile(next(parent.path.glob("weights/*.safetensors")), file)
    config = child(start_from=str(file if name == "file" else tmp_path))
    start = find_start(config.train, config.model, trainings.tokenizer)
    assert start.weights == file
    assert start.name.startswith("model.safetensors, sha256 ")


def test_moments_are_kept_or_begin_anew(trainings: Trainings, child: Any, make_config: Any, parent: Artifact) -> None:
    """A fine-tuning keeps its own learning rate and Adam options. It takes over only the moments of the gradients."""
    ended = trainings.trainer(make_config(train=PARENT), "parent")
    kept = trainings.trainer(child(start_optimizer="kept", adam_beta2=0.9), "kept")
    fresh = trainings.trainer(child(), "fresh")
    for ours, theirs in zip(moments(kept), moments(ended), strict=True):
        assert torch.equal(ours, theirs)
        assert theirs.any()
    assert not any(each.any() for each in moments(fresh))
    steps = [{int(state["step"]) for state in each._optimizer.state.values()} for each in (kept, fresh)]
    assert steps == [{UPDATES}, {0}]
    assert kept._optimizer.param_groups[0]["betas"] == (0.9, 0.9)
    assert kept.progress.update == 0


def test_a_start_that_was_killed_resumes_from_its_own_checkpoint(
    trainings: Trainings, child: Any, parent: Artifact
) -> None:
    """This holds even if the model that it started from no longer exists."""
    config = child(start_optimizer="kept", learning_rate_scale=1.0)
    start = find_start(config.train, config.model, trainings.tokenizer)
    trainings.fit(trainings.trainer(config, "killed", start), stop_at=2)
    gone = Start(label=start.label, weights=Path("/nowhere/weights"), checkpoint=Path("/nowhere/checkpoint"))
    resumed = trainings.trainer(config, "killed", gone)
    assert resumed.progress.update == 2
    trainings.fit(resumed)
    trainings.fit(trainings.trainer(config, "undisturbed", start))
    ours, theirs = (
        load_file(parent.path.parent / name / "weights" / "000000004.safetensors") for name in ("killed", "undisturbed")
    )
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_files_of_weights_say_what_they_are_of_and_are_the_same_each_time(
    trainings: Trainings, make_config: Any, parent: Artifact, tmp_path: Path
) -> None:
    file = next(parent.path.glob("weights/*.safetensors"))
    label = Label.read(file)
    assert label == Label.of(make_config().model, trainings.tokenizer.path)
    for _ in range(8):
        save_file(load_file(file), tmp_path / "again", label.metadata())
        assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_a_label_knows_both_vocabularies(make_config: Any, tmp_path: Path) -> None:
    for name in (SOURCE_SPM_FILE, TARGET_SPM_FILE):
        (tmp_path / name).write_text(name)
    separate = Label.of(make_config().model, tmp_path)
    assert separate.source_vocabulary != separate.target_vocabulary


def test_another_vocabulary_is_refused_with_both_and_what_to_set(
    trainings: Trainings, child: Any, parent: Artifact, tmp_path: Path
) -> None:
    (tmp_path / SPM_FILE).write_bytes(b"another")
    theirs = Label.read(next(parent.path.glob("weights/*.safetensors"))).source_vocabulary
    ours = Label.of(child().model, tmp_path).source_vocabulary
    with pytest.raises(StageError, match=r"train\.start_from=.*set tokenizer\.start_from to") as caught:
        find_start(child().train, child().model, Artifact("tokenizer", "ab" * 16, tmp_path))
    for part in (str(parent.path), theirs[:12], ours[:12], "tokenizer/abababababab"):
        assert part in str(caught.value)


def test_another_size_is_refused_and_another_dropout_is_not(trainings: Trainings, child: Any, make_config: Any) -> None:
    wider = make_config(model={"d_model": 32, "encoder_layers": 2}).model
    with pytest.raises(StageError, match=r"model\.d_model=16, not 32, model\.encoder_layers=1, not 2") as caught:
        find_start(child().train, wider, trainings.tokenizer)
    assert str(caught.value).endswith("set model.d_model=16, model.encoder_layers=1")
    assert find_start(child().train, make_config(model={"dropout": 0.5}).model, trainings.tokenizer).weights


def test_weights_of_others_are_refused(trainings: Trainings, child: Any, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    (tmp_path / "text.safetensors").write_text("no weights at all")
    for name, reason in (("foreign", "has no label of its vocabulary"), ("text", "cannot be read as weights")):
        config = child(start_from=str(tmp_path / f"{name}.safetensors"))
        with pytest.raises(StageError, match=reason):
            find_start(config.train, config.model, trainings.tokenizer)


def test_the_stage_says_that_there_is_nothing_to_start_from(
    make_config: Any, training_inputs: Any, tmp_path: Path, job: Job
) -> None:
    config = make_config(train={"start_from": str(tmp_path / "gone")})
    with pytest.raises(StageError, match=r"train\.start_from=.*gone: there is no such file"):
        run_stage(STAGES["train"], config, Store(tmp_path), training_inputs(), job)


def test_an_average_has_no_moments_and_names_the_training_that_has(
    trainings: Trainings, child: Any, parent: Artifact, tmp_path: Path
) -> None:
    shutil.copyfile(next(parent.path.glob("weights/*.safetensors")), tmp_path / "model.safetensors")
    published(tmp_path, "average", train="12345678" * 4)
    config = child(start_from=str(tmp_path), start_optimizer="kept")
    with pytest.raises(StageError, match=r"set train\.start_from to train/123456781234, or .* to fresh"):
        find_start(config.train, config.model, trainings.tokenizer)


def test_a_training_that_has_not_ended_gives_its_weights_and_not_its_moments(
    trainings: Trainings, child: Any, parent: Artifact, tmp_path: Path
) -> None:
    """Its last checkpoint may be of another update than its last file of weights."""
    shutil.copytree(parent.path, tmp_path / "partial", ignore=shutil.ignore_patterns("manifest.json"))
    config = child(start_from=str(tmp_path / "partial"))
    assert find_start(config.train, config.model, trainings.tokenizer).weights
    config = child(start_from=str(tmp_path / "partial"), start_optimizer="kept")
    with pytest.raises(StageError, match=r"has no moments of the optimizer: set train\.start_from to the train/FING"):
        find_start(config.train, config.model, trainings.tokenizer)


def test_the_content_counts_and_not_the_place(child: Any, parent: Artifact, tmp_path: Path) -> None:
    kept = identity(child(start_optimizer="kept"))
    shutil.copytree(parent.path, tmp_path / "copy")
    copied = child(start_optimizer="kept", start_from=str(tmp_path / "copy"))
    assert identity(copied) == kept
    (weights,) = (tmp_path / "copy" / "weights").iterdir()
    of_file = identity(child(start_from=str(weights)))
    assert of_file == identity(child()) != kept
    assert str(parent.path) not in str(of_file)
    save_file({name: each + 1 for name, each in load_file(weights).items()}, weights)
    assert identity(child(start_from=str(weights))) != of_file
    assert identity(child(start_from="/gone"))["train"]["start_from"] == "/gone"
