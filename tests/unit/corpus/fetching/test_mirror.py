"""Files are found in a mirror by their hash, or else by their name."""

import hashlib
from pathlib import Path

import pytest

from nmt_core.corpus.fetching import mirror
from nmt_core.corpus.fetching.addresses import RequestedFile
from nmt_core.corpus.fetching.mirror import Mirror
from nmt_core.errors import DataError

TEXT = b"Ein Hund rennt.\n"
TEXT_SHA256 = hashlib.sha256(TEXT).hexdigest()
OTHER_SHA256 = hashlib.sha256(b"other").hexdigest()
ADDRESS = "https://host.invalid/OPUS-A/v1/de-en.zip"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "another name").write_bytes(TEXT)
    (tmp_path / "de-en.zip").write_bytes(b"other")
    return tmp_path


def test_a_known_hash_finds_the_content_under_any_name(folder: Path) -> None:
    found = Mirror(str(folder))

    assert found.find(ADDRESS, TEXT_SHA256) == folder / "another name"
    assert found.find(ADDRESS, OTHER_SHA256) == folder / "de-en.zip"
    assert found.find(ADDRESS, hashlib.sha256(b"nowhere").hexdigest()) is None


def test_files_of_another_size_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def noting(path: Path) -> str:
        read.append(path)
        return sha256_of(path)

    sha256_of = mirror.sha256_of
    monkeypatch.setattr(mirror, "sha256_of", noting)
    told: list[tuple[str, int, int]] = []
    found = Mirror(str(folder), lambda *look: told.append(look))

    assert found.find("https://host.invalid/x.gz", TEXT_SHA256, len(TEXT)) == folder / "another name"
    assert read == [folder / "another name"]
    assert told == [("https://host.invalid/x.gz", 0, len(TEXT)), ("https://host.invalid/x.gz", len(TEXT), len(TEXT))]


def test_what_is_read_is_told(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = Mirror(str(folder), lambda *look: told.append(look))

    assert found.find("https://host.invalid/x.gz", hashlib.sha256(b"nowhere").hexdigest()) is None
    sizes = len(TEXT), len(b"other")
    assert told == [("https://host.invalid/x.gz", read, sum(sizes)) for read in (0, sizes[0], sum(sizes))]
    told.clear()
    assert found.find(ADDRESS, OTHER_SHA256) == folder / "de-en.zip"  # by its name, so that no other is read
    assert told == []


def test_without_a_hash_the_name_decides(folder: Path) -> None:
    found = Mirror(str(folder))

    assert found.find(ADDRESS, "") == folder / "de-en.zip"
    assert found.find(ADDRESS, "", by_last_part=False) is None
    assert found.find("https://host.invalid/other.zip", "") is None


def test_the_whole_address_is_the_better_name(folder: Path) -> None:
    path = folder / "host.invalid" / "OPUS-A" / "v1" / "de-en.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this one")

    assert Mirror(str(folder)).find(ADDRESS, "") == path
    assert Mirror(str(folder)).find(ADDRESS, "", by_last_part=False) == path


def test_without_a_folder_nothing_is_found() -> None:
    assert Mirror("").find(ADDRESS, TEXT_SHA256) is None


def test_a_file_of_this_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    assert Mirror("").find_here(RequestedFile("de-en.zip", "both")) == Path("de-en.zip")
    assert Mirror("").find_here(RequestedFile((folder / "another name").as_uri(), "both")) == folder / "another name"
    with pytest.raises(DataError, match="not a readable file"):
        Mirror("").find_here(RequestedFile(str(folder), "both"))


def test_a_hash_is_computed_anew_when_the_file_changes(folder: Path) -> None:
    path = folder / "another name"
    assert mirror.sha256_of(path) == TEXT_SHA256
    path.write_bytes(b"other")
    assert mirror.sha256_of(path) == OTHER_SHA256
