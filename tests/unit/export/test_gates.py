"""Inputs of the gates: lines from all over the dev set, and whether fp16 can hold a model's numbers."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.config import CorpusConfig, ModelConfig, PipelineConfig, RnnConfig, ToyCorpusConfig
from nmt_core.errors import DataError
from nmt_core.export.calibration import calibrate
from nmt_core.export.dev import Dev, spread
from nmt_core.export.gates import Gates
from nmt_core.export.onnx_kernels import Int8Kernels
from nmt_core.models.build import build_model
from nmt_core.models.model import TranslationModel
from nmt_core.models.transformer import Transformer
from nmt_core.search.step import pad_sources
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, Tokenizers
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "a big house", "now", "the dog runs to it and sees a small cat", "나는 학생 이다"]
SIZES = {"d_model": 32, "d_ff": 48, "num_heads": 2, "encoder_layers": 3, "decoder_layers": 1}
RNN = RnnConfig(hidden_size=12, alignment_size=10, maxout_size=8)


@pytest.fixture
def gates_of(tiny_tokenizer_file: Path) -> Callable[..., Gates]:
    def make(model: TranslationModel, dev: Dev, **export: Any) -> Gates:
        values = {"name": "tiny", "corpus": CorpusConfig(toy=ToyCorpusConfig()), "export": export}
        config = PipelineConfig.model_validate(values)
        return Gates(model, Tokenizers.load(tiny_tokenizer_file.parent), dev, config, threads=1)

    return make


def test_lines_are_spread_over_all_sets() -> None:
    dev = Dev([f"source {number}" for number in range(2_500)], [f"reference {number}" for number in range(2_500)])
    some = dev.spread(1_000)
    assert len(some.sources) == len(set(some.sources)) == 1_000
    assert sum(int(line.split()[1]) >= 1_250 for line in some.sources) == 500
    assert [line.split()[1] for line in some.sources] == [line.split()[1] for line in some.references]
    assert some == dev.spread(1_000)
    assert spread(5, 3) == [0, 1, 2] and spread(3, 0) == []


def test_int8_is_calibrated_on_every_dev_set(gates_of: Callable[..., Gates], tiny_model: Transformer) -> None:
    dev = Dev([*["now", ""] * 5, *[LINES[3]] * 5], [""] * 15)
    gates = gates_of(tiny_model, dev, calibration_sentences=2)
    kernels, sources = gates.kernels("int8"), gates.tokenizers.source.encode(["now", LINES[3]])
    assert isinstance(kernels, Int8Kernels)
    assert kernels.ranges == calibrate(tiny_model, sources, gates.search)
    assert kernels.ranges != calibrate(tiny_model, sources[:1], gates.search)


def test_precisions_are_judged_on_every_dev_set(
    gates_of: Callable[..., Gates], tiny_model: Transformer, tiny_bundle: Path
) -> None:
    search = gates_of(tiny_model, Dev(LINES, LINES)).search
    translated = [one.text for one in Translator.load(tiny_bundle, search).translate([LINES[0], LINES[3]])]
    dev = Dev([LINES[0]] * 3 + [LINES[3]] * 3, [translated[0]] * 3 + [translated[1]] * 3)
    gates = gates_of(tiny_model, dev, quality_sentences=2)
    gates.measure(tiny_bundle, "fp32")
    assert gates.bleu["fp32"] == pytest.approx(100)
    assert gates.tokens_per_second["fp32"] > 0


@pytest.mark.parametrize("lines", [[], ["", " ", ""]])
def test_an_empty_dev_set_is_refused(gates_of: Callable[..., Gates], tiny_model: Transformer, lines: list[str]) -> None:
    gates = gates_of(tiny_model, Dev(lines, lines))
    for look in (lambda: gates.kernels("int8"), lambda: gates.check_parity(Path("nowhere"))):
        with pytest.raises(DataError, match=r"every source of the dev set is empty, .* corpus\.dev"):
            look()


def in_a_layer(vocab_size: int) -> TranslationModel:
    """Make a model in which the values after ReLU are large, and are made small again."""
    model = random_model(ModelConfig(**SIZES), vocab_size)
    model.encoder[1].feed_forward.inner.weight.data *= 1e5
    model.encoder[1].feed_forward.outer.weight.data *= 1e-5
    return model


def in_a_sum(vocab_size: int) -> TranslationModel:
    """Make a model in which each layer adds the same to all values, and the norm at the end removes it."""
    model = random_model(ModelConfig(**SIZES, norm="pre"), vocab_size)
    for layer in model.encoder:
        layer.feed_forward.outer.bias.data += 25_000
    return model


def in_attention(vocab_size: int) -> TranslationModel:
    """Make a model whose attention looks at only one position."""
    model = random_model(ModelConfig(**SIZES), vocab_size)
    model.decoder[0].cross_attention.query.weight.data *= 1e3
    model.decoder[0].cross_attention.key_value.weight.data *= 1e3
    model.decoder[0].cross_attention.output.weight.data *= 1e-3
    return model


def in_a_recurrent_model(vocab_size: int) -> TranslationModel:
    layers = {"encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}
    model = random_model(ModelConfig(architecture="rnn", d_model=9, rnn=RNN, **layers), vocab_size)
    for weight in model.parameters():
        weight.normal_(std=0.5)
    model.readout_state.weight.data *= 1e6
    model.output.weight.data *= 1e-5
    return model


def random_model(config: ModelConfig, vocab_size: int) -> TranslationModel:
    torch.manual_seed(1)
    return build_model(config, vocab_size, 2_048).eval().requires_grad_(False)


def log_probs(model: TranslationModel, source: list[int]) -> np.ndarray:
    step = TorchStepper(model).start(pad_sources([source]), 3).step(np.array([BOS_ID]), np.array([0]))
    return step[0]


OVERFLOWS = {
    in_a_layer: "the output of encoder.1.feed_forward.inner",
    in_a_sum: "the input of encoder_norm",
    in_attention: "the attention logits of decoder.0.cross_attention.query",
    in_a_recurrent_model: "the output of readout_state",
}


@pytest.mark.parametrize("made", OVERFLOWS)
def test_what_overflows_in_half_precision_is_not_made(
    gates_of: Callable[..., Gates], made: Callable[[int], TranslationModel]
) -> None:
    """A machine without a GPU computes the model in fp32, and would notice nothing."""
    gates = gates_of(made(100), Dev(LINES, LINES))
    for source in gates.tokenizers.source.encode(LINES):
        assert np.isfinite(log_probs(gates.model, source)).all()
    halved = [log_probs(copy.deepcopy(gates.model).half(), ids) for ids in gates.tokenizers.source.encode(LINES)]
    assert not all(np.isfinite(found).all() for found in halved)
    reason = gates.cannot_make("fp16")
    assert reason.startswith(f"{OVERFLOWS[made]} reaches ")
    assert "largest number in half precision is 65,504" in reason
    assert gates.refused == {"fp16": reason}


def test_a_model_of_usual_numbers_is_made_in_fp16(gates_of: Callable[..., Gates], tiny_model: Transformer) -> None:
    gates = gates_of(tiny_model, Dev(LINES, LINES))
    assert not gates.cannot_make("fp16")
    assert gates.kernels("fp16").cache_dtype == torch.float16
    assert not any(module._forward_hooks for module in tiny_model.modules()), "no hook is left"
