"""The watchdog: losses that it stops, and losses that it accepts."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.train.watchdog import Incidents, LossWindow, diagnose, updates_passed_by


def window_of(losses: list[float], length: int = 50) -> LossWindow:
    window = LossWindow()
    for loss in losses:
        window.add(loss, length)
    return window


@given(st.lists(st.floats(0.1, 20), min_size=1, max_size=50))
def test_a_window_that_is_not_full_has_the_mean_and_deviation_of_all(losses: list[float]) -> None:
    window = window_of(losses)
    assert window.mean == pytest.approx(np.mean(losses), rel=1e-9)
    assert math.sqrt(window.variance) == pytest.approx(np.std(losses), abs=1e-6)


def test_a_full_window_forgets() -> None:
    window = window_of([9.0] * 50 + [2.0] * 2_000)
    assert window.mean == pytest.approx(2.0, abs=0.01)
    assert window.deviation == pytest.approx(0.02, rel=0.01), "a share of the mean at least"


NOISY = [3 + 0.1 * (-1) ** number for number in range(50)]


@pytest.mark.parametrize(
    ("loss", "norm", "expected"),
    [
        (3.05, 1.0, None),
        (3.9, 1.0, None),
        (4.1, 1.0, "the loss is 4.100, 11 deviations above 3.000, the mean of 50 updates"),
        (1.0, 1.0, None),
        (float("nan"), 1.0, "the loss is nan"),
        (float("inf"), 1.0, "the loss is inf"),
        (3.0, float("nan"), "the norm of the gradient is nan"),
        (3.0, float("inf"), "the norm of the gradient is inf"),
        (3.0, 1e30, None),
    ],
)
def test_what_is_trouble(loss: float, norm: float, expected: str | None) -> None:
    assert diagnose(loss, norm, window_of(NOISY), 50, 10.0) == expected


def test_before_the_window_is_full_a_high_loss_passes() -> None:
    assert diagnose(99.0, 1.0, window_of(NOISY[:49]), 50, 10.0) is None
    assert diagnose(float("nan"), 1.0, LossWindow(), 50, 10.0) == "the loss is nan"


def test_spikes_may_be_ignored() -> None:
    assert diagnose(1e9, 1.0, window_of(NOISY), 50, 0.0) is None


def note(folder: Path, *incidents: tuple[int, int, int, int | None]) -> None:
    """Write incidents in another process.

    Each is an update, its epoch, its number there, and the update to return to.
    """
    noted = Incidents(folder, print)
    for update, epoch, number, back_to in incidents:
        noted.note({"update": update, "epoch": epoch, "number": number, "back_to": back_to})


def test_all_updates_since_the_checkpoint_are_passed_by(tmp_path: Path) -> None:
    assert updates_passed_by(tmp_path) == 0
    note(tmp_path, (230, 0, 229, 200), (215, 0, 244, 200), (401, 1, 10, 400))
    assert updates_passed_by(tmp_path) == 30 + 15 + 1
    note(tmp_path, (450, 1, 60, None))
    assert updates_passed_by(tmp_path) == 46, "it gave up there"


def test_what_a_killed_run_comes_to_again_counts_once(tmp_path: Path) -> None:
    note(tmp_path, (150, 0, 149, 100), (230, 0, 280, 200))
    with (tmp_path / "incidents.jsonl").open("a") as file:
        file.write('{"update": 9')  # it was killed here, and resumes from the checkpoint of update 200
    assert updates_passed_by(tmp_path) == 80
    note(tmp_path, (230, 0, 280, 200))
    assert updates_passed_by(tmp_path) == 80
    note(tmp_path, (150, 0, 149, 100))  # and now from the checkpoint of update 100
    assert updates_passed_by(tmp_path) == 50
