"""Find files on this machine: in the mirror folder, or at the path in the recipe."""

import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from nmt_core.corpus.fetching.addresses import RequestedFile, local_path, name_in, scheme_of
from nmt_core.errors import DataError
from nmt_core.store.digests import sha256_of

OnLook = Callable[[str, int, int], None]
"""Callback with an address, the number of bytes searched for its file, and the total number to search."""


class Mirror:
    """A folder with copies of files that is searched before the network."""

    def __init__(self, folder: str, on_look: OnLook = lambda address, done, total: None) -> None:
        """Use a folder. An empty string means no mirror."""
        self._folder = Path(folder).expanduser() if folder else None
        self._on_look = on_look
        self._looking = threading.Lock()

    def find(self, address: str, sha256: str, size: int = 0, *, by_last_part: bool = True) -> Path | None:
        """Find a file by content if the hash is known, trying files of the right name first, and else by name.

        A name is the whole address without its scheme, the layout of `wget --force-directories`, or its last part. Do
        not set `by_last_part` where another corpus may have the same last part: every zip of OPUS is called
        de-en.txt.zip. Files under other names are hashed. If `size` in bytes is known, only files of that size are
        hashed.

        Raises:
            DataError: the folder does not exist.
        """
        if not self._folder:
            return None
        if not self._folder.is_dir():
            raise DataError(f"corpus.mirror={self._folder}: no such folder (looked for {self._folder.absolute()})")
        whole = PurePosixPath(address.partition("://")[2].lstrip("/"))
        named = [self._folder / whole] if scheme_of(address) and ".." not in whole.parts else []
        named += [self._folder / name_in(address)] if by_last_part else []
        named = [path for path in named if path.is_file()]
        if not sha256:
            return named[0] if named else None
        if match := next((path for path in named if sha256_of(path) == sha256), None):
            return match
        others = sorted(path for path in self._folder.iterdir() if path.is_file() and path not in named)
        return self._with_hash(address, sha256, [path for path in others if size in (0, path.stat().st_size)])

    def _with_hash(self, address: str, sha256: str, files: list[Path]) -> Path | None:
        """Return the first file with this content. Only one thread searches, since others would read the same files."""
        read, total = 0, sum(path.stat().st_size for path in files)
        match = None
        with self._looking:
            for path in files:
                self._on_look(address, read, total)
                if sha256_of(path) == sha256:
                    match = path
                    break
                read += path.stat().st_size
            self._on_look(address, total, total)
        return match

    def find_here(self, file: RequestedFile) -> Path:
        """Return a file of this machine, from the mirror or by its path.

        Raises:
            DataError: no such file exists, or it is not readable.
        """
        if mirrored := self.find(file.address, file.sha256):
            return mirrored
        path = local_path(file.address)
        if path.is_file() and os.access(path, os.R_OK):
            return path
        problem = "not a readable file" if path.exists() else "no such file"
        raise DataError(
            f"{file.address}: {problem} (looked for {path.absolute()}): correct the path, or name a folder that holds "
            "the file with --set corpus.mirror=FOLDER"
        )
