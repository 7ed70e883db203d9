"""Label-smoothed cross-entropy against the definition, value and gradient."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt_core.models.loss import smoothed_cross_entropy


def direct(states_NM: Tensor, output_VM: Tensor, target_N: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """Return -sum over tokens and pieces of q log p, with q as in Szegedy et al. (2016, section 7)."""
    log_p_NV = (states_NM @ output_VM.T).log_softmax(-1)
    pieces = len(output_VM)
    one_hot_NV = torch.nn.functional.one_hot(target_N, pieces).to(log_p_NV.dtype)
    q_NV = (1 - label_smoothing) * one_hot_NV + label_smoothing / pieces
    return -(q_NV * log_p_NV).sum(), -(one_hot_NV * log_p_NV).sum()


def tensors(tokens: int, width: int, pieces: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    states = torch.randn(tokens, width, generator=draw)
    output = torch.randn(pieces, width, generator=draw)
    return states, output, torch.randint(pieces, (tokens,), generator=draw)


@settings(max_examples=25)
@given(st.integers(1, 2_500), st.integers(2, 50), st.floats(0, 0.9), st.integers(0, 1000))
def test_the_loss_is_the_definition(tokens: int, pieces: int, label_smoothing: float, seed: int) -> None:
    states, output, target = tensors(tokens, 6, pieces, seed)
    fast = states.clone().requires_grad_(), output.clone().requires_grad_()
    slow = states.double().requires_grad_(), output.double().requires_grad_()
    found = smoothed_cross_entropy(*fast, target, label_smoothing)
    expected = direct(*slow, target, label_smoothing)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    (found[0] * 0.5).backward()
    (expected[0] * 0.5).backward()
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=1e-4)


def test_a_known_value() -> None:
    """With four equally likely pieces, the loss is log 4 for any smoothing."""
    smoothed, plain = smoothed_cross_entropy(torch.zeros(3, 2), torch.ones(4, 2), torch.tensor([0, 1, 3]), 0.1)
    assert float(smoothed) == pytest.approx(3 * math.log(4))
    assert float(plain) == pytest.approx(3 * math.log(4))


def test_the_plain_loss_is_for_reading_only() -> None:
    states, output, target = tensors(4, 6, 9, 1)
    smoothed, plain = smoothed_cross_entropy(states.requires_grad_(), output.requires_grad_(), target, 0.1)
    assert smoothed.requires_grad
    assert not plain.requires_grad


def test_states_in_bf16_have_a_loss_in_fp32() -> None:
    states, output, target = tensors(300, 6, 9, 1)
    exact = smoothed_cross_entropy(states, output, target, 0.1)
    rough = smoothed_cross_entropy(states.bfloat16(), output, target, 0.1)
    assert rough[0].dtype == torch.float32
    assert float(rough[0]) == pytest.approx(float(exact[0]), rel=0.02)


def test_a_bias_of_the_output_counts_and_learns() -> None:
    states, output, target = tensors(300, 6, 20, seed=3)
    bias = torch.randn(20, generator=torch.Generator().manual_seed(4))
    fast = states.clone().requires_grad_(), output.clone().requires_grad_(), bias.clone().requires_grad_()
    slow = states.double().requires_grad_(), output.double().requires_grad_(), bias.double().requires_grad_()
    found = smoothed_cross_entropy(*fast[:2], target, 0.1, bias_V=fast[2])
    one = torch.ones(300, 1, dtype=torch.float64)
    with_bias = torch.cat([slow[0], one], dim=1), torch.cat([slow[1], slow[2][:, None]], dim=1)
    expected = direct(*with_bias, target, 0.1)
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found[1].double(), expected[1], rtol=1e-5, atol=1e-4)
    found[0].backward()
    expected[0].backward()
    for mine, theirs in zip(fast, slow, strict=True):
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-4, atol=1e-4)
