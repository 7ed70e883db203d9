"""Bring a wanted file into an artifact from the nearest source.

The sources are, in order: the mirror, an earlier download with the same bytes, and the address itself. Every file is
checked against the recipe and the lock file before it counts.
"""

import hashlib
import shutil
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from nmt_core import formats
from nmt_core.corpus.fetching.addresses import WEB, RequestedFile, name_in, scheme_of
from nmt_core.corpus.fetching.fetcher import Fetcher, NotThereError
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.mirror import Mirror
from nmt_core.corpus.fetching.partial import PartialFile
from nmt_core.corpus.fetching.resolvers import object_stores
from nmt_core.corpus.index import INDEX, CorpusIndex
from nmt_core.errors import DataError
from nmt_core.store import storage
from nmt_core.store.artifacts import MANIFEST
from nmt_core.store.digests import sha256_of


class EarlierDownloads:
    """Files of the published artifacts of `download`, by content."""

    def __init__(self, artifacts: Path) -> None:
        self._files: dict[str, Path] = {}
        for manifest in sorted(artifacts.glob(f"*/{MANIFEST}")):
            try:
                index = CorpusIndex.model_validate_json((manifest.parent / INDEX).read_bytes())
            except (OSError, ValidationError):  # written by another version of this package
                continue
            self._files |= {f.sha256: manifest.parent / f.file for corpus in index.corpora for f in corpus.files}

    def find(self, sha256: str) -> Path | None:
        """Return a file with this content if there is one and it is undamaged, or None."""
        path = self._files.get(sha256)
        return path if path and path.is_file() and sha256_of(path) == sha256 else None


@dataclass(frozen=True)
class Supplied:
    """A file that has been put in place."""

    path: Path
    sha256: str
    address: str
    """Address that the file came from, one of the two that were wanted."""


@dataclass
class Supply:
    """Sources of the files of one run. Several threads may use it at the same time."""

    fetcher: Fetcher
    mirror: Mirror
    earlier: EarlierDownloads
    lock: Lockfile
    offline: bool
    reused: int = 0
    """Number of files taken from an earlier download."""
    _parts: dict[str, PartialFile] = field(default_factory=dict)
    _fetched: dict[str, str] = field(default_factory=dict)
    _change: threading.Lock = field(default_factory=threading.Lock)

    def bring(self, file: RequestedFile, to: Path, *, short: bool) -> Supplied:
        """Put a file at `to`, plus the suffix that matches its content.

        Args:
            file: the file.
            to: its path, without a suffix.
            short: True if a short address led to it. Its hash is then recorded in the lock file even if it is known.

        Raises:
            DataError: the file cannot be fetched, or is not the one that the recipe or the lock file expects.
        """
        if not scheme_of(file.address):
            path = self.mirror.find_here(file)
            return self._place(path, file, self._checked(path, file), to)
        try:
            supplied = self._from_the_net(file, to, short)
        except NotThereError:
            if not file.otherwise:
                raise
            return self.bring(replace(file, address=file.otherwise, otherwise=""), to, short=short)
        if short or not file.sha256:
            self.lock.record(file.address, supplied.sha256, supplied.path.stat().st_size)
        return supplied

    def forget_parts(self) -> None:
        """Remove the fetched parts, because the artifact now holds their content."""
        for part in self._parts.values():
            with part.held():
                part.discard()

    def _from_the_net(self, file: RequestedFile, to: Path, short: bool) -> Supplied:
        expected = file.sha256 or self.lock.sha256(file.address)
        recorded = self.lock.bytes_of(file.address) if expected == self.lock.sha256(file.address) else 0
        if mirrored := self.mirror.find(file.address, expected, recorded, by_last_part=not short):
            return self._place(mirrored, file, self._checked(mirrored, file), to)
        if expected and (path := self.earlier.find(expected)):
            return self._place(path, file, expected, to)
        if self.offline:
            raise DataError(
                f"{file.address}: corpus.offline is set, and neither the mirror nor an earlier download has it: name "
                "a folder that holds it with --set corpus.mirror=FOLDER, or set corpus.offline=false"
            )
        part = PartialFile(self.fetcher.folder, file.address, name_in(file.address))
        with part.held():
            self._complete(part, expected or self._fetched.get(file.address, ""))
            try:
                sha256 = self._checked(part.path, file)
                self.lock.check(file.address, sha256)
                supplied = self._place(part.path, file, sha256, to)
            except DataError:
                part.discard()  # it is complete, and wrong
                raise
        with self._change:
            self._parts[file.address], self._fetched[file.address] = part, sha256
        return supplied

    def _complete(self, part: PartialFile, expected: str) -> None:
        """Fetch the missing bytes, unless the part left by an earlier run is already the complete file."""
        if expected and part.path.exists() and sha256_of(part.path) == expected:
            return
        if scheme_of(part.address) in WEB:
            self.fetcher.fetch(part)
        else:
            object_stores.fetch(part, self.fetcher.on_bytes, self.fetcher.stop)

    def _checked(self, path: Path, file: RequestedFile) -> str:
        """Return the hash of a file after checking it."""
        sha256 = sha256_of(path)
        if file.sha256 and sha256 != file.sha256:
            raise DataError(
                f"{file.address} has sha256 {sha256}, but {file.sha256} is expected: fetch the file again, or "
                "correct the recipe if the text was meant to change"
            )
        if file.md5 and (md5 := _md5_of(path)) != file.md5:
            raise DataError(
                f"{file.address} has md5 {md5}, but {file.md5} is published: fetch the file again, or name "
                "another source of it"
            )
        return sha256

    def _place(self, path: Path, file: RequestedFile, sha256: str, to: Path) -> Supplied:
        """Link files that this package owns, and copy files that others may change."""
        place = to.with_name(to.name + _suffix_of(path, file))
        place.unlink(missing_ok=True)  # an earlier run may have left a link, which must not be written to
        held = self.earlier.find(sha256)
        if held:
            with self._change:
                self.reused += 1
        if held or path.is_relative_to(self.fetcher.folder):
            storage.link(held or path, place)
            return Supplied(place, sha256, file.address)
        shutil.copyfile(path, place)
        if sha256_of(place) != sha256:
            raise DataError(f"{file.address}: {path} changed while it was copied: run the same command again")
        return Supplied(place, sha256, file.address)


def _suffix_of(path: Path, file: RequestedFile) -> str:
    """Return the suffix that matches the content. The name only distinguishes a table from lines."""
    try:
        return formats.looks_like(path, file.side, name_in(file.address), alone=file.alone).suffix
    except DataError as error:  # it names a copy, but users know the file by its address
        raise DataError(f"{file.address}: {str(error).removeprefix(f'{path}: ')}") from None


def _md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
