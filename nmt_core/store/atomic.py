"""Durable and atomic writes of files. Without them, a renamed file may be empty after a power failure."""

import os
import secrets
from pathlib import Path


def write_durably(path: Path, text: str) -> None:
    """Write a file, and wait until all of it is on disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that readers always see the old content or the new one in full, even after a power failure.

    The content is written beside the file and renamed onto it. A process that is killed may leave the draft, whose name
    ends in `.partial`.

    Args:
        path: the file. Its folder exists.
        content: bytes, or text to write as UTF-8.

    Raises:
        OSError: the file cannot be written. It is unchanged.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with draft.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


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
