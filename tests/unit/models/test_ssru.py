"""The recurrent unit computes its formula at every position and length, and its gradient is the formula's gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nmt_core.batches.layout import Padded
from nmt_core.config import ModelConfig
from nmt_core.models.attention_trace import AttentionView
from nmt_core.models.kernels import Kernels
from nmt_core.models.layers import Ssru, linear_recurrence
from nmt_core.models.transformer import Transformer

WIDTH = 8


def one_after_the_other(factor_BTM: Tensor, new_BTM: Tensor) -> Tensor:
    state_BM, states = torch.zeros_like(new_BTM[:, 0]), []
    for place in range(new_BTM.shape[1]):
        state_BM = factor_BTM[:, place] * state_BM + new_BTM[:, place]
        states.append(state_BM)
    return torch.stack(states, dim=1)


@given(length=st.integers(1, 70), more=st.integers(0, 100), seed=st.integers(0, 2**31), power=st.floats(0.01, 30))
def test_all_positions_at_once_are_one_after_the_other(length: int, more: int, seed: int, power: float) -> None:
    """High powers of a share are almost 0 or 1, where a quotient would overflow."""
    generator = torch.Generator().manual_seed(seed)
    factor = torch.rand(2, length, 3, generator=generator, dtype=torch.float64) ** power
    factor[:, ::5] = 0.0
    new = torch.randn(2, length, 3, generator=generator, dtype=torch.float64)
    found = linear_recurrence(factor, new, length + more)
    torch.testing.assert_close(found, one_after_the_other(factor, new))


def test_its_gradient_is_the_formula_s() -> None:
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.rand(2, 11, 3, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    weights = torch.randn(2, 11, 3, generator=generator, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((states * weights).sum(), leaves)
        for states in (linear_recurrence(*leaves, 11), one_after_the_other(*leaves))
    ]
    torch.testing.assert_close(*gradients)


def test_the_unit_equals_the_paper() -> None:
    torch.manual_seed(2)
    unit = Ssru(ModelConfig(d_model=WIDTH, num_heads=2, decoder_autoregression="ssru"))
    unit.forget_bias.data.normal_()
    weight_MM, gate_MM = unit.input_gate.weight.split(WIDTH)
    x_TM, state_M, expected = torch.randn(9, WIDTH), torch.zeros(WIDTH), []
    for x_M in x_TM:
        forget_M = 1 / (1 + torch.exp(-(gate_MM @ x_M + unit.forget_bias)))
        state_M = forget_M * state_M + (1 - forget_M) * (weight_MM @ x_M)
        expected.append(state_M.clamp_min(0))
    torch.testing.assert_close(unit(x_TM[None], Padded())[0], torch.stack(expected))


def test_the_parts_that_are_shown_make_up_the_state() -> None:
    """With a group for each channel, the part of each position is the factor of its own addition."""
    torch.manual_seed(3)
    config = ModelConfig(
        d_model=WIDTH,
        d_ff=8,
        num_heads=WIDTH,
        encoder_layers=1,
        decoder_layers=1,
        norm="pre",
        positions="learned",
        decoder_autoregression="ssru",
    )
    model = Transformer(config, 20).eval().requires_grad_(False)
    target_BT = torch.tensor([[2, 7, 8, 9, 7, 7]])
    view = AttentionView(Kernels(model), 1)(torch.tensor([[5, 6, 3]]), target_BT)
    decoder_layer = model.decoder[0]
    entered_BTM = decoder_layer.self_attention_frame.enter(view[2] + view[3])
    weight_MM = decoder_layer.recurrence.input_gate.weight[:WIDTH]
    part_MTT = view[5][0, 0]
    state_TM = torch.einsum("mts,sm->tm", part_MTT, entered_BTM[0] @ weight_MM.T)
    torch.testing.assert_close(state_TM.clamp_min(0), decoder_layer.recurrence(entered_BTM, Padded())[0])
    assert (part_MTT.triu(1) == 0).all() and (part_MTT.sum(-1) < 1).all()


def test_a_recurrent_network_has_no_sub_layer_to_replace() -> None:
    with pytest.raises(ValueError, match="decoder_autoregression=ssru has no effect with architecture=rnn"):
        ModelConfig(architecture="rnn", decoder_layers=1, tied_embeddings="none", decoder_autoregression="ssru")
