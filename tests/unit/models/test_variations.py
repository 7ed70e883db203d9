"""Variations of the Transformer: widths of heads, activations, learned positions."""

import math

import pytest
import torch
from torch import Tensor

from nmt_core.batches.layout import Packed, Padded
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError
from nmt_core.models.decoding import graphs_of
from nmt_core.models.kernels import Kernels
from nmt_core.models.layers import CrossAttention, FeedForward, SelfAttention, rotated, sinusoidal_positions
from nmt_core.models.transformer import Transformer, count_parameters
from nmt_core.tokenizer.tokenizer import PAD_ID

SMALL = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [12, 13, 14, 15, 3, 0]])
TARGET_BT = torch.tensor([[2, 20, 21, 22, 23], [2, 30, 31, 32, 33], [2, 40, 41, 42, 43]])


def small(**changes: object) -> ModelConfig:
    return ModelConfig.model_validate(SMALL | changes)


def test_decoding_step_by_step_gives_what_decoding_at_once_gives(variation: Transformer) -> None:
    graphs, everything = graphs_of(Kernels(variation)), torch.zeros(100, dtype=torch.int64)
    encoded, step = graphs.encoder(SOURCE_BS), graphs.step
    cross, past = encoded[: len(graphs.cross)], encoded[len(graphs.cross) :]
    past = past or [x_BHSD[:, :, :0] for x_BHSD in cross]
    expected_BTV = variation.output(variation(SOURCE_BS, TARGET_BT)).log_softmax(-1)
    for place in range(TARGET_BT.shape[1]):
        (log_probs_RC, ids_RC), past = step(
            TARGET_BT[:, place], torch.tensor([place]), SOURCE_BS != PAD_ID, [everything], cross, past
        )
        allowed = log_probs_RC > -math.inf
        expected_RC = expected_BTV[:, place].gather(1, ids_RC)
        torch.testing.assert_close(log_probs_RC[allowed], expected_RC[allowed], atol=1e-5, rtol=0)
        assert allowed.sum() == 3 * 98


def test_padding_changes_nothing(variation: Transformer) -> None:
    together = variation(SOURCE_BS, TARGET_BT)
    alone = variation(SOURCE_BS[1:2, :3], TARGET_BT[1:2, :4])
    torch.testing.assert_close(together[1:2, :4], alone, atol=1e-5, rtol=1e-5)


def as_stream(ids_BL: Tensor) -> tuple[Tensor, Packed]:
    lengths = (ids_BL != PAD_ID).sum(1)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    sentence_N = torch.repeat_interleave(lengths)
    position_N = torch.arange(len(sentence_N)) - starts[sentence_N]
    return ids_BL[ids_BL != PAD_ID], Packed(starts.int(), sentence_N, position_N, int(lengths.max()), len(lengths))


def test_packed_sentences_give_what_padded_ones_give(variation: Transformer) -> None:
    source_N, source = as_stream(SOURCE_BS)
    target_N, target = as_stream(TARGET_BT)
    states_N = variation(source_N, target_N, source, target)
    torch.testing.assert_close(states_N, variation(SOURCE_BS, TARGET_BT).flatten(0, 1), atol=1e-5, rtol=1e-5)


def test_heads_attend_with_their_own_widths() -> None:
    """Return the attention head by head (Vaswani et al. 2017, section 3.2.2), with separate d_k and d_v."""
    torch.manual_seed(1)
    attention = SelfAttention(small(key_width=3, value_width=5))
    x_BLM = torch.randn(1, 4, 16)
    query_key_value = attention.query_key_value.weight
    assert query_key_value.shape == (2 * (3 + 3 + 5), 16)
    heads = []
    for head in range(2):
        w_q = query_key_value[3 * head : 3 * head + 3]
        w_k = query_key_value[6 + 3 * head : 6 + 3 * head + 3]
        w_v = query_key_value[12 + 5 * head : 12 + 5 * head + 5]
        q, k, v = (x_BLM[0] @ w.t() for w in (w_q, w_k, w_v))
        heads.append((q @ k.t() / math.sqrt(3)).softmax(-1) @ v)
    expected = torch.cat(heads, -1) @ attention.output.weight.t()
    torch.testing.assert_close(attention(x_BLM, Padded())[0], expected)


def test_cross_attention_has_the_widths_of_the_heads() -> None:
    attention = CrossAttention(small(key_width=3, value_width=5))
    shapes = [tuple(part.weight.shape) for part in (attention.query, attention.key_value, attention.output)]
    assert shapes == [(6, 16), (16, 16), (16, 10)]


