"""The losses are the losses of one process, however the weights are spread over processes and nodes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from support.keeper import mark
from support.ranks import Ranks
from support.until import patient

from nmt_core.config import PipelineConfig
from nmt_core.execution import processes
from nmt_core.execution.torchrun import CONFIG, TRAINING_ENVIRONMENT, Rendezvous, torchrun_command
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.tokenizer.extend import extended, write_extensions
from nmt_core.tokenizer.tokenizer import SPM_FILE
from nmt_core.train.launch import METRICS
from nmt_core.train.status import read_status

Losses = dict[tuple[str, float], float]

UPDATES = 12
TRAIN = {
    "max_updates": UPDATES,
    "validate_every": 3,
    "checkpoint_every": UPDATES,
    "max_gradient_norm": 0.1,  # which every gradient has
    "micro_batch_tokens": 128,
    "learning_rate_scale": 0.1,  # for so narrow a model the usual rate is wild, and makes differences of rounding grow
}
# No rectifiers: one bit of a number next to zero turns a gradient on or off there.
SMOOTH = {"activation": "gelu", "dropout": 0.0, "encoder_layers": 2, "decoder_layers": 2}


def losses(folder: Path) -> Losses:
    points = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    names = ("dev_loss", "best_dev_loss", "train_loss", "gradient_norm")
    return {(name, point["update"]): point[name] for point in points for name in names if name in point}


@pytest.fixture(scope="module")
def config(make_config: Any) -> Callable[..., PipelineConfig]:
    def make(**train: Any) -> PipelineConfig:
        return make_config(train=TRAIN | train, model=SMOOTH)

    return make


@pytest.fixture(scope="module")
def train(
    training_inputs: Callable[..., dict[str, Artifact]], tmp_path_factory: pytest.TempPathFactory, ranks: Ranks
) -> Callable[[PipelineConfig, int], Artifact]:
    """Run the real stage with this many processes."""

    def run(config: PipelineConfig, processes: int, **others: Artifact) -> Artifact:
        job = Job(SilentReporter(), Resources(), launcher=ranks.launcher(processes))
        store = Store(tmp_path_factory.mktemp("store"))
        return run_stage(STAGES["train"], config, store, training_inputs(**others), job).artifact

    return run


@pytest.fixture(scope="module")
def one(train: Any, config: Any) -> Artifact:
    return train(config(), 1)


@pytest.fixture(scope="module")
def alone(one: Artifact) -> Losses:
    return losses(one.path)


@pytest.mark.parametrize(
    ("processes", "options"),
    [
        (2, {"parallel": "ddp"}),
        pytest.param(2, {"parallel": "fsdp"}, marks=pytest.mark.slow),  # the last one shards in the same way
        pytest.param(4, {"parallel": "hsdp", "shard_size": 2}, marks=pytest.mark.slow),
        (2, {"parallel": "fsdp", "activation_checkpointing": True, "batching": "packed", "ema_decay": 0.9}),
    ],
    ids=["2 DDP", "2 FSDP", "2x2 HSDP", "2 FSDP, checkpointed and packed"],
)
def test_the_losses_match_one_process(
    train: Any, config: Any, alone: Losses, processes: int, options: dict[str, Any]
) -> None:
    if "batching" in options:
        one = train(config(batching="packed", ema_decay=0.9), 1)
        several = train(config(**options), processes)
        expected, found = losses(one.path), losses(several.path)
        for name in (f"{UPDATES:09d}.safetensors", f"{UPDATES:09d}.ema.safetensors"):
            weights = [safetensors.torch.load_file(each.path / "weights" / name) for each in (one, several)]
            assert weights[0].keys() == weights[1].keys()
            for key, tensor in weights[0].items():
                torch.testing.assert_close(weights[1][key], tensor, rtol=1e-3, atol=1e-5)
    else:
        expected, found = alone, losses(train(config(**options), processes).path)
    assert len(expected) == 2 * 4 + 2, "loss and best loss of each validation; mean loss of all updates, last gradient"
    assert expected["gradient_norm", UPDATES] > TRAIN["max_gradient_norm"]
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow  # the processes share a Transformer in the same way; `tests/unit/train` trains recurrent networks
@pytest.mark.cpu(12)
def test_a_recurrent_network_may_be_shared_too(train: Any, make_config: Any) -> None:
    model = {"architecture": "rnn", "encoder_layers": 2, "tied_embeddings": "none", "dropout": 0.0}
    model["rnn"] = {"hidden_size": 16, "alignment_size": 16, "maxout_size": 16}
    options = TRAIN | {"dev_sentences": 10, "validate_every": 8, "adam_epsilon": 1e-5}
    expected = losses(train(make_config(train=options, model=model), 1).path)
    sharded = options | {"parallel": "fsdp", "activation_checkpointing": True}
    made = train(make_config(train=sharded, model=model), 2)
    assert made.report()["dev_chrf"] is not None
    assert losses(made.path) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_guided_alignment_is_the_same_for_any_processes(
    tiny: dict[str, Artifact], train: Any, make_config: Any, tmp_path: Path
) -> None:
    model = SMOOTH | {"alignment_layer": 1}

    def config(**changes: Any) -> PipelineConfig:
        return make_config(encode={"alignments": True}, train=TRAIN | changes, model=model)

    inputs, job = {name: tiny[name] for name in STAGES["encode"].needs}, Job(SilentReporter(), Resources())
    encode = run_stage(STAGES["encode"], config(), Store(tmp_path), inputs, job).artifact
    expected = losses(train(config(), 1, encode=encode).path)
    unguided = losses(train(config(alignment_weight=1e-9), 1, encode=encode).path)
    assert expected["gradient_norm", UPDATES] != pytest.approx(unguided["gradient_norm", UPDATES], rel=1e-3)
    for changes in ({}, {"parallel": "fsdp", "activation_checkpointing": True}):
        assert losses(train(config(**changes), 2, encode=encode).path) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.cpu(20)
def test_weights_are_rounded_to_integers_the_same_for_any_processes(train: Any, make_config: Any) -> None:
    """A shard has whole rows, and each row has a scale of its own."""

    def config(**changes: Any) -> PipelineConfig:
        return make_config(train=TRAIN | changes, model=SMOOTH)

    expected = losses(train(config(int8_aware_from=3), 1).path)
    assert expected != pytest.approx(losses(train(config(), 1).path), rel=1e-5)
    assert losses(train(config(int8_aware_from=3, parallel="fsdp"), 2).path) == pytest.approx(expected, rel=1e-5)


def test_processes_that_share_the_weights_start_from_a_model_and_its_moments_as_one_does(
    train: Any, config: Any, one: Artifact, alone: Losses
) -> None:
    start = {"start_from": str(one.path), "start_optimizer": "kept", "max_updates": 6, "checkpoint_every": 6}
    start["validate_every"] = 6
    expected = losses(train(config(**start), 1).path)
    sharded = train(config(**start, parallel="fsdp", activation_checkpointing=True), 2)
    assert losses(sharded.path) == pytest.approx(expected, rel=1e-5)
    assert sharded.report()["started_from"].startswith("train/")
    assert expected["dev_loss", 6] < alone["dev_loss", UPDATES], "it resumes where the other has ended"


@pytest.mark.slow
@pytest.mark.cpu(40)
def test_two_nodes_of_two_processes_train_as_one_process_does(
    tiny: dict[str, Artifact], config: Any, alone: Losses, tmp_path: Path, free_port: int
) -> None:
    """Two `torchrun` agents, each of which believes that it is a node, meet on the loopback.

    HSDP shards within a node.
    """
    settings = config(parallel="hsdp")
    sections = {"train": settings.train.model_dump(), "model": settings.model.model_dump()}
    (tmp_path / CONFIG).write_text(json.dumps(sections | {"data": str(tiny["encode"].path)}))
    rendezvous = Rendezvous("2", "2", f"127.0.0.1:{free_port}", job_id="test", local_address="127.0.0.1")
    command = torchrun_command(tmp_path, rendezvous, sys.executable)
    environment = TRAINING_ENVIRONMENT | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin:/bin"}
    environment |= mark()
    nodes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        said = [node.communicate(timeout=patient(100))[0] for node in nodes]
    finally:
        for node in nodes:  # which ends its ranks, each of which is in a session of its own
            processes.end(node, grace=30)
    assert [node.returncode for node in nodes] == [0, 0], said
    status = read_status(tmp_path)
    assert status is not None
    assert (status.state, status.update) == ("finished", UPDATES)
    assert losses(tmp_path) == pytest.approx(alone, rel=1e-5)


@pytest.mark.slow
@pytest.mark.cpu(20)
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_new_rows_alone_are_trained_the_same_by_any_processes(
    tiny: dict[str, Artifact], train: Any, config: Any, one: Artifact, tmp_path: Path, parallel: str
) -> None:
    """Two shards of the embeddings have older rows only, or older and new ones."""
    lines = ["φωνή και γλώσσα", "άλλη γλώσσα"] * 20
    model, extension = extended((tiny["tokenizer"].path / SPM_FILE).read_bytes(), [], [(30, lambda: lines)], 1.0)
    (tmp_path / "longer").mkdir()
    (tmp_path / "longer" / SPM_FILE).write_bytes(model)
    write_extensions(tmp_path / "longer", {SPM_FILE: extension})
    longer = Artifact("tokenizer", "ab" * 16, tmp_path / "longer")
    inputs = {name: tiny[name] for name in STAGES["encode"].needs} | {"tokenizer": longer}
    job = Job(SilentReporter(), Resources())
    encode = run_stage(STAGES["encode"], config(), Store(tmp_path), inputs, job).artifact

    def trained(processes: int, parallel: str) -> Artifact:
        plain = config(parallel=parallel)
        start = {"start_from": str(one.path), "new_rows_first": UPDATES}  # more than one recipe of one pair may have
        changed = plain.model_copy(update={"train": plain.train.model_copy(update=start)})
        return train(changed, processes, encode=encode, tokenizer=longer)

    alone, several = trained(1, "ddp"), trained(2, parallel)
    assert losses(several.path) == pytest.approx(losses(alone.path), rel=1e-5)
    name = f"weights/{UPDATES:09d}.safetensors"
    before, expected, found = (safetensors.torch.load_file(each.path / name) for each in (one, alone, several))
    for key, tensor in before.items():
        assert torch.equal(found[key][: len(tensor)], tensor)
        torch.testing.assert_close(found[key], expected[key], rtol=1e-4, atol=1e-6)
    assert len(found["target_embedding.weight"]) == extension.size + len(extension.cuts)
