"""Curves: every point is written once, in order and as a whole line, on a full disk and after a resume too."""

import errno
import json
import resource
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.train.curves import Curves, Lines


class Disk:
    """Disk that refuses to write while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        opened = Path.open

        def open_if_there_is_room(path: Path, mode: str = "r", **options: Any) -> IO[Any]:
            if self.is_full and mode == "ab":
                raise OSError(errno.ENOSPC, "No space left on device")
            return opened(path, mode, **options)

        monkeypatch.setattr(Path, "open", open_if_there_is_room)


STEPS = st.lists(st.one_of(st.integers(0, 99), st.sampled_from(["full", "free", "cut", "killed"])), max_size=30)


@given(STEPS)
def test_the_file_is_what_was_appended_and_kept(steps: list[int | str]) -> None:
    """`cut` keeps the lines until the first below 50.

    A killed process leaves half a line, and loses what was buffered.
    """
    expected: list[int] = []
    written = 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        disk, file = Disk(patch), Path(folder, "lines")
        lines = Lines(file, lambda message: None)
        for step in steps:
            match step:
                case "full" | "free":
                    disk.is_full = step == "full"
                case "cut":
                    lines.keep_while(lambda line: int(line) >= 50)
                    low = next((place for place, number in enumerate(expected) if number < 50), len(expected))
                    expected, written = expected[:low], min(written, low)
                case "killed":
                    disk.is_full = False
                    with file.open("ab") as torn:
                        torn.write(b"77")
                    lines, expected = Lines(file, lambda message: None), expected[:written]
                case number:
                    lines.append(f"{number}")
                    expected.append(int(number))
            if not disk.is_full:
                lines.try_again()
                written = len(expected)
        whole = file.read_bytes() if file.exists() else b""
        whole = whole[: whole.rfind(b"\n") + 1]
        assert [int(line) for line in whole.splitlines()][:written] == expected[:written]
        disk.is_full = False
        lines.append("88")
        assert [int(line) for line in file.read_text().splitlines()] == [*expected, 88]


def test_that_lines_wait_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    disk, lines = Disk(monkeypatch), Lines(tmp_path / "lines", said.append)
    disk.is_full = True
    for number in range(3):
        lines.append(f"{number}")
    assert len(said) == 1
    assert "lines cannot be written ([Errno 28] No space left on device): free space" in said[0]
    disk.is_full = False
    lines.try_again()
    assert (tmp_path / "lines").read_text() == "0\n1\n2\n"


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
    assert capsys.readouterr().out.count("Until then its lines wait in memory") == 1
    curves.point({"update": 4})
    assert updates(file) == [1, 2, 3, 4]


def test_training_is_taken_up_on_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Removing points that did not happen needs no space."""
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
    assert "Until then its lines wait in memory" in capsys.readouterr().out
    again.point({"update": 26})
    assert updates(file) == [10, 20, 25, 26]
