"""Folders below NMT_HOME for copies of models, which last as long as the block that needs them.

A process that is killed leaves its folder there. The lock beside it says whether the process lives, on this machine or
on another one with the same home; `nmt artifacts gc` frees the folders of those that do not.
"""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_LOCK = ".lock"


@contextmanager
def copy_folder(home: Path) -> Iterator[Path]:
    """An empty folder below a home, which is removed when the block ends."""
    root = _root(home)
    root.mkdir(parents=True, exist_ok=True)
    folder = root / uuid.uuid4().hex
    lock = _lock_of(folder)
    with lock:  # before there is a folder: without an owner it would be garbage
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            Path(lock.lock_file).unlink(missing_ok=True)


def abandoned_copies(home: Path) -> list[Path]:
    """Folders of a home whose owner is gone."""
    found = []
    for folder in sorted(path for path in _root(home).glob("*") if path.is_dir()):
        try:
            with _lock_of(folder).acquire(timeout=0):
                found.append(folder)
        except Timeout:
            continue
    return found


def remove_copy(folder: Path) -> None:
    """Remove a folder of `abandoned_copies`."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(_lock_of(folder).lock_file).unlink(missing_ok=True)


def _root(home: Path) -> Path:
    return home / "copies"


def _lock_of(folder: Path) -> FileLock:
    return FileLock(folder.with_name(f"{folder.name}{_LOCK}"))
