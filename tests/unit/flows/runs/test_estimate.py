"""Rules that estimate weights, memory and disk from a recipe alone."""

import copy
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.trained_here import Here

from flows.runs.estimate import _POSITIONS, estimate, memory
from nmt_core.config import ModelConfig, PipelineConfig, SearchConfig
from nmt_core.models.build import build_model
from nmt_core.models.counts import parameters
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store
from nmt_core.train.distributed import World


@pytest.mark.parametrize(("tied", "norm"), list(product(("three_way", "two_way", "none"), ("post", "pre"))))
def test_weights_are_counted_without_building_the_model(tied: Any, norm: Any) -> None:
    config = ModelConfig(
        d_model=16, d_ff=24, num_heads=2, encoder_layers=3, decoder_layers=2, tied_embeddings=tied, norm=norm
    )
    built = sum(weight.numel() for weight in Transformer(config, 100).parameters())
    assert parameters(config, 100) == built


RECURRENT: list[dict[str, Any]] = [
    {"rnn": {}},
    {"encoder_layers": 2, "rnn": {"cell": "lstm"}},
    {"rnn": {"cell": "rnn"}},
    {"decoder_layers": 3, "rnn": {"attention": "none"}},
    {"rnn": {"attention": "none", "context": "first_state", "bidirectional": False}},
    {"encoder_layers": 2, "decoder_layers": 2, "rnn": {"attention": "dot", "cell": "lstm", "bidirectional": False}},
    {"rnn": {"attention": "general", "bidirectional": False}},
    {"rnn": {"attention": "concat", "cell": "lstm", "bidirectional": False, "input_feeding": True}},
    {"d_model": 8, "tied_embeddings": "three_way", "rnn": {}},
]


@pytest.mark.parametrize("changes", RECURRENT, ids=str)
def test_weights_of_recurrent_networks_are_counted_without_building_them(changes: dict[str, Any]) -> None:
    sizes = {"hidden_size": 12, "alignment_size": 7, "maxout_size": 8}
    values = {"architecture": "rnn", "d_model": 10, "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}
    config = ModelConfig.model_validate(values | changes | {"rnn": sizes | changes["rnn"]})
    assert parameters(config, 100) == sum(weight.numel() for weight in build_model(config, 100).parameters())


def test_weights_of_a_variation_are_counted_as_well(variation: Transformer) -> None:
    built = sum(weight.numel() for weight in variation.parameters())
    assert parameters(variation.config, variation.vocab_size) == built


OWN_VOCABULARIES: list[dict[str, Any]] = [
    {"tied_embeddings": "two_way"},
    {"tied_embeddings": "none"},
    {"tied_embeddings": "none", "architecture": "rnn", "rnn": {"hidden_size": 12, "alignment_size": 7}},
]


@pytest.mark.parametrize("model", OWN_VOCABULARIES, ids=str)
def test_each_language_may_have_a_vocabulary_of_its_own(model: dict[str, Any], tmp_path: Path) -> None:
    sizes = {"d_model": 12, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = PipelineConfig.model_validate(
        {
            "name": "small",
            "corpus": {"toy": {}},
            "tokenizer": {"vocabularies": "separate", "vocab_size": 300, "target_vocab_size": 200},
            "model": sizes | model,
        }
    )
    built = build_model(config.model, 200, source_vocab_size=300)
    weights = sum(weight.numel() for weight in built.parameters())
    assert parameters(config.model, 200, 300) == weights
    assert estimate("average", config, Store(tmp_path)).bytes == 4 * weights
    assert estimate("train", config, Store(tmp_path)).basis.startswith(f"peak: {weights:,} weights x ")


def test_a_rule_of_thumb_is_named(tmp_path: Path) -> None:
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}})
    train = estimate("train", config, Store(tmp_path))
    assert train.bytes == parameters(config.model, 8_000) * (12 * 3 + 4 * 6)
    assert "12 bytes x 3 + 4 bytes x 6" in train.basis
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}, "train": {"keep_best": 2}})
    assert "12 bytes x 3 + 4 bytes x 8" in estimate("train", config, Store(tmp_path)).basis


