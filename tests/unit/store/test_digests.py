"""The memory of hashes: no unchanged file is read twice, and no changed file keeps its old hash."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt_core.store.digests import Digests, sha256_of_file

LARGE = 9 << 20
BYTES_READ_BY = """
import sys
from pathlib import Path
from nmt_core.store.digests import Digests

def bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])

digests, file = Digests(Path(sys.argv[1])), Path(sys.argv[2])
before = bytes_read()
print(digests.sha256(file), bytes_read() - before)
"""
needs_proc = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count bytes read")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "home" / "hashes.db"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """File that is worth remembering, and old enough to be trusted."""
    file = tmp_path / "text.en"
    return written(file, b"a" * LARGE, 1_000_000_000)


def written(file: Path, content: bytes, at: int) -> Path:
    file.write_bytes(content)
    os.utime(file, (at, at))
    return file


def another_process(memory: Path, file: Path) -> tuple[str, int]:
    """Return the hash that another process computes, and the number of bytes that it has read for it."""
    command = [sys.executable, "-c", BYTES_READ_BY, str(memory), str(file)]
    sha256, count = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sha256, int(count)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@needs_proc
def test_another_process_does_not_read_a_file_again(memory: Path, large: Path) -> None:
    first, second = another_process(memory, large), another_process(memory, large)
    assert first[0] == second[0] == sha256_of_file(large)
    assert first[1] > LARGE > 100_000 > second[1]


@needs_proc
@pytest.mark.parametrize("change", ["size", "time", "inode", "path"])
def test_what_has_changed_is_read_again(memory: Path, large: Path, change: str) -> None:
    another_process(memory, large)
    if change == "size":
        written(large, b"b" * (LARGE + 1), 1_000_000_000)
    elif change == "time":
        written(large, b"b" * LARGE, 1_000_000_001)
    elif change == "inode":
        written(large.with_name("new"), b"b" * LARGE, 1_000_000_000).replace(large)
    else:
        large = large.rename(large.with_name("moved"))
    found, read = another_process(memory, large)
    assert found == sha256_of_file(large)
    assert read > LARGE


def test_a_change_within_the_resolution_of_the_clock_is_seen(memory: Path, tmp_path: Path) -> None:
    """A file that has just been written may be written again within the resolution of its file system's times."""
    file, digests = tmp_path / "text", Digests(memory)
    for content in (b"a" * LARGE, b"b" * LARGE):
        file.write_bytes(content)
        now = file.stat().st_mtime_ns
        assert digests.sha256(file) == sha256(content)
        written_again = content.upper()
        with file.open("r+b") as same:
            same.write(written_again)
        os.utime(file, ns=(now, now))
        assert digests.sha256(file) == sha256(written_again)
    assert not memory.exists()


def test_a_file_that_is_asked_for_anew_is_read(memory: Path, large: Path) -> None:
    """The disk has changed a byte without a new time or size."""
    digests = Digests(memory)
    before = digests.sha256(large)
    written(large, b"b" * LARGE, 1_000_000_000)
    assert digests.sha256(large) == before
    assert digests.sha256(large, anew=True) == sha256(b"b" * LARGE)
    assert digests.sha256(large) == Digests(memory).sha256(large) == sha256(b"b" * LARGE)


def test_a_file_that_was_moved_by_us_is_known_where_it_is(memory: Path, large: Path) -> None:
    digests = Digests(memory)
    before = digests.sha256(large)
    moved = large.rename(large.with_name("moved"))
    digests.moved(large, moved)
    written(moved, b"b" * LARGE, 1_000_000_000)
    assert digests.sha256(moved) == Digests(memory).sha256(moved) == before


@pytest.mark.parametrize("content", [b"no database" * 1_000, b"", b"SQLite format 3\0" + b"\1" * 5_000])
def test_a_damaged_memory_is_made_anew(memory: Path, large: Path, content: bytes) -> None:
    memory.parent.mkdir()
    memory.write_bytes(content)
    for _ in range(2):
        assert Digests(memory).sha256(large) == sha256_of_file(large)
    with sqlite3.connect(memory) as database:
        assert database.execute("SELECT count(*) FROM digests").fetchone() == (1,)


def test_a_memory_that_is_locked_or_cannot_be_written_costs_time_alone(memory: Path, large: Path) -> None:
    Digests(memory).sha256(large)
    other = written(large.with_name("other"), b"c" * LARGE, 1_000_000_000)
    with sqlite3.connect(memory, isolation_level=None) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert Digests(memory).sha256(other) == sha256(b"c" * LARGE)
    blocked = large / "below a file" / "hashes.db"
    assert Digests(blocked).sha256(other) == sha256(b"c" * LARGE)


def test_what_was_hashed_long_ago_is_hashed_anew(memory: Path, large: Path) -> None:
    Digests(memory).sha256(large)
    with sqlite3.connect(memory) as database:
        database.execute("UPDATE digests SET hashed = hashed - 181 * 86400")
    written(large, b"b" * LARGE, 1_000_000_000)
    assert Digests(memory).sha256(large) == sha256(b"b" * LARGE)


def test_threads_and_processes_may_ask_at_once(memory: Path, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{number}", bytes([number]) * LARGE, 1_000_000_000) for number in range(4)]
    expected = [sha256_of_file(file) for file in files]
    digests, found = Digests(memory), dict[int, str]()

    def ask(number: int) -> None:
        found[number] = digests.sha256(files[number % 4])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    command = [sys.executable, "-c", BYTES_READ_BY, str(memory)]
    processes = [subprocess.Popen([*command, str(file)], stdout=subprocess.PIPE, text=True) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(8)] == expected * 2
    assert [process.communicate()[0].split()[0] for process in processes] == expected
