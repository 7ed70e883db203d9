"""A file of lines: whatever finds room, only whole ones are there, in their order."""

import errno
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.train.lines import Lines


class Disk:
    """Refuses to write while it is full."""

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
    """`cut` keeps the lines until the first below 50; a killed process leaves half a line, and loses what waited."""
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
