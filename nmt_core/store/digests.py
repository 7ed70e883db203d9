"""Hashes of files, with a cache: no process reads an unchanged file again.

A file counts as unchanged if its path, size, modification time and inode are the same as when it was hashed. The cache
is an SQLite file, shared by all processes with the same home. It only saves time: if it is missing or damaged, files
are hashed again.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_WORTH_REMEMBERING = 65_536  # bytes: hashing less takes no longer than a query
_BYTES_BETWEEN_WRITES = 8 << 20  # the next process hashes at most this much again
_SECONDS_OF_DOUBT = 2  # file systems may give two changes within this time the same timestamp
_DAYS_KEPT = 180  # after this, a file is hashed again even if it is unchanged
_SECONDS_FOR_A_LOCK = 2.0
_DAY = 86_400
_TABLE = """
CREATE TABLE IF NOT EXISTS digests (
    path BLOB PRIMARY KEY, bytes INTEGER, changed INTEGER, inode INTEGER, sha256 TEXT, hashed INTEGER
) WITHOUT ROWID
"""


class _State(NamedTuple):
    """Properties of a file that change when its content does."""

    bytes: int
    changed: int
    """Modification time, in nanoseconds since 1970."""
    inode: int

    @classmethod
    def of(cls, path: Path) -> "_State":
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


def sha256_of_file(path: Path) -> str:
    """Read a file and return the sha256 of its bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Digests:
    """Cache of hashes. Threads may share it."""

    def __init__(self, file: Path | None = None) -> None:
        """Keep hashes in an SQLite file. None keeps them in this process only."""
        self.file = file
        self._known: dict[str, tuple[_State, str]] = {}
        self._unwritten: dict[str, int] = {}
        self._change = threading.Lock()

    def sha256(self, path: Path, *, anew: bool = False) -> str:
        """Return the sha256 of a file.

        Args:
            path: the file.
            anew: read the file even if it is unchanged since it was hashed.
        """
        name, state = str(path.absolute()), _State.of(path)
        digest = None if anew else self._recall(name, state)
        if digest is None:
            start = time.time_ns()
            digest = sha256_of_file(path)
            self._forget(name)
            if state == _State.of(path) and state.changed < start - _SECONDS_OF_DOUBT * 10**9:
                self._remember(name, state, digest)
        return digest

    def moved(self, before: Path, after: Path) -> None:
        """Record the new path of a file, for example after its folder was renamed."""
        old = str(before.absolute())
        with self._change:
            known = self._known.pop(old, None)
            self._unwritten.pop(old, None)
        if known:
            self._remember(str(after.absolute()), *known)

    def _recall(self, name: str, state: _State) -> str | None:
        with self._change:
            known = self._known.get(name)
        if known is None and state.bytes >= _WORTH_REMEMBERING and self.file and self.file.is_file():
            known = self._read(self.file, name)
            if known:
                with self._change:
                    self._known[name] = known
        return known[1] if known and known[0] == state else None

    def _remember(self, name: str, state: _State, sha256: str) -> None:
        with self._change:
            self._known[name] = state, sha256
            if state.bytes >= _WORTH_REMEMBERING:
                self._unwritten[name] = state.bytes
            if sum(self._unwritten.values()) < _BYTES_BETWEEN_WRITES:
                return
            ready = {name: self._known[name] for name in self._unwritten}
            self._unwritten.clear()
        if self.file:
            self._write(self.file, ready)

    def _forget(self, name: str) -> None:
        """Remove a file from the cache of this process.

        An entry of another process stays valid as long as it matches the file's present state.
        """
        with self._change:
            self._known.pop(name, None)
            self._unwritten.pop(name, None)

    def _read(self, file: Path, name: str) -> tuple[_State, str] | None:
        question = "SELECT bytes, changed, inode, sha256 FROM digests WHERE path = ? AND hashed > ?"
        values = os.fsencode(name), int(time.time()) - _DAYS_KEPT * _DAY
        row = _ask(file, lambda database: database.execute(question, values).fetchone())
        return (_State(*row[:3]), str(row[3])) if row else None

    def _write(self, file: Path, ready: dict[str, tuple[_State, str]]) -> None:
        now = int(time.time())
        rows = [(os.fsencode(name), *state, sha256, now) for name, (state, sha256) in ready.items()]

        def write(database: sqlite3.Connection) -> None:
            database.execute(_TABLE)
            database.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?, ?, ?)", rows)
            database.execute("DELETE FROM digests WHERE hashed < ?", (now - _DAYS_KEPT * _DAY,))

        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            _ask(file, write)


def _ask(file: Path, what: Callable[[sqlite3.Connection], Any]) -> Any:
    """Run one transaction and return its result, or None if the database cannot be used.

    The connection is opened and closed for this transaction only, because it must not survive a fork.
    """
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=_SECONDS_FOR_A_LOCK)) as database, database:
            return what(database)
    except sqlite3.OperationalError:  # the database is locked, has no table yet, or cannot be written
        return None
    except sqlite3.DatabaseError:  # the file is not a database, or is damaged: the next write creates it again
        file.unlink(missing_ok=True)
        return None


_of_this_process = Digests()


def remember_in(file: Path) -> None:
    """Set the file in which this process keeps the hashes of files from now on."""
    if _of_this_process.file != file:
        _of_this_process.file = file


def sha256_of(path: Path, *, anew: bool = False) -> str:
    """Return the sha256 of a file, from the cache if the file has not changed.

    Args:
        path: the file.
        anew: read the file even if it is unchanged since it was hashed.
    """
    return _of_this_process.sha256(path, anew=anew)


def moved(before: Path, after: Path) -> None:
    """Record the new path of a file."""
    _of_this_process.moved(before, after)
