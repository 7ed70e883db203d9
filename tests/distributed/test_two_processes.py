"""The number of processes changes the speed, never the result: two gloo processes against one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars
import psutil
import pytest
import torch
from support.ranks import Ranks
from support.until import command_line

from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import PipelineConfig, TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import SilentReporter
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.train.curves import Curves
from nmt_core.train.distributed import World
from nmt_core.train.trainer import Trainer
from nmt_core.train.translate_dev import DevTranslator
from nmt_core.train.validate import DevSet

Losses = dict[tuple[str, float], float]

# No rectifiers: one bit in a number next to zero turns a gradient on or off there, and 150 updates later the losses are
# 1e-3 apart. Weights that differ in their last bit, of a model without, are 1e-7 apart by then.
SMOOTH = {"activation": "gelu", "dropout": 0.0}


class InterruptionError(Exception):
    """Error that the test raises in a running stage."""


class Interrupting(SilentReporter):
    """Stops training soon after the first point of the curves."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        raise InterruptionError


def losses(points: list[dict[str, float]]) -> Losses:
    return {(name, point["update"]): point[name] for point in points for name in point if name.endswith("_loss")}


def losses_of(artifact: Artifact) -> Losses:
    return losses([json.loads(line) for line in (artifact.path / "metrics.jsonl").read_text().splitlines()])


@pytest.fixture
def one_process(tiny: dict[str, Artifact], world: World, tmp_path: Path) -> Callable[[PipelineConfig], Losses]:
    """Train in this process, and return the losses."""

    def train(config: PipelineConfig) -> Losses:
        folder = tiny["encode"].path
        shards, dev = TokenShards([folder / "train-00000.parquet"]), read_pairs([folder / "dev.parquet"])
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, shards.vocab_size)
        (tmp_path / "one").mkdir()
        file = tmp_path / "one" / "metrics.jsonl"
        Trainer(model, config.train, world, tmp_path / "one", Curves(file)).fit(shards, DevSet(dev), lambda: False)
        return losses([json.loads(line) for line in file.read_text().splitlines()])

    return train


def test_an_update_of_one_slice_is_shared_by_two_processes(
    start_training: Any, ranks: Ranks, one_process: Any, make_config: Any, tiny: dict[str, Artifact], tmp_path: Path
) -> None:
    """One process has nothing to do then, and must still take part in the update."""
    config = make_config(
        train={"max_updates": 30, "validate_every": 15, "max_tokens": 64, "micro_batch_tokens": 64},
        model=SMOOTH,
    )
    shards = TokenShards([tiny["encode"].path / "train-00000.parquet"])
    plan = Plan(shards, "padded", micro_batch_tokens=64, max_tokens=64, seed=config.train.seed)
    assert {len(update) for update in plan.updates(0)} == {1}
    artifact = start_training(config, Store(tmp_path), SilentReporter(), launcher=ranks.launcher(2))
    assert losses_of(artifact) == pytest.approx(one_process(config), rel=1e-5)


TRANSLATING = """
import json
import sys
import torch
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.train.distributed import join_world
from nmt_core.train.translate_dev import DevTranslator

job, architecture = map(json.loads, sys.argv[1:])
model, said = Transformer(ModelConfig.model_validate(architecture), 600), []
model.load_state_dict(torch.load(job["weights"]))
with join_world() as world:
    translator = DevTranslator.load(job, TrainConfig(dev_sentences=19, dev_samples=19), world)
    scores = translator.scores(model, said.append)
print(json.dumps([scores, said]))
"""


@pytest.mark.slow
def test_two_processes_have_the_translations_and_scores_of_one(
    make_config: Any, tiny: dict[str, Artifact], world: World, ranks: Ranks, tmp_path: Path, free_port: int
) -> None:
    """The model has random weights. Half of the references are its own translations, so that BLEU is not zero."""
    job = {"text": str(tmp_path), "tokenizers": str(tiny["tokenizer"].path), "target_language": "ko"}
    job |= {"spelling": ["NFC"], "weights": str(tmp_path / "weights")}
    torch.manual_seed(1)
    model = Transformer(make_config().model, 600)
    with torch.no_grad():
        model.output.weight *= 3
    torch.save(model.state_dict(), job["weights"])
    dev = polars.read_parquet(tiny["split"].path / "dev.parquet").head(19)
    (tmp_path / "splits.json").write_text(json.dumps({"dev": "dev.parquet"}))

    def alone() -> tuple[dict[str, float], list[str]]:
        said: list[str] = []
        translator = DevTranslator.load(job, TrainConfig(dev_sentences=19, dev_samples=19), world)
        return translator.scores(model, said.append), said

    dev.write_parquet(tmp_path / "dev.parquet")
    own = [line.removeprefix("  translation ") for line in alone()[1][3::4]]
    assert len(set(own)) > 10
    dev.with_columns(target=polars.Series([*own[:10], *dev["target"][10:]])).write_parquet(tmp_path / "dev.parquet")
    scores, said = alone()
    assert scores["dev_bleu"] > 1

    program = ["-c", TRANSLATING, json.dumps(job), model.config.model_dump_json()]
    running = ranks.start(program, free_port, 2)
    found = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert [json.loads(each) for each in found] == [[scores, said]] * 2


@pytest.mark.cpu(20)
def test_two_processes_stop_and_one_resumes(
    start_training: Any, ranks: Ranks, one_process: Any, make_config: Any, tmp_path: Path
) -> None:
    """Each update has several passes. `torchrun` starts both processes, and tells them when the stage ends."""
    config = make_config(
        train={
            "max_updates": 150,
            "checkpoint_every": 150,
            "micro_batch_tokens": 128,
            "max_gradient_norm": 0.5,
            "learning_rate_scale": 0.2,
        },
        model=SMOOTH | {"tied_embeddings": "none", "norm": "pre"},
    )
    store = Store(tmp_path)
    with pytest.raises(InterruptionError):
        start_training(config, store, Interrupting(), processes=2)
    checkpoint = max(store.root.glob("train/*.partial/checkpoints/*/.metadata"))
    assert 25 <= int(checkpoint.parent.name) < 150, "SIGTERM saves where it stands"
    family = psutil.Process().children(recursive=True)
    assert not [child for child in family if "nmt_core.train" in command_line(child)]
    artifact = start_training(config, store, SilentReporter(), launcher=ranks.launcher())
    assert losses_of(artifact) == pytest.approx(one_process(config), rel=1e-5)
