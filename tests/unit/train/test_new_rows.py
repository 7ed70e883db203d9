"""A model with a longer vocabulary: older weights stay, new rows have a reason, and are trained alone at first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError, StageError
from nmt_core.models.transformer import Transformer
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.extend import Extension, extended, write_extensions
from nmt_core.tokenizer.tokenizer import SPM_FILE
from nmt_core.train.curves import Curves
from nmt_core.train.distributed import World
from nmt_core.train.new_rows import new_rows
from nmt_core.train.start import find_start
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet
from nmt_core.train.weights import Label

ADDED = 20
ALONE, UPDATES = 3, 5
TRAIN = {
    "max_updates": UPDATES,
    "validate_every": UPDATES,
    "checkpoint_every": 1,
    "keep_checkpoints": UPDATES,
    "max_tokens": 256,
}
MATRICES = {"target_embedding.weight", "source_embedding.weight", "output.weight"}


@pytest.fixture(scope="module")
def longer(tiny: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The tiny vocabulary with further pieces."""
    folder = tmp_path_factory.mktemp("longer")
    lines = ["φωνή και γλώσσα", "another language"] * 20
    model, extension = extended(
        (tiny["tokenizer"].path / SPM_FILE).read_bytes(), ["<2el>"], [(ADDED - 1, lambda: lines)], 1.0
    )
    assert len(extension.cuts) == ADDED
    (folder / SPM_FILE).write_bytes(model)
    write_extensions(folder, {SPM_FILE: extension})
    return Artifact("tokenizer", "ab" * 16, folder)


@pytest.fixture
def older(tiny: dict[str, Artifact], tmp_path: Path) -> Callable[[PipelineConfig], Path]:
    """Write random weights of the tiny vocabulary."""

    def write(config: PipelineConfig) -> Path:
        torch.manual_seed(7)
        model, file = Transformer(config.model, vocab_size(tiny)), tmp_path / "older.safetensors"
        label = Label.of(config.model, tiny["tokenizer"].path)
        save_file({name: each.detach().clone() for name, each in model.named_parameters()}, file, label.metadata())
        return file

    return write


def vocab_size(tiny: dict[str, Artifact]) -> int:
    return TokenShards([tiny["encode"].path / "train-00000.parquet"]).vocab_size


def started(config: PipelineConfig, file: Path, **options: Any) -> PipelineConfig:
    """Return the configuration with a start, and without the rules between sections."""
    train = config.train.model_copy(update={"start_from": str(file), **options})
    return config.model_copy(update={"train": train})


