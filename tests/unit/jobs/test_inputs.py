"""Files that a folder stands for, here and in a store."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from nmt_core.errors import DataError
from nmt_core.jobs.inputs import find_inputs
from nmt_core.store import storage

FILES = ["a.txt", "sub/b.txt"]
HIDDEN = [".hidden", ".git/x.txt", "sub/.y.txt"]


@pytest.fixture(params=["here", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Folder with files to translate, hidden files, and in S3 the marks of folders."""
    places = {"here": lambda: str(tmp_path), "memory": lambda: "memory://bucket"}
    root = places.get(request.param, lambda: request.getfixturevalue("s3_folder"))() + "/in"
    for name in [*FILES, *HIDDEN]:
        storage.write_bytes([b"now\n"], f"{root}/{name}")
    if request.param == "s3":
        import boto3

        bucket, _, key = root.removeprefix("s3://").partition("/")
        for mark in ("", "sub/", "none/"):
            boto3.client("s3").put_object(Bucket=bucket, Key=f"{key}/{mark}", Body=b"")
    yield root
    fsspec.filesystem("memory").store.clear()


def test_a_folder_means_the_files_in_it_that_are_seen(folder: str) -> None:
    for source in (folder, f"{folder}/"):
        assert [file.name for file in find_inputs(source).files] == FILES
    assert [file.name for file in find_inputs(f"{folder}/*").files] == FILES[:1]
    assert [file.name for file in find_inputs(f"{folder}/sub").files] == ["b.txt"]


def test_a_hidden_file_may_be_named(folder: str) -> None:
    found = find_inputs(f"{folder}/.hidden")
    assert found.is_one and [file.name for file in found.files] == [".hidden"]


def test_a_folder_with_marks_alone_is_empty(folder: str) -> None:
    with pytest.raises(DataError, match="/none: there is no such file, or nothing in it"):
        find_inputs(f"{folder}/none")
