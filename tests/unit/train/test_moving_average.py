"""The moving average of the weights."""

import pytest
import torch

from nmt_core.train.moving_average import MovingAverage


def test_it_is_the_average_in_which_the_last_updates_count_most() -> None:
    weight = torch.nn.Parameter(torch.tensor([7.0]))
    average = MovingAverage({"weight": weight}, decay=0.9)
    expected = 7.0
    for number in range(1, 200):
        weight.data.fill_(float(number))
        average.update(number)
        decay = min(0.9, (number - 1) / (number + 9))
        expected = decay * expected + (1 - decay) * number
        assert float(average.tensors["weight"]) == pytest.approx(expected, rel=1e-5)
    assert float(average.tensors["weight"]) == pytest.approx(199 - 9, abs=0.1), "as far back as 0.9 reaches"


def test_the_first_update_leaves_nothing_of_what_was_drawn() -> None:
    weight = torch.nn.Parameter(torch.tensor([1e9]))
    average = MovingAverage({"weight": weight}, decay=0.999)
    weight.data.fill_(3.0)
    average.update(1)
    assert float(average.tensors["weight"]) == 3.0
