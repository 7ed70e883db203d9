"""Positions, the frame of the sub-layers, and the places of dropout."""

import math

import pytest
import torch
from torch import Tensor, nn

from nmt_core.batches.layout import Padded
from nmt_core.config import ModelConfig
from nmt_core.models.layers import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    Residual,
    SelfAttention,
    sinusoidal_positions,
)
from nmt_core.models.transformer import Transformer

WHOLE = Padded()
SMALL = {"d_model": 16, "d_ff": 32, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}


def test_positions_match_the_paper() -> None:
    encoding = sinusoidal_positions(50, 8)
    for position in range(50):
        for i in range(4):
            angle = position / 10_000 ** (2 * i / 8)
            assert float(encoding[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(encoding[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_far_positions_are_exact() -> None:
    """Angles that are computed in fp32 would be wrong by 1e-4 at position 1,000."""
    assert float(sinusoidal_positions(1_001, 512)[1_000, 2]) == pytest.approx(
        math.sin(1_000 / 10_000 ** (2 / 512)), abs=1e-6
    )


def layer_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_norms_of_an_encoder_layer_are_where_they_should_be(norm: str) -> None:
    torch.manual_seed(1)
    layer = EncoderLayer(ModelConfig(**SMALL, norm=norm, dropout=0.0))
    x = torch.randn(2, 5, 16)
    attention, feed_forward = layer.self_attention, layer.feed_forward
    if norm == "post":
        middle = layer_norm(x + attention(x, WHOLE))
        expected = layer_norm(middle + feed_forward(middle))
    else:
        middle = x + attention(layer_norm(x), WHOLE)
        expected = middle + feed_forward(layer_norm(middle))
    torch.testing.assert_close(layer(x, WHOLE), expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_norms_of_a_decoder_layer_are_where_they_should_be(norm: str) -> None:
    torch.manual_seed(1)
    layer = DecoderLayer(ModelConfig(**SMALL, norm=norm, dropout=0.0))
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)

    def attend_to_itself(y: Tensor) -> Tensor:
        return layer.self_attention(y, WHOLE, causal=True)

    def attend_to_source(y: Tensor) -> Tensor:
        return layer.cross_attention(y, memory, WHOLE, WHOLE)

    expected = x
    for sublayer in (attend_to_itself, attend_to_source, layer.feed_forward):
        if norm == "post":
            expected = layer_norm(expected + sublayer(expected))
        else:
            expected = expected + sublayer(layer_norm(expected))
    torch.testing.assert_close(layer(x, memory, WHOLE, WHOLE), expected)


def test_the_feed_forward_layer_is_the_formula() -> None:
    layer = FeedForward(ModelConfig(**SMALL))
    x = torch.randn(3, 16)
    inner = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), inner @ layer.outer.weight.T + layer.outer.bias)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_is_on_the_output_of_a_sublayer(p: float) -> None:
    torch.manual_seed(1)
    frame = Residual(ModelConfig(**SMALL, norm="pre", dropout=p))
    x = torch.zeros(200, 100, 16)
    left = frame.leave(x, torch.ones_like(x))
    assert float((left == 0).float().mean()) == pytest.approx(p, abs=0.01)
    torch.testing.assert_close(left[left != 0], torch.full_like(left[left != 0], 1 / (1 - p)))
    assert float(left.mean()) == pytest.approx(1, abs=0.01)


def test_dropout_is_on_the_sums_of_embeddings_and_positions() -> None:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**SMALL, dropout=0.25), vocab_size=50)
    ids = torch.randint(4, 50, (30, 40))
    dropped = model.embed(ids, model.source_embedding, WHOLE)
    whole = model.eval().embed(ids, model.source_embedding, WHOLE)
    torch.testing.assert_close(whole, model.source_embedding(ids) * math.sqrt(16) + sinusoidal_positions(40, 16))
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    torch.testing.assert_close(dropped[dropped != 0], (whole / 0.75)[dropped != 0])


def test_there_is_no_dropout_elsewhere() -> None:
    """Attention weights and the feed-forward layer have no dropout (Vaswani et al. 2017, section 5.4)."""
    config = ModelConfig(**SMALL, dropout=0.5)
    x = torch.randn(2, 5, 16)
    attention, cross, feed_forward = SelfAttention(config), CrossAttention(config), FeedForward(config)
    assert attention.training
    torch.testing.assert_close(attention(x, WHOLE), attention(x, WHOLE), rtol=0, atol=0)
    torch.testing.assert_close(cross(x, x, WHOLE, WHOLE), cross(x, x, WHOLE, WHOLE), rtol=0, atol=0)
    torch.testing.assert_close(feed_forward(x), feed_forward(x), rtol=0, atol=0)


@pytest.mark.parametrize("layer", [EncoderLayer, DecoderLayer])
def test_every_sublayer_has_dropout(layer: type[nn.Module]) -> None:
    """Each sub-layer still draws dropout if all others are silenced."""
    torch.manual_seed(1)
    config = ModelConfig(**SMALL, norm="pre", dropout=0.5)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    names = ["self_attention", "feed_forward"] + (["cross_attention"] if layer is DecoderLayer else [])
    for name in names:
        built = layer(config)
        for other in set(names) - {name}:
            for parameter in getattr(built, other).parameters():
                nn.init.zeros_(parameter)
        arguments = (x, memory, WHOLE, WHOLE) if layer is DecoderLayer else (x, WHOLE)
        assert not torch.equal(built(*arguments), built(*arguments)), name
        built.eval()
        assert torch.equal(built(*arguments), built(*arguments)), name
