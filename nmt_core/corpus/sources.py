"""Where the files of a recipe are: in the mirror folder, on this machine, or on the network.

A file is known by its content: the fingerprint of `download` holds a file's sha256 wherever the recipe pins it or the
file lies on this machine, so that the same text from an address or from a mirror is the same artifact.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import httpx
import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.artifacts import Artifact, Identity, sha256_of_file
from nmt_core.config import CorpusConfig, ParallelFiles, PipelineConfig
from nmt_core.corpus import formats
from nmt_core.errors import DataError

Role = Literal["train", "dev", "test"]
ROLES: tuple[Role, ...] = ("train", "dev", "test")
OnBytes = Callable[[int, int], None]
"""Told how many bytes have come, of how many in all (0: not known)."""

INDEX = "corpora.json"
SIDES = ("source", "target")

_CHUNK_BYTES = 1 << 20
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429, 500, 502, 503, 504})


class StoredFile(BaseModel):
    """One file of a download artifact."""

    model_config = ConfigDict(frozen=True)
    file: str
    """Path within the artifact."""
    sha256: str
    bytes: int
    address: str
    """Where the recipe says that it comes from."""

    @staticmethod
    def of(path: Path, sha256: str, address: str) -> "StoredFile":
        """Describe a file that lies in its role's folder."""
        file = f"{path.parent.name}/{path.name}"
        return StoredFile(file=file, sha256=sha256, bytes=path.stat().st_size, address=address)


class StoredCorpus(BaseModel):
    """One parallel corpus of a download artifact."""

    model_config = ConfigDict(frozen=True)
    role: Role
    name: str
    licence: str
    source: StoredFile
    target: StoredFile


class CorpusIndex(BaseModel):
    """What a download artifact holds, in the order of the recipe: the file `corpora.json`."""

    model_config = ConfigDict(frozen=True)
    corpora: tuple[StoredCorpus, ...]

    @staticmethod
    def of(download: Artifact) -> "CorpusIndex":
        """Read the index of an artifact."""
        return CorpusIndex.model_validate_json((download.path / INDEX).read_bytes())

    def read(self, download: Artifact, role: Role) -> dict[str, pl.DataFrame]:
        """The pairs (columns source, target, line) of each corpus of a role, by name, in the order of the recipe.

        Raises:
            DataError: see `formats.read_pairs`.
        """
        found = {}
        for corpus in self.corpora:
            if corpus.role == role:
                files = [download.path / side.file for side in (corpus.source, corpus.target)]
                try:
                    found[corpus.name] = formats.read_pairs(*files)
                except DataError as error:  # it names our copies; the user knows the corpus by its address
                    addresses = f"{corpus.source.address}, {corpus.target.address}"
                    raise DataError(f"corpus {corpus.name} ({addresses}): {error}") from None
        return found


@dataclass(frozen=True)
class WantedFile:
    """One side of a parallel corpus, as the recipe names it."""

    label: str
    """For messages: "corpus multi30k, source side"."""
    address: str
    sha256: str
    """Expected hash; empty: any."""

    @property
    def local(self) -> Path | None:
        """Path on this machine; None for an address on the network."""
        parts = urlsplit(self.address)
        if parts.scheme in {"http", "https"}:
            return None
        if parts.scheme == "file":
            return Path(unquote(parts.path))
        if "://" in self.address:
            raise DataError(f"{self.label}: {self.address}: give a path, or a file://, http:// or https:// address")
        return Path(self.address).expanduser()

    @property
    def file_name(self) -> str:
        """Last part of the path or address."""
        return self.local.name if self.local else Path(unquote(urlsplit(self.address).path)).name


def identity(config: PipelineConfig) -> Identity:
    """What decides the text: the toy's parameters, and each file's sha256 or, where that is not known yet, its address.

    The mirror, the licence and the paths are not part of it.

    Raises:
        DataError: a file on this machine does not exist.
    """
    corpus = config.corpus
    resolver = Resolver(corpus.mirror)
    values: Identity = {"toy": corpus.toy.model_dump(mode="json") if corpus.toy else None}
    for role in ROLES:
        values[role] = [
            {"name": files.name, **{side: resolver.identity(wanted) for side, wanted in sides(files).items()}}
            for files in files_of(corpus, role)
        ]
    return values


def files_of(corpus: CorpusConfig, role: Role) -> tuple[ParallelFiles, ...]:
    """The corpora that the recipe names for a role, in its order."""
    return {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}[role]


def sides(files: ParallelFiles) -> dict[str, WantedFile]:
    """Both sides of a corpus: "source" and "target"."""
    return {
        "source": WantedFile(f"corpus {files.name}, source side", files.source, files.source_sha256),
        "target": WantedFile(f"corpus {files.name}, target side", files.target, files.target_sha256),
    }


