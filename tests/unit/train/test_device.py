"""Precision, utilisation and profiles: bf16 is chosen if it is native, formulas agree, and traces can be read."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from support.ranks import Ranks
from torch.utils.flop_counter import FlopCounterMode

from nmt_core.config import ModelConfig, PipelineConfig
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import SilentReporter
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.train.device import compute_dtype, missing_bf16, peak_matmul_flops, profiled, training_flop

V100 = torch.device("cuda")


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU without bf16: the answers of PyTorch on one, because no GPU is here."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100")


@pytest.mark.usefixtures("old_gpu")
def test_an_older_gpu_is_named_and_why_it_is_slow() -> None:
    assert compute_dtype("auto", V100) == torch.float32
    said = missing_bf16("auto", V100)
    assert said
    assert "Tesla V100" in said
    assert "fp32" in said


@pytest.mark.usefixtures("old_gpu")
def test_nothing_is_said_where_fp32_was_asked_for_or_there_is_no_gpu() -> None:
    assert missing_bf16("fp32", V100) is None
    assert missing_bf16("auto", torch.device("cpu")) is None


BASE = ModelConfig(tied_embeddings="three_way")
BIG = ModelConfig(d_model=1_024, d_ff=4_096, num_heads=16)


@pytest.mark.parametrize(("config", "gigaflop"), [(BASE, 0.381), (BIG, 1.290)])
def test_the_published_models_need_what_is_known(config: ModelConfig, gigaflop: float) -> None:
    """The count is per pair of tokens, with a joint vocabulary of 37,000 pieces."""
    with torch.device("meta"):
        model = Transformer(config, 37_000)
    assert training_flop(model, 1, 1) / 1e9 == pytest.approx(gigaflop, rel=0.03)


def test_the_formula_is_what_pytorch_counts() -> None:
    """The products of attention itself are left out. They are few in short sentences."""
    model = Transformer(ModelConfig(d_model=64, d_ff=128, num_heads=4, encoder_layers=2, decoder_layers=3), 300)
    source, target = torch.randint(4, 300, (8, 5)), torch.randint(4, 300, (8, 4))
    with FlopCounterMode(display=False) as counter:
        model.output(model(source, target)).sum().backward()
    assert training_flop(model, source.numel(), target.numel()) == pytest.approx(counter.get_total_flops(), rel=0.1)


def test_a_matrix_product_takes_time() -> None:
    assert 1e8 < peak_matmul_flops(torch.device("cpu"), torch.float32) < 1e14


SHORT = {"max_updates": 20, "validate_every": 20, "checkpoint_every": 20, "keep_checkpoints": 2}


@pytest.fixture(scope="module")
def config(make_config: Any) -> PipelineConfig:
    return make_config(train=SHORT)


@pytest.fixture(scope="module")
def traced(start_training: Any, ranks: Ranks, make_config: Any, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Artifact of a training by two processes, three updates of which are traced."""
    config, store = make_config(train=SHORT | {"profile_updates": 3}), Store(tmp_path_factory.mktemp("traced"))
    return start_training(config, store, SilentReporter(), launcher=ranks.launcher(2))


def trace_of(artifact: Artifact, rank: int) -> list[dict[str, Any]]:
    with gzip.open(artifact.path / "profile" / f"{rank}.json.gz", "rt") as file:
        return list(json.load(file)["traceEvents"])


def test_a_trace_names_the_matrix_products_of_the_updates_asked_for(traced: Artifact) -> None:
    for rank in (0, 1):
        trace = trace_of(traced, rank)
        updates = {event["name"] for event in trace if event["name"].startswith("ProfilerStep")}
        assert updates == {"ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"}, "counted from 0"
        products = [event["args"]["Input Dims"] for event in trace if event["name"] == "aten::mm"]
        assert any(dims[1] == [16, 32] for dims in products), "into the feed-forward layer, with the shapes"
        assert any(dims[1] == [600, 16] for dims in products), "and of the vocabulary"


def test_a_table_lists_the_costliest_operators(traced: Artifact) -> None:
    lines = (traced.path / "profile" / "0.txt").read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("---")]
    operators = lines[rules[1] + 1 : rules[2]]
    assert len(operators) == 30
    assert any(line.split()[0] == "aten::mm" for line in operators)
    shares = [float(line.split("%")[0].split()[-1]) for line in operators]
    assert shares == sorted(shares, reverse=True)


def test_the_weights_equal_a_training_without_a_profile(
    traced: Artifact, start_training: Any, ranks: Ranks, config: PipelineConfig, tmp_path: Path
) -> None:
    plain = start_training(config, Store(tmp_path), SilentReporter(), launcher=ranks.launcher(2))
    assert plain.fingerprint == traced.fingerprint
    assert not (plain.path / "profile").exists()
    (file,) = (plain.path / "weights").iterdir()
    seen = safetensors.torch.load_file(traced.path / "weights" / file.name)
    for name, tensor in safetensors.torch.load_file(file).items():
        assert torch.equal(seen[name], tensor), name


def test_a_profile_that_cannot_be_written_costs_no_training(tmp_path: Path) -> None:
    (tmp_path / "profile").touch()  # where the folder should be
    said: list[str] = []
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weights], lr=0.1)
    with profiled(2, tmp_path / "profile", 0, said.append):
        for _ in range(15):
            weights.sum().backward()
            optimizer.step()
    assert len(said) == 1
    assert "cannot be written" in said[0]