def test_training_takes_as_much_disk_as_was_told(
    training_inputs: Any, make_config: Any, world: World, tmp_path: Path
) -> None:
    """The disk is measured at its peak, and hardly more is forecast: every checkpoint is measured as it is written.

    The last run of the same recipe does not count, because its model was smaller and only its remains are known.
    """
    train = {"max_updates": 50, "checkpoint_every": 10, "ema_decay": 0.9}
    config = make_config(train=train, model={"d_model": 64, "d_ff": 128})
    store, stage, inputs = Store(tmp_path), STAGES["train"], training_inputs()
    short = make_config(train={"max_updates": 10})
    former = run_stage(stage, short, store, inputs, Job(SilentReporter(), Resources(), launcher=Here(world))).artifact
    assert former.manifest().recipe == config.name
    before = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    told = estimate("train", config, store).bytes
    weights = parameters(config.model, config.tokenizer.vocab_size)
    most = 0

    def watch(line: str) -> None:
        nonlocal most
        with suppress(FileNotFoundError):  # it went while we looked
            sizes = {file: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()}
            # What goes while we look never was there together with all that has come since.
            most = max(most, sum(size for file, size in sizes.items() if file.exists()))

    job = Job(SilentReporter(), Resources(), launcher=Here(world, watch))
    made = run_stage(stage, config, store, inputs, job).artifact
    assert told is not None
    assert told == weights * (16 * 3 + 4 * 4 + 4)
    # Each tensor of a checkpoint has a header of some kB, which counts in a model as small as this one.
    of_one = sum(file.stat().st_size for file in (made.path / "checkpoints").rglob("*") if file.is_file())
    headers = 3 * (of_one - 16 * weights)
    assert 0.5 * told < most - before < 1.05 * (told + headers)


def test_text_that_is_not_here_has_no_size(tmp_path: Path) -> None:
    files = {"name": "web", "source": "https://example.org/a.en", "target": "https://example.org/a.de"}
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"train": [files]}})
    assert estimate("clean", config, Store(tmp_path)).bytes is None
    for side in ("source", "target"):
        (tmp_path / side).write_text("x" * 500)
        files[side] = str(tmp_path / side)
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"train": [files]}})
    assert estimate("clean", config, Store(tmp_path)).bytes == 1_000


@pytest.mark.cpu(30)
def test_an_export_takes_what_is_forecast(tmp_path: Path) -> None:
    """Graphs that are really exported, in each precision."""
    from nmt_core.export.calibration import calibrate
    from nmt_core.export.gates import onnx_kernels
    from nmt_core.export.graphs import export_graphs
    from nmt_core.export.onnx import MAX_POSITIONS
    from nmt_core.export.onnx_kernels import Int8Kernels

    assert MAX_POSITIONS == _POSITIONS
    sizes = {"d_model": 128, "d_ff": 512, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    model = Transformer(ModelConfig.model_validate(sizes), 4_000, MAX_POSITIONS).eval().requires_grad_(False)
    search = SearchConfig(beam_size=1, max_length_offset=4)
    kinds = {
        "fp32": onnx_kernels(model),
        "int8": Int8Kernels(model, calibrate(model, [[5, 6, 7, 3], [9, 8, 3]], search)),
        "fp16": onnx_kernels(copy.deepcopy(model).half()),
    }
    for name, kernels in kinds.items():
        export_graphs(kernels, tmp_path / name, with_attention=name == "fp32")
    for precisions in (["fp32"], ["int8"], ["int8", "fp16"]):
        values = {"name": "small", "corpus": {"toy": {}}, "tokenizer": {"vocab_size": 4_000}, "model": sizes}
        config = PipelineConfig.model_validate(values | {"export": {"precisions": precisions}})
        files = [file for name in {"fp32", *precisions} for file in (tmp_path / name).rglob("*")]
        takes = sum(file.stat().st_size for file in files if file.is_file())
        assert estimate("export", config, Store(tmp_path / "store")).bytes == pytest.approx(takes, rel=0.05)


def test_the_tokenizer_needs_memory_by_its_sample() -> None:
    def needed(pairs: int, **tokenizer: Any) -> float:
        files = {"address": "https://example.org/x.tsv"}
        values = {"name": "x", "corpus": {"train": [{"name": "x", **files}]}, "tokenizer": tokenizer}
        found = memory("tokenizer", PipelineConfig.model_validate(values | {"clean": {"shard_pairs": pairs}}), 1).bytes
        assert found
        return found

    assert 4e9 < needed(1_000) < 6e9  # five million pairs
    assert needed(1_000, sample_pairs=1_000_000) < 1.5e9
    assert needed(1_000, kind="unigram", sample_pairs=1_000_000) > 2 * needed(1_000, sample_pairs=1_000_000)
    assert needed(1_000, start_from="tokenizer/abc") < 1e9


def test_cleaning_needs_memory_by_its_workers_and_not_by_its_text() -> None:
    config = PipelineConfig.model_validate({"name": "x", "corpus": {"toy": {}}})
    one, four = (memory("clean", config, workers).bytes or 0 for workers in (1, 4))

    assert four == 4 * one
    assert one < 1.5e9