@dataclass
class Resolver:
    """Finds the bytes of a wanted file."""

    mirror: str = ""
    """Folder that is looked into first; empty: none."""
    attempts: int = 4
    pause: float = 0.5
    """Seconds before the second attempt; doubled before each further one."""
    timeout: float = 30.0
    """Seconds without a byte after which an attempt counts as failed."""
    _hashes: dict[Path, str] = field(default_factory=dict)

    def identity(self, wanted: WantedFile) -> str:
        """The sha256 of the file's bytes as far as it is known before a download, else its address.

        Raises:
            DataError: the file should be on this machine and is not.
        """
        path = None if wanted.local is None else self.find(wanted)
        return wanted.sha256 or (self._sha256(path) if path else wanted.address)

    def find(self, wanted: WantedFile) -> Path | None:
        """The file on this machine: from the mirror, else by its path. None if it must come from the network.

        Raises:
            DataError: there is no such file, or no such mirror.
        """
        if self.mirror and (mirrored := self._find_in_mirror(wanted)):
            return mirrored
        local = wanted.local
        if local is None or (local.is_file() and os.access(local, os.R_OK)):
            return local
        problem = "not a file that may be read" if local.exists() else "no such file"
        raise DataError(
            f"{wanted.label}: {wanted.address}: {problem} (looked for {local.absolute()}): correct the path, or name a "
            "folder that holds the file with --set corpus.mirror=FOLDER"
        )

    def fetch(self, wanted: WantedFile, to: Path, on_bytes: OnBytes) -> str:
        """Bring the file's bytes to `to`, unchanged, and return their sha256; `to` appears only when whole.

        Raises:
            DataError: the file cannot be had, or is not what the recipe expects.
        """
        part = to.with_name(f"{to.name}.part")
        local = self.find(wanted)
        if local is None:
            self._download(wanted, part, on_bytes)
        else:
            shutil.copyfile(local, part)
        found = sha256_of_file(part)
        if wanted.sha256 and found != wanted.sha256:
            part.unlink()
            raise DataError(
                f"{wanted.label}: {local or wanted.address} has sha256 {found}, but the recipe expects "
                f"{wanted.sha256}: fetch the file again, or correct the recipe if the text was meant to change"
            )
        part.rename(to)
        return found

    def _find_in_mirror(self, wanted: WantedFile) -> Path | None:
        """By content where the hash is known - the file that has the name is tried first -, else by name."""
        folder = Path(self.mirror).expanduser()
        if not folder.is_dir():
            raise DataError(f"corpus.mirror={self.mirror}: no such folder (looked for {folder.absolute()})")
        named = folder / wanted.file_name
        if not wanted.sha256:
            return named if named.is_file() else None
        files = sorted((path for path in folder.iterdir() if path.is_file()), key=lambda path: (path != named, path))
        return next((path for path in files if self._sha256(path) == wanted.sha256), None)

    def _sha256(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = sha256_of_file(path)
        return self._hashes[path]

    def _download(self, wanted: WantedFile, part: Path, on_bytes: OnBytes) -> None:
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                self._download_once(wanted, part, on_bytes)
                return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = _explain(error)
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in _WORTH_ANOTHER_TRY:
                    break
        looked = f" (corpus.mirror={self.mirror} does not hold it)" if self.mirror else ""
        raise DataError(
            f"{wanted.label}: cannot fetch {wanted.address}: {problem}{looked}: check the address and the network, or "
            "name a folder that holds the file with --set corpus.mirror=FOLDER"
        ) from None

    def _download_once(self, wanted: WantedFile, part: Path, on_bytes: OnBytes) -> None:
        as_stored = {"Accept-Encoding": "identity"}  # a .gz is to arrive as the .gz that was hashed
        with httpx.stream(
            "GET", wanted.address, headers=as_stored, timeout=self.timeout, follow_redirects=True
        ) as answer:
            answer.raise_for_status()
            total = int(answer.headers.get("Content-Length", 0))
            with part.open("wb") as file:
                for chunk in _raw(answer):
                    file.write(chunk)
                    on_bytes(answer.num_bytes_downloaded, total)
            if total and answer.num_bytes_downloaded != total:
                raise httpx.RemoteProtocolError(f"{answer.num_bytes_downloaded:,} bytes came of {total:,}")
        if "text/html" in answer.headers.get("Content-Type", "") or formats.is_html(part):
            part.unlink()
            raise DataError(
                f"{wanted.label}: {wanted.address} answered with an HTML page in place of the file: open the address "
                "in a browser, and give the one that the download itself has"
            )


def _raw(answer: httpx.Response) -> Iterator[bytes]:
    """The bytes of the file; a server that compresses in spite of the request is undone."""
    if answer.headers.get("Content-Encoding", "identity") == "identity":
        return answer.iter_raw(_CHUNK_BYTES)
    return answer.iter_bytes(_CHUNK_BYTES)


def _explain(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answered {error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__
