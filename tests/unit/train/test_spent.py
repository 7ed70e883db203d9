"""Time of a training, which is summed over its attempts and compared with its budget."""

from pathlib import Path

import pytest

from nmt_core.config import BudgetConfig
from nmt_core.train.spent import Meter, Spent, read_spent

HOUR = 3_600


@pytest.mark.parametrize(
    ("spent", "budget", "said"),
    [
        (Spent(9 * HOUR, 36 * HOUR), BudgetConfig(), ""),
        (Spent(1.99 * HOUR, 0), BudgetConfig(max_hours=2), ""),
        (Spent(2 * HOUR, 0), BudgetConfig(max_hours=2), "2 hours, and budget.max_hours=2"),
        (Spent(9 * HOUR, 0), BudgetConfig(max_gpu_hours=1), ""),
        (Spent(HOUR, 4 * HOUR, 0, 3), BudgetConfig(max_gpu_hours=4), "4 GPU hours in 3 attempts, and budget.max_gpu_"),
    ],
)
def test_a_budget_is_over_when_it_is_all_spent(spent: Spent, budget: BudgetConfig, said: str) -> None:
    assert spent.over(budget).startswith(said) and bool(spent.over(budget)) is bool(said)


def test_an_attempt_counts_on_top_of_those_before(tmp_path: Path) -> None:
    first = Meter(tmp_path, BudgetConfig(), processes=2, gpus=0)
    assert not first.is_over()
    before = read_spent(tmp_path)
    assert before.seconds > 0 and before.cpu_seconds > 0 and (before.gpu_seconds, before.attempts) == (0, 1)
    second = Meter(tmp_path, BudgetConfig(max_hours=before.seconds * 1.01 / HOUR), processes=2, gpus=2)
    assert second.is_over() and "2 attempts" in second.over
    after = read_spent(tmp_path)
    assert after.attempts == 2
    assert after.gpu_seconds == pytest.approx(2 * (after.seconds - before.seconds))
    assert after.plus(before, -1).attempts == 1


def test_a_full_disk_costs_the_note_and_not_the_training(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "nowhere", BudgetConfig(), processes=1, gpus=0)
    assert not meter.is_over()
    assert read_spent(tmp_path / "nowhere") == Spent()