class Trainings:
    """Train in this process."""

    def __init__(self, tiny: dict[str, Artifact], world: World, folder: Path, longer: Artifact) -> None:
        data = tiny["encode"].path
        self._pairs = TokenShards([data / "train-00000.parquet"]), DevSet(read_pairs([data / "dev.parquet"]))
        self._world, self._folder, self._longer = world, folder, longer

    def weights(self, config: PipelineConfig, name: str, stop_at: int = 0) -> dict[int, dict[str, torch.Tensor]]:
        """Train, and return the weights after each update."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        model = Transformer(config.model, self._pairs[0].vocab_size + ADDED)
        start = find_start(config.train, config.model, self._longer)
        trainer = Trainer(model, config.train, self._world, folder, Curves(folder / "metrics.jsonl"), start)
        trainer.fit(*self._pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)
        return {int(file.stem): load_file(file) for file in folder.glob("weights/*.safetensors")}


@pytest.fixture
def trainings(tiny: dict[str, Artifact], world: World, tmp_path: Path, longer: Artifact) -> Trainings:
    return Trainings(tiny, world, tmp_path, longer)


@pytest.mark.parametrize("tied", ["three_way", "two_way", "none"])
def test_the_first_updates_change_the_new_rows_alone(
    trainings: Trainings, make_config: Any, older: Any, tiny: dict[str, Artifact], tied: str
) -> None:
    options = TRAIN | {"optimizer": "adamw", "weight_decay": 0.1, "learning_rate_scale": 0.5}
    config = make_config(train=options, model={"tied_embeddings": tied})
    file, size = older(config), vocab_size(tiny)
    after = trainings.weights(started(config, file, new_rows_first=ALONE), "run")
    before = load_file(file)
    assert set(after) == set(range(1, UPDATES + 1))
    assert (
        MATRICES & set(before)
        == {
            "three_way": {"target_embedding.weight"},
            "two_way": MATRICES - {"output.weight"},
            "none": MATRICES,
        }[tied]
    )
    for update, weights in after.items():
        for name, tensor in before.items():
            assert torch.equal(weights[name][: len(tensor)], tensor) == (update <= ALONE), (update, name)
    moved = "target_embedding.weight" if tied != "none" else "output.weight"
    assert not torch.equal(after[1][moved][size:], after[ALONE][moved][size:])
    assert len(after[1][moved]) == size + ADDED


def test_a_training_that_was_stopped_among_them_ends_with_the_same_weights(
    trainings: Trainings, make_config: Any, older: Any
) -> None:
    config = make_config(train=TRAIN, model={"dropout": 0.1})
    config = started(config, older(config), new_rows_first=ALONE)
    undisturbed = trainings.weights(config, "undisturbed")
    trainings.weights(config, "stopped", stop_at=2)
    resumed = trainings.weights(config, "stopped")
    for update in (ALONE, UPDATES):
        assert all(torch.equal(resumed[update][name], tensor) for name, tensor in undisturbed[update].items())


def test_new_rows_begin_with_the_older_pieces_that_spelled_them_or_are_drawn_like_them() -> None:
    torch.manual_seed(1)
    older_VM = torch.randn(500, 8) * torch.arange(1, 9) + 3
    cuts = ((4, 5), (7,), *[()] * 2_000)
    rows_CM, again_CM = (
        new_rows(older_VM, Extension(sha256="", size=500, cuts=cuts), torch.Generator().manual_seed(5))
        for _ in range(2)
    )
    assert torch.equal(rows_CM, again_CM)
    torch.testing.assert_close(rows_CM[:2], torch.stack([(older_VM[4] + older_VM[5]) / 2, older_VM[7]]))
    torch.testing.assert_close(rows_CM[2:].std(0), older_VM.std(0), rtol=0.1, atol=0)
    torch.testing.assert_close(rows_CM[2:].mean(0), older_VM.mean(0), rtol=0, atol=0.5)
    assert len(rows_CM[2:].unique(dim=0)) == 2_000


def test_weights_of_another_vocabulary_and_moments_are_refused(
    make_config: Any, older: Any, longer: Artifact, tiny: dict[str, Artifact], tmp_path: Path
) -> None:
    config = make_config(train=TRAIN)
    file = older(config)
    start = find_start(started(config, file).train, config.model, longer)
    assert {side: extension.size for side, extension in start.extensions.items()} == dict.fromkeys(
        ("source", "target"), vocab_size(tiny)
    )
    with pytest.raises(StageError, match=r"has no moments for the pieces that tokenizer/abababababab adds"):
        find_start(started(config, file, start_optimizer="kept").train, config.model, longer)
    with pytest.raises(StageError, match=r"new_rows_first=3: .* has rows for all pieces"):
        find_start(started(config, file, new_rows_first=3).train, config.model, tiny["tokenizer"])
    assert not find_start(started(config, file).train, config.model, tiny["tokenizer"]).extensions
    label = Label.of(config.model, longer.path).model_copy(update={"source_vocabulary": "another"})
    save_file(load_file(file), tmp_path / "other.safetensors", label.metadata())
    with pytest.raises(StageError, match=r"its source vocabulary is another.*set tokenizer\.start_from"):
        find_start(started(config, tmp_path / "other.safetensors").train, config.model, longer)


def test_the_option_needs_a_model_new_pieces_and_updates_enough() -> None:
    start = ["train.start_from=model", "tokenizer.start_from=model"]
    for changes, problem in (
        (["train.new_rows_first=5"], "new_rows_first=5 needs a model"),
        ([*start, "train.new_rows_first=5"], "new_rows_first=5 has no effect without new pieces"),
        ([*start, "train.new_rows_first=50", "train.max_updates=20"], "new_rows_first=50 is more than max_updates=20"),
    ):
        with pytest.raises(ConfigError, match=problem):
            load_recipe("quickstart", changes)
    many = ["languages.pairs=[en-ko, ko-en]", "tokenizer.added_pieces.ko=100"]
    assert load_recipe("quickstart", [*start, *many, "train.new_rows_first=5"]).train.new_rows_first == 5
