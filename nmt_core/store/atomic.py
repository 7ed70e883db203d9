"""Durable and atomic writes of files. Without them, a renamed file may be empty after a power failure."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

_DRAFT = re.compile(r".+\.[0-9a-f]{8}\.partial", re.DOTALL)  # see `replacing`


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty draft beside a file, which takes the place of the file at the end of the block.

    Readers see the former file or the new one, complete, and so does a machine after a loss of power. If the block
    raises, the draft is removed and the file is as it was. A process that is killed may leave the draft, which is named
    `*.partial`.

    Args:
        path: the file. Its folder exists.
        mode: permissions of the new file, less those that the umask takes away.

    Raises:
        OSError: the file cannot be written.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield draft
        sync(draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file in one step: see `replacing`.

    Args:
        path: the file. Its folder exists.
        content: bytes, or text to write as UTF-8.
        mode: permissions of the new file, less those that the umask takes away.

    Raises:
        OSError: the file cannot be written. It is as it was.
    """
    with replacing(path, mode=mode) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_drafts(folder: Path) -> None:
    """Remove the drafts that killed processes left below a folder. No process may be writing there."""
    for path in folder.rglob("*.partial"):
        if path.is_file() and _DRAFT.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync_below(folder: Path) -> None:
    """Wait until everything below a folder is on disk: files and their names, which their folders hold."""
    for path in folder.rglob("*"):
        if path.is_file() or path.is_dir():
            sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk. Some systems cannot do this for folders."""
    is_folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not is_folder:
            raise
