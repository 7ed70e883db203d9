"""The lock file records the hash of each fetched file, and refuses another content."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.errors import DataError

A, B = "https://host.invalid/a.gz", "https://host.invalid/b.gz"
ONE, TWO = "1" * 64, "2" * 64
SHORT = "hf:org/name@main en-de"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recipe.lock.json"


def test_the_first_use_records_and_later_uses_agree(path: Path) -> None:
    Lockfile(str(path)).record(A, ONE, 5)
    before = path.read_bytes()

    lock = Lockfile(str(path))
    lock.record(A, ONE, 5)

    assert lock.sha256(A) == ONE
    assert lock.sha256(B) == ""
    assert path.read_bytes() == before


def test_another_content_names_both_hashes_and_the_entry_to_remove(path: Path) -> None:
    lock = Lockfile(str(path))
    lock.record(A, ONE, 5)

    for complain in (lambda: lock.record(A, TWO, 5), lambda: lock.check(A, TWO)):
        with pytest.raises(DataError, match=rf"{A} has sha256 {TWO}.*{ONE}: remove its entry.*{path}.*to accept"):
            complain()
    assert Lockfile(str(path)).sha256(A) == ONE


def test_without_its_entry_the_new_content_is_accepted(path: Path) -> None:
    Lockfile(str(path)).record(A, ONE, 5)
    content = json.loads(path.read_text())
    del content["files"][A]
    path.write_text(json.dumps(content))

    Lockfile(str(path)).record(A, TWO, 5)

    assert Lockfile(str(path)).sha256(A) == TWO


def test_the_files_of_a_short_address_are_remembered(path: Path) -> None:
    Lockfile(str(path)).record_files(SHORT, [B, A])

    lock = Lockfile(str(path))
    assert lock.files_of(SHORT) == (B, A)
    lock.record_files(SHORT, [B, A])
    with pytest.raises(DataError, match=rf"{SHORT} leads to other files.*1 differ, such as {A}.*remove its entry"):
        lock.record_files(SHORT, [B])
    with pytest.raises(DataError, match="their order"):
        lock.record_files(SHORT, [A, B])


def test_it_is_sorted_and_made_to_be_read(path: Path) -> None:
    lock = Lockfile(str(path))
    lock.record(B, TWO, 7)
    lock.record(A, ONE, 5)
    lock.record_files(SHORT, [A])

    text = path.read_text()
    assert list(json.loads(text)["files"]) == [A, B]
    assert text.endswith("}\n")
    assert text.count("\n") > 10
    entry = json.loads(text)["files"][A]
    assert (entry["sha256"], entry["bytes"]) == (ONE, 5)
    assert entry["recorded"].endswith("Z")


def test_what_others_record_at_the_same_time_stays(path: Path) -> None:
    addresses = [f"https://host.invalid/{number}" for number in range(40)]
    locks = [Lockfile(str(path)) for _ in range(4)]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: locks[n % 4].record(addresses[n], ONE, n), range(40)))

    assert sorted(json.loads(path.read_text())["files"]) == sorted(addresses)


def test_what_another_recorded_first_counts(path: Path) -> None:
    lock = Lockfile(str(path))
    Lockfile(str(path)).record(A, ONE, 5)

    with pytest.raises(DataError, match="to accept the new content"):
        lock.record(A, TWO, 5)


def test_without_a_path_nothing_is_known() -> None:
    lock = Lockfile("")
    lock.record(A, ONE, 5)
    lock.record_files(SHORT, [A])

    assert (lock.sha256(A), lock.files_of(SHORT)) == ("", ())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": {"a": 1}}', '{"fils": {}}'])
def test_a_damaged_file_is_not_taken_for_an_empty_one(path: Path, text: str) -> None:
    path.write_text(text)

    with pytest.raises(DataError, match=rf"corpus.lock={path}: not a lock file.*restore it, or remove it"):
        Lockfile(str(path))


def test_a_place_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match=r"cannot be written .*--set corpus.lock=FILE"):
        Lockfile(str(tmp_path / "file" / "lock.json")).record(A, ONE, 5)
