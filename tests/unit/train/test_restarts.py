"""Deaths count only while training makes no progress."""

from pathlib import Path

from nmt_core.train.restarts import forget_restarts, restart_limit_reached


def test_a_training_that_makes_progress_may_die_any_number_of_times(tmp_path: Path) -> None:
    for restarts in range(50):
        assert restart_limit_reached(tmp_path, newest=10 * (restarts // 3), restarts=restarts) is None


def test_three_restarts_without_progress_are_enough(tmp_path: Path) -> None:
    said = [restart_limit_reached(tmp_path, newest=1_000, restarts=restarts) for restarts in range(7, 12)]
    assert said[:4] == [None] * 4
    assert said[4] and said[4].startswith(
        "processes have died 4 times since the checkpoint of update 1,000: look for the cause in"
    )


def test_before_the_first_checkpoint(tmp_path: Path) -> None:
    said = [restart_limit_reached(tmp_path, newest=-1, restarts=restarts) for restarts in range(5)]
    assert said[4] and "died 4 times before there was a checkpoint" in said[4]


def test_another_job_in_the_same_folder_counts_anew(tmp_path: Path) -> None:
    """Slurm requeues the job, or a user repeats the command."""
    for restarts in (2, 5, 0, 3):
        assert restart_limit_reached(tmp_path, newest=10, restarts=restarts) is None
    forget_restarts(tmp_path)
    assert not list(tmp_path.iterdir())
    assert restart_limit_reached(tmp_path, newest=10, restarts=9) is None


def test_a_full_disk_costs_the_note_alone(tmp_path: Path) -> None:
    (tmp_path / "restarts.json.partial").mkdir()
    assert restart_limit_reached(tmp_path, newest=10, restarts=0) is None
