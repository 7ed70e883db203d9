"""Restricted self-attention (Vaswani et al. 2017, section 4) in training, in decoding and in graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt_core.batches.layout import Packed, Padded
from nmt_core.config import ExportConfig, ModelConfig, SearchConfig
from nmt_core.export.calibration import calibrate
from nmt_core.export.gates import onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import Int8Kernels
from nmt_core.export.parity import check_parity, compare
from nmt_core.models import attention
from nmt_core.models.attention import attend
from nmt_core.models.transformer import Transformer
from nmt_core.search.attention import AttentionGraph
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.step import pad_sources
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

WIDTH = 5
PIECES = 60
LENGTHS = (23, 1, 9, 200)
SEARCH = SearchConfig(beam_size=3, max_source_tokens=40, max_length_offset=20)
SOURCES = [np.random.default_rng(seed).integers(4, PIECES, 1 + seed % 21).tolist() for seed in range(20)]


def sees(query: int, key: int, *, causal: bool) -> bool:
    """Return True if a query sees a key, by the definition."""
    return query - WIDTH < key <= query if causal else abs(query - key) <= WIDTH // 2


def by_definition(q_LHD: Tensor, k_LHD: Tensor, v_LHD: Tensor, *, causal: bool) -> Tensor:
    """Attention of one sequence, query by query, over a list of the keys that it sees."""
    rows = []
    for query in range(len(q_LHD)):
        seen = [key for key in range(len(k_LHD)) if sees(query, key, causal=causal)]
        scores_HK = torch.einsum("hd,khd->hk", q_LHD[query], k_LHD[seen]) / q_LHD.shape[-1] ** 0.5
        rows.append(torch.einsum("hk,khd->hd", scores_HK.softmax(-1), v_LHD[seen]))
    return torch.stack(rows)


@pytest.fixture
def sequences() -> list[list[Tensor]]:
    """Queries, keys and values [L, H, D] of each sentence."""
    draw = torch.Generator().manual_seed(1)
    return [[torch.randn(length, 2, width, generator=draw) for width in (4, 4, 6)] for length in LENGTHS]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_attention_and_its_gradient_are_by_the_definition(
    sequences: list[list[Tensor]], causal: bool, blocks: bool, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not blocks:
        monkeypatch.setattr(attention, "_BLOCKS_FROM", 1_000)
    plain = [[x.clone().requires_grad_() for x in one] for one in sequences]
    expected = [by_definition(*one, causal=causal) for one in plain]
    sum((row * row.detach().cos()).sum() for row in expected).backward()
    fast = [[x.clone().requires_grad_() for x in one] for one in sequences]
    if layout == "packed":
        starts = torch.tensor([0, *np.cumsum(LENGTHS)], dtype=torch.int32)
        sentence_N = torch.repeat_interleave(torch.arange(len(LENGTHS), dtype=torch.int32), torch.tensor(LENGTHS))
        position_N = torch.cat([torch.arange(length) for length in LENGTHS])
        packed = Packed(starts, sentence_N, position_N, max(LENGTHS), len(LENGTHS))
        out = attend(*map(torch.cat, zip(*fast, strict=True)), packed, causal=causal, width=WIDTH)
        found = list(out.split(list(LENGTHS)))
    else:
        padded = [torch.nn.utils.rnn.pad_sequence(list(x), batch_first=True) for x in zip(*fast, strict=True)]
        is_token_BL = torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]
        out = attend(*padded, Padded(is_token_BL), causal=causal, width=WIDTH)
        found = [row[:length] for row, length in zip(out, LENGTHS, strict=True)]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    sum((row * row.detach().cos()).sum() for row in found).backward()
    for one, other in zip(fast, plain, strict=True):
        for x, y in zip(one, other, strict=True):
            torch.testing.assert_close(x.grad, y.grad, atol=1e-5, rtol=1e-4)


def test_long_sequences_are_computed_in_blocks(sequences: list[list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest product has as many columns as a block sees, and not as many as there are keys."""
    seen = []
    scores = attention.attention_scores
    monkeypatch.setattr(attention, "attention_scores", lambda q, k: seen.append(k.shape[-2]) or scores(q, k))
    attend(*(x[None] for x in sequences[-1]), Padded(), causal=True, width=WIDTH)
    assert seen == [32 + WIDTH - 1]


