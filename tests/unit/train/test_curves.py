"""Curves: every point is written once, in order, whatever becomes of disk and training."""

import json
import resource
from pathlib import Path

import pytest

from nmt_core.train.curves import Curves


def updates(file: Path) -> list[int]:
    return [json.loads(line)["update"] for line in file.read_text().splitlines()]


def test_points_are_lines_in_the_file_and_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = Curves(tmp_path / "metrics.jsonl")
    for update in range(3):
        curves.point({"update": update, "loss": 0.5})
    curves.say("a word")
    lines = (tmp_path / "metrics.jsonl").read_text()
    assert [json.loads(line) for line in lines.splitlines()] == [{"update": n, "loss": 0.5} for n in range(3)]
    assert capsys.readouterr().out == lines + "a word\n"


def test_other_processes_than_the_first_tell_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    curves = Curves(None)
    curves.point({"update": 1})
    curves.say("a word")
    curves.go_back(0)
    assert capsys.readouterr().out == ""


def test_what_did_not_happen_goes(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    curves = Curves(file)
    for update in (10, 20, 30):
        curves.point({"update": update})
    curves.go_back(20)
    curves.point({"update": 25})
    assert updates(file) == [10, 20, 25]
    with file.open("a") as torn:
        torn.write('{"update": 1')
    again = Curves(file)
    again.go_back(20)
    again.point({"update": 22})
    assert updates(file) == [10, 20, 22]


def test_lines_wait_for_room_on_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The system refuses bytes beyond a limit, as it does where the disk is full, in the middle of a line."""
    file = tmp_path / "metrics.jsonl"
    curves = Curves(file)
    curves.point({"update": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 5, hard))
    try:
        curves.point({"update": 2})
        curves.point({"update": 3})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capsys.readouterr().out.count("its lines wait until there is some") == 1
    curves.point({"update": 4})
    assert updates(file) == [1, 2, 3, 4]


def test_training_is_taken_up_on_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To forget what did not happen needs no room."""
    file = tmp_path / "metrics.jsonl"
    curves = Curves(file)
    for update in (10, 20, 30):
        curves.point({"update": update})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, hard))
    try:
        again = Curves(file)
        again.go_back(20)
        again.point({"update": 25})
        again.point({"update": 27})
        again.go_back(25)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert updates(file) == [10, 20]
    assert "its lines wait until there is some" in capsys.readouterr().out
    again.point({"update": 26})
    assert updates(file) == [10, 20, 25, 26]