def swish(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def gelu(x: Tensor) -> Tensor:
    """x times the probability that a normal variable is less than x (Hendrycks and Gimpel 2016, section 2)."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish", "swiglu"])
def test_the_inner_layer_is_activated_as_published(activation: str) -> None:
    torch.manual_seed(1)
    layer = FeedForward(small(activation=activation))
    torch.nn.init.normal_(layer.inner.bias)
    x_M = torch.randn(5, 16)
    inner = x_M @ layer.inner.weight.t() + layer.inner.bias
    expected = {
        "relu": lambda: inner.clamp(min=0),
        "gelu": lambda: gelu(inner),
        "swish": lambda: swish(inner),
        "swiglu": lambda: swish(inner[:, :24]) * inner[:, 24:],
    }[activation]()
    torch.testing.assert_close(layer(x_M), expected @ layer.outer.weight.t() + layer.outer.bias)


def test_two_thirds_of_the_width_give_swiglu_as_many_weights() -> None:
    relu, swiglu = FeedForward(ModelConfig(d_ff=2_049)), FeedForward(ModelConfig(d_ff=1_366, activation="swiglu"))
    matrices = [sum(part.weight.numel() for part in (layer.inner, layer.outer)) for layer in (relu, swiglu)]
    assert matrices[0] == matrices[1]


def test_learned_positions_are_added_as_they_are_and_learn() -> None:
    torch.manual_seed(1)
    model = Transformer(small(positions="learned", max_positions=64), 50)
    sinusoidal = count_parameters(Transformer(small(), 50))
    assert count_parameters(model) == sinusoidal + 64 * 16
    assert float(model.positions_LM.detach().std()) == pytest.approx(0.1, abs=0.01)
    model(SOURCE_BS, TARGET_BT).square().mul(torch.arange(16.0)).sum().backward()
    moved = model.positions_LM.grad.abs().sum(-1) > 0
    assert moved.tolist() == [True] * 6 + [False] * 58


def test_rotary_positions_turn_each_pair_by_its_angle() -> None:
    """The reference is a product of complex numbers, whose real and imaginary parts are alternating columns."""
    x_LHD = torch.randn(7, 2, 6, generator=torch.Generator().manual_seed(1))
    angles = torch.arange(7.0)[:, None] * 10_000 ** (-torch.arange(3.0) / 3)
    turn = torch.polar(torch.ones_like(angles), angles)[:, None]
    expected = torch.view_as_real(torch.view_as_complex(x_LHD.unflatten(-1, (3, 2))) * turn).flatten(-2)
    torch.testing.assert_close(rotated(x_LHD, sinusoidal_positions(7, 6)), expected)


def test_rotary_attention_sees_distances_alone() -> None:
    """A query and a key at one distance score the same at any position. At another distance, the score differs."""
    draw = torch.Generator().manual_seed(1)
    q_D, k_D = (torch.randn(1, 1, 8, generator=draw) for _ in range(2))
    table = sinusoidal_positions(50, 8)

    def score(query: int, key: int) -> float:
        return float((rotated(q_D, table[query : query + 1]) * rotated(k_D, table[key : key + 1])).sum())

    assert score(9, 4) == pytest.approx(score(44, 39), abs=1e-5)
    assert abs(score(9, 4) - score(9, 5)) > 1e-2


def test_rotary_positions_are_added_to_nothing_and_have_no_weights() -> None:
    torch.manual_seed(1)
    model = Transformer(small(positions="rotary"), 50)
    assert count_parameters(model) == count_parameters(Transformer(small(), 50))
    embedded = model.embed(torch.full((1, 4), 7), model.target_embedding, Padded())
    torch.testing.assert_close(embedded[0], (model.target_embedding.weight[7] * 4).expand(4, 16))
    swapped = SOURCE_BS.clone()
    swapped[0, :2] = SOURCE_BS[0, :2].flip(0)
    assert not torch.allclose(model(SOURCE_BS, TARGET_BT)[0], model(swapped, TARGET_BT)[0], atol=1e-4)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_sequence_beyond_the_positions_is_told_so(is_packed: bool) -> None:
    model = Transformer(small(positions="learned", max_positions=64), 50)
    ids = torch.full((1, 65), 7)
    stream, layout = as_stream(ids)
    arguments = (stream, stream, layout, layout) if is_packed else (ids, ids)
    with pytest.raises(ConfigError, match=r"a sequence has 65 tokens, and the model 64 positions: .*max_positions"):
        model(*arguments)
    assert model(ids[:, 1:], ids[:, 1:]).shape == (1, 64, 16)