def test_half_precision_on_a_cpu_is_near(sequences: list[list[Tensor]]) -> None:
    for one in (sequences[0], sequences[3]):
        halves = [x[None].bfloat16() for x in one]
        out = attend(*halves, Padded(), width=WIDTH)[0].float()
        torch.testing.assert_close(out, by_definition(*one, causal=False), atol=0.05, rtol=0.05)


SIZES: dict[str, Any] = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
KINDS: dict[str, dict[str, Any]] = {
    "in place": {},
    "in a copy": {"key_width": 4, "value_width": 8},
    "rotary": {"positions": "rotary"},
    "recurrent decoder": {"decoder_autoregression": "ssru"},
}
"""Ways in which graphs keep keys and values."""


def model_of(kind: str, width: int = WIDTH) -> Transformer:
    torch.manual_seed(2)
    config = ModelConfig.model_validate(SIZES | KINDS[kind] | {"attention_width": width, "tied_embeddings": "none"})
    model = Transformer(config, PIECES, 2_048).eval().requires_grad_(False)
    model.output.weight.data *= 3
    model.output.weight.data[EOS_ID] *= 2
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_step_by_step_is_the_pass_over_the_whole_target(kind: str) -> None:
    model, generator = model_of(kind), np.random.default_rng(3)
    source, target = pad_sources([generator.integers(4, PIECES, 17)]), generator.integers(4, PIECES, (1, 30))
    target[:, 0] = BOS_ID
    whole_TV = model.output(model(torch.from_numpy(source), torch.from_numpy(target)))[0].log_softmax(-1).numpy()
    everywhere = model_of(kind, width=0)
    unrestricted_TV = everywhere.output(everywhere(torch.from_numpy(source), torch.from_numpy(target)))[0]
    assert np.abs(unrestricted_TV.log_softmax(-1).numpy() - whole_TV).max() > 0.01, "the width matters"
    decoding = TorchStepper(model).start(source, PIECES)
    for position, token in enumerate(target[0]):
        [log_probs_V], [ids_V] = decoding.step(np.array([token]), np.array([0]))
        is_allowed = np.isfinite(log_probs_V)
        np.testing.assert_allclose(log_probs_V[is_allowed], whole_TV[position, ids_V[is_allowed]], atol=1e-4)
    if kind != "recurrent decoder":
        assert {held.shape[2] for held in decoding.past} == {WIDTH}, "older keys and values are forgotten"


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_pass_the_gate(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    export_graphs(onnx_kernels(model), tmp_path / "fp32", with_attention=True)
    stepper = OnnxStepper(tmp_path / "fp32", PIECES)
    reference = TorchStepper(model)
    parity = check_parity(reference, stepper, SOURCES, ExportConfig(parity_beam_size=3), reference.in_float64)
    assert parity.identical == len(SOURCES)
    assert parity.max_difference < 1e-4
    export_graphs(Int8Kernels(model, calibrate(model, SOURCES, SEARCH)), tmp_path / "int8")
    found = compare(TorchStepper(model), OnnxStepper(tmp_path / "int8", PIECES), SOURCES, SEARCH)
    assert 1e-4 < found.max_difference < 1.0


def test_the_attention_that_is_shown_is_restricted(tmp_path: Path) -> None:
    model = model_of("in place")
    export_graphs(onnx_kernels(model), tmp_path / "fp32", with_attention=True)
    lengths, generator = (17, 6), np.random.default_rng(4)
    source = pad_sources([generator.integers(4, PIECES, length - 1) for length in lengths])
    target = np.concatenate([np.full((2, 1), BOS_ID), generator.integers(4, PIECES, (2, 11))], axis=1)
    maps = AttentionGraph(tmp_path / "fp32").run(source, target)
    assert maps.encoder_attention is not None and maps.decoder_attention is not None
    for row, length in enumerate(lengths):
        for weights_NHLL, causal, size in ((maps.encoder_attention, False, length), (maps.decoder_attention, True, 12)):
            expected = [[sees(query, key, causal=causal) for key in range(size)] for query in range(size)]
            shown = weights_NHLL[row, :, :, :size, :size]
            np.testing.assert_array_equal(shown > 0, np.broadcast_to(expected, shown.shape))
            np.testing.assert_allclose(shown.sum(-1), 1, atol=1e-5)
    assert (source == PAD_ID).any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention_width": 4}, "attention_width=4 is even.*set it to 3 or 5"),
        (
            {"attention_width": 5, "architecture": "rnn"},
            "attention_width=5 restricts self-attention, which architecture",
        ),
    ],
)
def test_a_width_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate({"decoder_layers": 1, "tied_embeddings": "none"} | values)
