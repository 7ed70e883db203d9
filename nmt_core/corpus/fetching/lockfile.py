"""Read and write the lock file of a recipe, which records fetched files so that later runs get the same content.

It is JSON beside the recipe, made to be read, compared and committed::

    {
     "addresses": {"hf:org/name@main en-de": ["https://...parquet"]},
     "files": {"https://...parquet": {"sha256": "...", "bytes": 1234, "recorded": "2026-01-31T12:00:00Z"}}
    }

`addresses` lists the files that a short address led to, for a pair of languages. `files` records the content of each
file. Files of this machine are not included, because edits to them are meant to count.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.errors import DataError, words_of
from nmt_core.store.artifacts import now
from nmt_core.store.atomic import write_atomically


class LockedFile(BaseModel):
    """Content of a file when it was first fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str
    bytes: int
    recorded: str


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")
    addresses: dict[str, tuple[str, ...]] = {}
    files: dict[str, LockedFile] = {}

    def sorted(self) -> "_Content":
        return _Content(addresses=dict(sorted(self.addresses.items())), files=dict(sorted(self.files.items())))


class Lockfile:
    """A lock file to read and extend. Without a path, nothing is known and nothing is recorded."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser() if path else None
        self._content = self._read()

    def sha256(self, address: str) -> str:
        """Return the recorded hash of a file, or an empty string."""
        locked = self._content.files.get(address)
        return locked.sha256 if locked else ""

    def bytes_of(self, address: str) -> int:
        """Return the recorded size of a file in bytes, or 0."""
        locked = self._content.files.get(address)
        return locked.bytes if locked else 0

    def files_of(self, short: str) -> tuple[str, ...]:
        """Return the recorded files of a short address, which may be none."""
        return self._content.addresses.get(short, ())

    def check(self, address: str, sha256: str) -> None:
        """Compare a file with its record.

        Raises:
            DataError: the file has changed.
        """
        recorded = self._content.files.get(address)
        if recorded and recorded.sha256 != sha256:
            raise DataError(
                f"{address} has sha256 {sha256}, but on {recorded.recorded} it had {recorded.sha256}: remove its entry "
                f"under `files` from {self._path} to accept the new content"
            )

    def record(self, address: str, sha256: str, size: int) -> None:
        """Record a file, unless it is recorded already.

        Raises:
            DataError: the file is recorded with another hash, or the lock file cannot be written.
        """
        if self._path and not self.sha256(address):
            locked = LockedFile(sha256=sha256, bytes=size, recorded=now().strftime("%Y-%m-%dT%H:%M:%SZ"))
            self._extend({}, {address: locked})
        self.check(address, sha256)

    def record_files(self, short: str, files: Sequence[str]) -> None:
        """Record the files of a short address, unless they are recorded already.

        Raises:
            DataError: other files are recorded, or the lock file cannot be written.
        """
        if self._path and not self.files_of(short):
            self._extend({short: tuple(files)}, {})
        recorded = self.files_of(short)
        if recorded and recorded != tuple(files):
            changed = sorted(set(recorded) ^ set(files)) or ["their order"]
            raise DataError(
                f"{short} leads to other files than it did ({len(changed)} differ, such as {changed[0]}): remove its "
                f"entry under `addresses` from {self._path} to accept them"
            )

    def forget(self, addresses: Collection[str]) -> None:
        """Remove files from the record, so that their current content is accepted. Other entries stay.

        For a short address or a pattern, its entry and the entries of all of its files are removed.

        Raises:
            DataError: the lock file cannot be written.
        """
        short = {key for key in self._content.addresses if key.rpartition(" ")[0] in addresses}
        files = {*addresses, *(file for key in short for file in self._content.addresses[key])}
        if self._path and (short or files & self._content.files.keys()):
            self._write(
                lambda content: _Content(
                    addresses={key: led for key, led in content.addresses.items() if key not in short},
                    files={file: locked for file, locked in content.files.items() if file not in files},
                )
            )

    def _extend(self, addresses: dict[str, tuple[str, ...]], files: dict[str, LockedFile]) -> None:
        """Add entries to the current file. Entries that another run has written in the meantime stay."""
        self._write(lambda content: _Content(addresses=addresses | content.addresses, files=files | content.files))

    def _write(self, change: Callable[[_Content], _Content]) -> None:
        assert self._path
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f".{self._path.name}.lock")):
                self._content = change(self._read()).sorted()
                mode = self._path.stat().st_mode & 0o777 if self._path.exists() else 0o666
                write_atomically(self._path, self._content.model_dump_json(indent=1) + "\n", mode=mode)
        except OSError as error:
            raise DataError(
                f"corpus.lock={self._path}: cannot be written ({error.strerror or error}): name another file with "
                "--set corpus.lock=FILE"
            ) from error

    def _read(self) -> _Content:
        if not self._path or not self._path.exists():
            return _Content()
        try:
            return _Content.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            raise DataError(
                f"corpus.lock={self._path}: not a lock file ({words_of(error)}): restore it, or remove it to "
                "record the files again"
            ) from None
