"""Temporary folders below NMT_HOME for copies of models, which are removed at the end of a block.

A process that is killed leaves its folder behind. The lock file beside it shows if the process is alive, on this
machine or on another one with the same home. `nmt artifacts gc` frees the folders whose process is gone.
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
    """Make an empty folder below a home, and remove it when the block ends."""
    root = _root(home)
    root.mkdir(parents=True, exist_ok=True)
    folder = root / uuid.uuid4().hex
    lock = _lock_of(folder)
    with lock:  # before the folder exists: a folder without an owner counts as garbage
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            Path(lock.lock_file).unlink(missing_ok=True)


def abandoned_copies(home: Path) -> list[Path]:
    """Return the folders of a home whose process is gone."""
    folders = []
    for folder in sorted(path for path in _root(home).glob("*") if path.is_dir()):
        try:
            with _lock_of(folder).acquire(timeout=0):
                folders.append(folder)
        except Timeout:
            continue
    return folders


def remove_copy(folder: Path) -> None:
    """Remove a folder that `abandoned_copies` returned."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(_lock_of(folder).lock_file).unlink(missing_ok=True)


def _root(home: Path) -> Path:
    return home / "copies"


def _lock_of(folder: Path) -> FileLock:
    return FileLock(folder.with_name(f"{folder.name}{_LOCK}"))
