"""Tables and files in a folder or a store, each of which is replaced as a whole."""

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import polars as pl
import pytest

from nmt_core.errors import DataError
from nmt_core.store import storage

FRAME = pl.DataFrame({"place": [3, 1, 2], "source": ["drei", None, "zwei\n"], "score": [0.5, None, float("nan")]})


@pytest.fixture(params=["plain", "file", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty folder: a plain path, or the address of one."""
    if request.param == "s3":
        yield request.getfixturevalue("s3_folder")
        return
    memory = f"memory://{uuid.uuid4().hex}"
    yield {"plain": str(tmp_path / "new"), "file": f"file://{tmp_path}/new", "memory": memory}[request.param]
    fsspec.filesystem("memory").store.clear()


def names(folder: str) -> list[str]:
    file_system, path = storage.store_of(folder)
    try:
        return sorted(name.rsplit("/")[-1] for name in file_system.ls(path, detail=False))
    except FileNotFoundError:  # S3 has no empty folders
        return []


def test_a_frame_comes_back_as_it_was(folder: str) -> None:
    url = f"{folder}/deep/frame.parquet"

    storage.write(FRAME, url)

    assert storage.read(url).equals(FRAME)
    assert storage.read(url).schema == FRAME.schema
    assert names(f"{folder}/deep") == ["frame.parquet"]


def test_some_columns_are_read_in_the_order_asked_for(folder: str) -> None:
    storage.write(FRAME, f"{folder}/frame.parquet")

    assert storage.read(f"{folder}/frame.parquet", ["score", "place"]).equals(FRAME.select("score", "place"))


def test_the_same_frame_gives_the_same_bytes_wherever_it_is_written(folder: str, tmp_path: Path) -> None:
    storage.write(FRAME, f"{folder}/frame.parquet")
    storage.write(FRAME, str(tmp_path / "again.parquet"))

    again = (tmp_path / "again.parquet").read_bytes()
    assert storage.read_bytes(f"{folder}/frame.parquet", 0, len(again) + 1) == again


def test_a_file_need_not_be_compressed(folder: str) -> None:
    frame = pl.DataFrame({"source": ["the same again "] * 10_000}).with_row_index()
    storage.write(frame, f"{folder}/plain.parquet", level=0)
    storage.write(frame, f"{folder}/small.parquet")

    plain, small = (len(storage.read_bytes(f"{folder}/{name}.parquet", 0, 10**9)) for name in ("plain", "small"))
    assert plain > 40_000 > small
    assert storage.read(f"{folder}/plain.parquet").equals(frame)


def test_a_range_of_a_binary_file(folder: str) -> None:
    storage.write_bytes([b"0123", memoryview(b"4567")], f"{folder}/bytes.bin")

    assert storage.read_bytes(f"{folder}/bytes.bin", 2, 6) == b"2345"
    assert storage.read_bytes(f"{folder}/bytes.bin", 6, 60) == b"67"
    assert storage.read_bytes(f"{folder}/bytes.bin", 3, 3) == b""


def test_a_file_is_replaced_as_a_whole(folder: str) -> None:
    storage.write_bytes([b"old and long"], f"{folder}/bytes.bin")
    storage.write_bytes([b"new"], f"{folder}/bytes.bin")

    assert storage.read_bytes(f"{folder}/bytes.bin", 0, 100) == b"new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(folder: str) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half of it"
        raise OSError("the disk is gone")

    storage.write_bytes([b"old"], f"{folder}/bytes.bin")
    with pytest.raises(OSError, match="the disk is gone"):
        storage.write_bytes(parts(), f"{folder}/bytes.bin")

    assert storage.read_bytes(f"{folder}/bytes.bin", 0, 100) == b"old"
    assert names(folder) == ["bytes.bin"]


def test_removing_a_file_twice_is_no_error(folder: str) -> None:
    storage.write_bytes([b"a"], f"{folder}/a.bin")
    storage.write_bytes([b"b"], f"{folder}/b.bin")

    storage.remove([f"{folder}/a.bin", f"{folder}/a.bin"])

    assert names(folder) == ["b.bin"]


def test_a_folder_goes_with_all_that_is_in_it(folder: str) -> None:
    storage.write_bytes([b"a"], f"{folder}/gone/deep/a.bin")
    storage.write_bytes([b"b"], f"{folder}/b.bin")

    storage.remove_folder(f"{folder}/gone")
    storage.remove_folder(f"{folder}/gone")

    assert names(folder) == ["b.bin"]


def test_a_file_is_brought_here(folder: str, tmp_path: Path) -> None:
    storage.write_bytes([b"kept"], f"{folder}/other.bin")
    storage.write_bytes([b"text"], f"{folder}/a.bin")

    storage.bring(f"{folder}/a.bin", tmp_path / "b.bin")

    assert (tmp_path / "b.bin").read_bytes() == b"text"
    assert names(folder) == ["other.bin"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no second file system")
def test_a_file_is_brought_from_another_file_system(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        storage.write_bytes([b"text"], f"{elsewhere}/a.bin")

        storage.bring(f"{elsewhere}/a.bin", tmp_path / "b.bin")

        assert (tmp_path / "b.bin").read_bytes() == b"text"
        assert names(elsewhere) == []


def test_only_half_written_files_are_swept_away(folder: str) -> None:
    storage.write_bytes([b"whole"], f"{folder}/a.bin")
    file_system, path = storage.store_of(folder)
    file_system.pipe_file(f"{path}/a.bin.0123abcd.partial", b"hal")

    storage.sweep(folder)

    assert names(folder) == ["a.bin"]


def test_a_folder_that_is_not_there_yet_needs_no_sweeping(folder: str) -> None:
    storage.sweep(folder)


def test_a_missing_file_is_named(folder: str) -> None:
    url = f"{folder}/lost.parquet"

    with pytest.raises(DataError, match=r"lost\.parquet: there is no such file"):
        storage.read(url)
    with pytest.raises(DataError, match=r"lost\.parquet: there is no such file"):
        storage.read_bytes(url, 0, 1)


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_file_is_named(folder: str, content: bytes) -> None:
    storage.write_bytes([content], f"{folder}/frame.parquet")

    with pytest.raises(DataError, match=r"(?s)frame\.parquet: cannot be read as Parquet .*remove it"):
        storage.read(f"{folder}/frame.parquet")


@pytest.mark.parametrize("url", ["/data/a.parquet", "file:///data/a.parquet", "local:///data/a.parquet"])
def test_local_addresses_are_paths(url: str) -> None:
    assert storage.local_path(url) == Path("/data/a.parquet")
    assert storage.local_path("s3://data/a.parquet") is None


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """The path is not a pattern. If it were, the file of another folder that fits it would be read."""
    for name in ("runs[1]", "runs1", "a*b?"):
        (tmp_path / name).mkdir()
        storage.write(pl.DataFrame({"name": [name]}), str(tmp_path / name / "x.parquet"))
    for name in ("runs[1]", "a*b?"):
        assert storage.read(str(tmp_path / name / "x.parquet"))["name"].to_list() == [name]


@pytest.mark.parametrize("name", ["file.bin", "file[1].bin"])
def test_a_file_written_piece_by_piece_appears_when_it_is_whole(folder: str, name: str) -> None:
    for content in (b"first", b"second"):
        with storage.published(f"{folder}/{name}") as file:
            file.write(content[:3])
            assert name not in names(folder) or storage.read_bytes(f"{folder}/{name}", 0, 99) == b"first"
            file.write(content[3:])
        assert storage.read_bytes(f"{folder}/{name}", 0, 99) == content
        assert names(folder) == [name]


def test_a_file_that_is_not_finished_never_appears(folder: str) -> None:
    with pytest.raises(KeyboardInterrupt), storage.published(f"{folder}/file.bin") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    storage.write_bytes([b"another"], f"{folder}/another")
    assert names(folder) == ["another"]


def test_drafts_of_one_file_are_swept_and_others_stay(folder: str) -> None:
    others = ["a.txt.download.partial", "a.txt.gz.0a1b2c3d.partial", "b.txt.0123abcd.partial"]
    for name in ("a.txt", "a.txt.0123abcd.partial", *others):
        storage.write_bytes([b"x"], f"{folder}/{name}")
        storage.write_bytes([b"x"], f"{folder}/deep/{name}")
    storage.sweep_drafts([f"{folder}/a.txt", f"{folder}/deep/a.txt", f"{folder}/deep/b.txt"])
    assert [name for name in names(folder) if name != "deep"] == ["a.txt", *others]
    assert names(f"{folder}/deep") == ["a.txt", *others[:2]]


def test_each_folder_is_listed_once_for_its_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    memory = fsspec.filesystem("memory")
    former = memory.ls
    monkeypatch.setattr(type(memory), "ls", lambda self, path, **how: (listed.append(path), former(path, **how))[1])
    storage.sweep_drafts(f"memory://{folder}/{number}.txt" for folder in ("a", "b") for number in range(50))
    assert listed == ["/a", "/b"]


def test_what_other_processes_write_after_a_listing_is_seen(s3_folder: str) -> None:
    """A cached listing would hide the file."""
    storage.write(FRAME, f"{s3_folder}/1.parquet")
    storage.sweep(s3_folder)
    storage.sweep_drafts([f"{s3_folder}/1.parquet"])
    code = "import sys; from nmt_core.store import storage; storage.write(storage.read(sys.argv[1]), sys.argv[2])"
    files = [f"{s3_folder}/{number}.parquet" for number in (1, 2)]
    subprocess.run([sys.executable, "-c", code, *files], check=True)

    assert storage.read(files[1]).equals(FRAME)
    storage.remove_folder(s3_folder)
    with pytest.raises(DataError, match="there is no such file"):
        storage.read(files[1])


@pytest.mark.parametrize("write", [lambda url: storage.write(FRAME, url), lambda url: storage.write_bytes([b"x"], url)])
def test_a_bucket_that_is_not_there_is_not_made(write: Callable[[str], None], s3: str) -> None:
    with pytest.raises(FileNotFoundError):
        write("s3://mistyped/a.bin")
    with pytest.raises(FileNotFoundError), storage.published("s3://mistyped/a.bin") as file:
        file.write(b"x")
    assert storage.store_of(s3)[0].ls("") == ["bucket"]
