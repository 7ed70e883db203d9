"""Obstacles to writing an output are found before anything is translated."""

from pathlib import Path
from typing import Any

import pytest

from nmt_core.errors import DataError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a text, and another name for it."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("now\n")
    (tmp_path / "in" / "deep" / "b.txt").write_text("now\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("read", "written"),
    [("in/a.txt", "in/../in/a.txt"), ("in/../in/a.txt", "in/a.txt"), ("link/a.txt", "in/a.txt"), ("in", "link")],
)
def test_an_input_is_not_overwritten_by_another_name(
    read: str, written: str, job: Any, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"a\.txt: is an output, but also the input .*a\.txt: write to another"):
        job.run(tmp_path / read, tmp_path / written)
    assert (source / "a.txt").read_text() == "now\n"
    assert not list(tmp_path.rglob("*.job"))


def test_an_input_beside_the_output_is_not_taken_for_its_second_file(job: Any, tmp_path: Path) -> None:
    (tmp_path / "out.txt.alignment").write_text("now\n")
    with pytest.raises(DataError, match=r"out\.txt\.alignment: is an output, but also the input"):
        job.run(tmp_path / "out.txt.alignment", tmp_path / "out.txt")
    assert (tmp_path / "out.txt.alignment").read_text() == "now\n"


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_file_in_the_way_of_a_folder_is_found_at_once(is_deep: bool, job: Any, source: Path, tmp_path: Path) -> None:
    file = tmp_path / "out" / "deep" if is_deep else tmp_path / "out"
    file.parent.mkdir(exist_ok=True)
    file.write_text("kept")
    with pytest.raises(DataError, match=rf"{file}: is a file, but must be a folder for .*: remove it"):
        job.run(source, tmp_path / "out")
    assert file.read_text() == "kept" and not list(tmp_path.rglob("*.job"))


def test_a_folder_in_the_way_of_a_file_is_found_at_once(job: Any, source: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "a.txt").mkdir(parents=True)
    with pytest.raises(DataError, match=r"out/a\.txt: is a folder, but the output is a file: write to another"):
        job.run(source, tmp_path / "out")
    assert not list(tmp_path.rglob("*.job"))


def test_each_file_gets_its_own_chunks(job: Any, source: Path, tmp_path: Path) -> None:
    for number in range(6):
        (source / f"{number}.txt").write_text("now\n" * (9 * number))
    assert job.run(source, tmp_path / "out").done.lines == 2 + 9 * 15
    lengths = [len((tmp_path / "out" / f"{number}.txt").read_text().splitlines()) for number in range(6)]
    assert lengths == [9 * number for number in range(6)]
    job.run(source, tmp_path / "all.txt")
    assert len((tmp_path / "all.txt").read_text().splitlines()) == 2 + 9 * 15
