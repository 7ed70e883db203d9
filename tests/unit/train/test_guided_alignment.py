"""Guided alignment: heads learn the links of the text, exactly as often as the training resumes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.batches.collate import Batch, pack, pad
from nmt_core.batches.plan import Capacity
from nmt_core.batches.shards import DEV_FILE, TokenPairs, TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.export.gates import onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.models.attention_trace import AttentionView
from nmt_core.models.build import build_model
from nmt_core.models.kernels import Kernels
from nmt_core.models.loss import alignment_loss, smoothed_cross_entropy
from nmt_core.models.transformer import Transformer
from nmt_core.recipes.recipe import with_changes
from nmt_core.search.alignment import Aligner
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.distributed import World
from nmt_core.train.parallel import Objective
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet

MODEL = {"decoder_layers": 2, "alignment_layer": 2, "d_model": 32, "num_heads": 4, "dropout": 0.0}
TRAIN = {
    "max_updates": 60,
    "validate_every": 60,
    "checkpoint_every": 30,
    "max_tokens": 1_024,
    "micro_batch_tokens": 512,
}
ROWS = np.arange(40)


class Silent:
    """A listener that drops everything."""

    def point(self, values: Any) -> None: ...
    def say(self, message: str) -> None: ...
    def go_back(self, update: int) -> None: ...


@pytest.fixture(scope="module")
def config(make_config: Any) -> Callable[..., PipelineConfig]:
    def make(model: dict[str, Any] | None = None, **train: Any) -> PipelineConfig:
        return make_config(encode={"alignments": True}, model=MODEL | (model or {}), train=TRAIN | train)

    return make


@pytest.fixture(scope="module")
def aligned(
    tiny: dict[str, Artifact], config: Callable[..., PipelineConfig], tmp_path_factory: pytest.TempPathFactory
) -> Artifact:
    inputs = {name: tiny[name] for name in STAGES["encode"].needs}
    job = Job(SilentReporter(), Resources())
    return run_stage(STAGES["encode"], config(), Store(tmp_path_factory.mktemp("store")), inputs, job).artifact


@pytest.fixture(scope="module")
def pairs(aligned: Artifact) -> tuple[TokenShards, DevSet]:
    return TokenShards(sorted(aligned.path.glob("train-*.parquet"))), DevSet(read_pairs([aligned.path / DEV_FILE]))


@pytest.fixture(scope="module")
def train(pairs: tuple[TokenShards, DevSet], world: World) -> Callable[..., Transformer]:
    def run(folder: Path, config: PipelineConfig, stop_at: int = 0) -> Transformer:
        folder.mkdir(exist_ok=True)
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, pairs[0].vocab_size)
        trainer = Trainer(model, config.train, world, folder, Silent())
        trainer.fit(*pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)
        return model.eval()

    return run


def some(pairs: tuple[TokenShards, DevSet]) -> TokenPairs:
    return pairs[0].read(range(len(pairs[0].groups)))


def share_of_links_followed(model: Transformer, batch: Batch) -> float:
    """Share of target tokens whose likeliest source position is the one that they are linked with."""
    assert batch.aligned is not None
    with torch.inference_mode():
        *_, attention = model.forward_with_attention(batch.source, batch.decoder_input, batch.source_layout)
        found = attention.log_weights().mean(1).argmax(-1)
    counted = batch.aligned >= 0
    return float((found == batch.aligned)[counted].float().mean())


@pytest.mark.slow
@pytest.mark.cpu(20)
def test_heads_learn_the_links(
    train: Callable[..., Transformer], config: Callable[..., PipelineConfig], pairs: Any, tmp_path: Path
) -> None:
    batch = pad(some(pairs), ROWS)
    guided = train(tmp_path / "guided", config(alignment_weight=1.0))
    free = train(tmp_path / "free", config(model={"alignment_layer": 0}))
    free.config = guided.config  # the same head is looked at
    assert share_of_links_followed(guided, batch) > share_of_links_followed(free, batch) + 0.2


def test_a_stopped_training_resumes_to_the_same_weights(
    train: Callable[..., Transformer], config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    whole = train(tmp_path / "whole", config())
    train(tmp_path / "stopped", config(), stop_at=20)
    resumed = train(tmp_path / "stopped", config())
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


@pytest.mark.parametrize("autoregression", ["self_attention", "ssru"])
def test_padded_and_packed_batches_have_the_same_loss(
    config: Callable[..., PipelineConfig], pairs: Any, autoregression: str
) -> None:
    model = Transformer(config({"decoder_autoregression": autoregression}).model, pairs[0].vocab_size).eval()
    objective = Objective(model, 0.1, torch.float32, alignment_weight=0.5)
    of_all = some(pairs)
    padded = pad(of_all, ROWS)
    capacity = Capacity(*(int(side.lengths[ROWS].sum()) + 7 for side in (of_all.source, of_all.target)))
    packed = pack([(of_all, ROWS[:15]), (of_all, ROWS[15:])], capacity)
    with torch.inference_mode():
        (one, plain), (other, of_packed) = objective(padded), objective(packed)
        without, _ = Objective(model, 0.1, torch.float32)(padded)
        states, attention = model.forward_with_attention(padded.source, padded.decoder_input, padded.source_layout)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(plain, of_packed)
    smoothed, _ = smoothed_cross_entropy(states, model.output.weight, padded.target, 0.1, PAD_ID)
    torch.testing.assert_close(without, smoothed)
    with torch.inference_mode():
        in_bf16, _ = Objective(model, 0.1, torch.bfloat16, alignment_weight=0.5)(padded)
    assert float(in_bf16) == pytest.approx(float(one), rel=0.01)
    weights_BTS, expected = attention.log_weights()[:, 0], 0.0
    for row, aligned in enumerate(padded.aligned.tolist()):
        expected -= sum(float(weights_BTS[row, t, place]) for t, place in enumerate(aligned) if place >= 0)
    assert float(one - without) == pytest.approx(0.5 * expected, rel=1e-4)
    assert float(alignment_loss(attention.log_weights(), padded.aligned)) == pytest.approx(expected, rel=1e-4)


def test_a_model_without_heads_to_align_refuses_by_name(config: Callable[..., PipelineConfig], pairs: Any) -> None:
    """A configuration refuses it first. Without a message, such a training would learn no alignments and not say so."""
    free = {"alignment_layer": 0, "architecture": "rnn", "decoder_layers": 1, "tied_embeddings": "none"}
    rnn = build_model(config(free).model, pairs[0].vocab_size, 64)
    rnn.config = config().model
    objective = Objective(rnn, 0.1, torch.float32, alignment_weight=0.5)
    with pytest.raises(
        ConfigError, match=r"model\.alignment_layer=2: a SearchModel has no attention .* to transformer"
    ):
        objective(pad(some(pairs), ROWS[:2]))


def test_every_target_token_is_linked_with_a_token_of_its_source(pairs: Any) -> None:
    of_all = some(pairs)
    batch = pad(of_all, ROWS)
    assert of_all.links is not None and batch.aligned is not None
    np.testing.assert_array_equal(of_all.links.lengths, of_all.target.lengths)
    for row in range(len(ROWS)):
        length, last = int(of_all.target.lengths[row]), int(of_all.source.lengths[row]) - 1
        aligned = batch.aligned[row].tolist()
        assert aligned[0] == -1 and set(aligned[length:]) <= {-1}, "nothing at <s> and at padding"
        assert all(0 <= place <= last for place in aligned[1:length])
        links = of_all.links.ids[of_all.links.starts[row] :][: length - 1]
        assert aligned[1:length] == links.tolist(), "the token that a position reads"


def test_words_are_aligned_by_the_heads_that_have_learnt_to(
    config: Callable[..., PipelineConfig], pairs: Any, tmp_path: Path
) -> None:
    """The graph returns, for the position that predicts a token, the attention of the one that reads it."""
    model = Transformer(config({"alignment_heads": 2}).model, pairs[0].vocab_size, 64).eval().requires_grad_(False)
    batch = pad(some(pairs), ROWS[:5])
    *_, cross, aligning = AttentionView(Kernels(model), 2)(batch.source, batch.decoder_input)
    *_, attention = model.forward_with_attention(batch.source, batch.decoder_input, batch.source_layout)
    weights_BTS = attention.log_weights().exp().mean(1)
    torch.testing.assert_close(cross[:, 1, :2].mean(1), weights_BTS)
    torch.testing.assert_close(aligning[:, :-1], weights_BTS[:, 1:])
    export_graphs(onnx_kernels(model), tmp_path / "fp32", with_attention=True)
    exported_BTS = Aligner(tmp_path / "fp32", 1_000).attention(batch.source.numpy(), batch.decoder_input.numpy())
    is_real_BT1 = (batch.decoder_input != PAD_ID)[..., None].numpy()
    np.testing.assert_allclose(exported_BTS * is_real_BT1, aligning.numpy() * is_real_BT1, atol=1e-5)


def test_shards_without_links_are_as_before(tiny: dict[str, Artifact], aligned: Artifact, tmp_path: Path) -> None:
    before = read_pairs(sorted(tiny["encode"].path.glob("train-*.parquet")))
    after = read_pairs(sorted(aligned.path.glob("train-*.parquet")))
    assert before.links is None and after.links is not None
    np.testing.assert_array_equal(before.target.ids, after.target.ids)
    ends = np.repeat(after.source.lengths - 1, after.target.lengths)
    linked = np.count_nonzero(after.links.ids != ends) / (len(after.target.ids) - len(after))
    assert aligned.report()["target_linked"] == pytest.approx(linked, abs=1e-4)
    assert linked > 0.5 and tiny["encode"].report()["target_linked"] is None
    shutil.copytree(aligned.path, tmp_path / "copy")
    assert (tmp_path / "copy" / "aligner.safetensors").is_file()


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ("encode.alignments=false", "set encode.alignments to true"),
        ("encode.subword_sampling=0.1", "set subword_sampling to 0"),
        ("model.alignment_layer=3", "more than decoder_layers=2"),
        ("model.alignment_heads=5", "more than num_heads=4"),
        ("model.architecture=rnn", "set alignment_layer to 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(config: Callable[..., PipelineConfig], change: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        with_changes(config(), change)
