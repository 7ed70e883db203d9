"""The learning rate of Vaswani et al. (2017, section 5.3), and the optimizers that it controls."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import TrainConfig
from nmt_core.train.optimizer import make_optimizer
from nmt_core.train.schedule import learning_rate


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        (1, 1.746928107e-07),
        (1_000, 1.746928107e-04),
        (4_000, 6.987712430e-04),
        (16_000, 3.493856215e-04),
        (100_000, 1.397542486e-04),
    ],
)
def test_the_learning_rate_of_the_base_model(update: int, rate: float) -> None:
    assert learning_rate(update, TrainConfig(), d_model=512) == pytest.approx(rate, rel=1e-9)


@given(st.integers(1, 500), st.floats(0.1, 10))
def test_it_rises_to_the_end_of_warm_up_and_falls_from_there(warmup: int, scale: float) -> None:
    config = TrainConfig(warmup_updates=warmup, learning_rate_scale=scale)
    rates = [learning_rate(update, config, 256) for update in range(1, 3 * warmup + 2)]
    peak = rates.index(max(rates)) + 1
    assert peak == warmup
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup - 1 :] == sorted(rates[warmup - 1 :], reverse=True)
    assert max(rates) == pytest.approx(scale * 256**-0.5 * warmup**-0.5)


def test_the_rate_may_be_constant() -> None:
    config = TrainConfig(learning_rate_schedule="constant", learning_rate_scale=0.7)
    assert {learning_rate(update, config, d_model=512) for update in (1, 4_000, 100_000)} == {0.7}


def test_adadelta_equals_the_paper() -> None:
    """Reference: Zeiler 2012, algorithm 1, step by step."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    holder = torch.nn.Module()
    holder.weight = weight
    optimizer = make_optimizer(holder, TrainConfig(optimizer="adadelta", adadelta_rho=0.9, adadelta_epsilon=1e-4))
    optimizer.param_groups[0]["lr"] = 1.0
    x, squares, steps = torch.tensor([1.0, -2.0]), torch.zeros(2), torch.zeros(2)
    for gradient in ([0.5, -1.0], [0.25, 3.0], [-0.1, 0.0]):
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        squares = 0.9 * squares + 0.1 * weight.grad**2
        step = -((steps + 1e-4) / (squares + 1e-4)).sqrt() * weight.grad
        steps = 0.9 * steps + 0.1 * step**2
        x = x + step
        torch.testing.assert_close(weight.detach(), x)


def test_the_optimizer_is_the_papers() -> None:
    optimizer = make_optimizer(torch.nn.Linear(2, 2), TrainConfig())
    assert isinstance(optimizer, torch.optim.Adam)
    (group,) = optimizer.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)
    assert group["fused"] is True


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.1)])
def test_adam_equals_the_papers(name: str, decay: float) -> None:
    """Reference: Kingma and Ba 2015, algorithm 1, and with decay Loshchilov and Hutter 2019, algorithm 2."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    holder = torch.nn.Module()
    holder.weight = weight
    options = {"optimizer": name, "weight_decay": decay, "adam_beta1": 0.8, "adam_beta2": 0.9, "adam_epsilon": 1e-3}
    optimizer = make_optimizer(holder, TrainConfig.model_validate(options))
    (group,) = optimizer.param_groups
    assert (type(optimizer).__name__.lower(), group["fused"]) == (name, True)
    x, mean, square = torch.tensor([1.0, -2.0]), torch.zeros(2), torch.zeros(2)
    gradients = ([0.5, -1.0], [0.25, 3.0], [-0.1, 0.0], [0.0, 2.0])
    for step, (gradient, rate) in enumerate(zip(gradients, (0.1, 0.2, 0.05, 0.1), strict=True), start=1):
        group["lr"] = rate  # as the trainer sets it, anew for each
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        mean = 0.8 * mean + 0.2 * weight.grad
        square = 0.9 * square + 0.1 * weight.grad**2
        unbiased = mean / (1 - 0.8**step), square / (1 - 0.9**step)
        x = x - rate * decay * x - rate * unbiased[0] / (unbiased[1].sqrt() + 1e-3)
        torch.testing.assert_close(weight.detach(), x)
