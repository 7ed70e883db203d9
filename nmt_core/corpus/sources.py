"""What a download artifact holds, and what decides it.

A file is known by its content: the fingerprint of `download` holds a file's sha256 wherever the recipe pins it, the
lock file remembers it or the file lies on this machine, so that the same text from an address or from a mirror is the
same artifact. Nothing here asks the network: `nmt plan` needs it as well.
"""

import re
import zipfile
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.artifacts import Artifact, Identity
from nmt_core.config import CorpusConfig, LanguagesConfig, ParallelCorpus, PipelineConfig
from nmt_core.corpus.fetching.addresses import SIDES, WantedFile, resolve_here, scheme_of
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.mirror import Mirror
from nmt_core.corpus.formats import Side
from nmt_core.digests import sha256_of
from nmt_core.errors import DataError
from nmt_core.manifests import InnerPath

__all__ = [
    "INDEX",
    "ROLES",
    "SIDES",
    "CorpusIndex",
    "Role",
    "Side",
    "StoredCorpus",
    "StoredFile",
    "corpora_of",
    "identity",
    "label_of",
    "licence_files",
    "short_key",
]

Role = Literal["train", "dev", "test"]
ROLES: tuple[Role, ...] = ("train", "dev", "test")

INDEX = "corpora.json"
_LICENCE_FILE = re.compile(r"(?:.*/)?(?:LICEN[CS]E|COPYING)(?:\.(?:txt|md))?", re.IGNORECASE)
_MADE_HERE = "nmt_core.corpus.toy"  # stands in place of an address
_SHOWN = 3  # addresses of a corpus that has many files


class StoredFile(BaseModel):
    """One file of a download artifact, or the part of one that holds one side."""

    model_config = ConfigDict(frozen=True)
    file: InnerPath
    """Path within the artifact."""
    sha256: str
    bytes: int
    address: str
    """Where it comes from."""
    side: Side
    """What it holds."""
    member: str = ""
    """Pattern of the members to read, if it is an archive; empty: all that fit."""


class StoredCorpus(BaseModel):
    """One parallel corpus of a download artifact."""

    model_config = ConfigDict(frozen=True)
    role: Role
    name: str
    licence: str
    citation: str
    url: str
    """Page about the corpus; empty: none is known."""
    known_licence: str | None = None
    """What is known of the address, whatever the recipe said; None: an earlier version of this package stored it."""
    known_citation: str | None = None
    files: tuple[StoredFile, ...]
    """Where a side is a file of its own, the first source file belongs to the first target file, and so on."""
    source_column: str = ""
    target_column: str = ""

    @property
    def label(self) -> str:
        """Name and addresses, for messages: the user knows the corpus by them, not by our copies."""
        return f"corpus {self.name} ({', '.join(self._addresses)})"

    @property
    def page(self) -> str:
        """Page about the corpus, or else where its files come from; empty for what this package makes itself."""
        found = [address for address in self._addresses if address != _MADE_HERE]
        more = len(found) - _SHOWN
        return self.url or ", ".join(found[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")

    @property
    def _addresses(self) -> list[str]:
        return list(dict.fromkeys(file.address for file in self.files))

    def as_of(self, config: CorpusConfig) -> "StoredCorpus":
        """With licence and citation as the recipe says now, and else as its owners did when it was fetched.

        They do not decide the text, so that the stored ones may be those of a recipe that has been corrected since.
        """
        now = next((corpus for corpus in config.train if corpus.name == self.name), None)
        licence = self.licence if self.known_licence is None else self.known_licence
        citation = self.citation if self.known_citation is None else self.known_citation
        return self.model_copy(
            update={
                "licence": (now.licence if now else "") or licence or config.licence,
                "citation": (now.citation if now else "") or citation,
            }
        )


class CorpusIndex(BaseModel):
    """What a download artifact holds, in the order of the recipe: the file `corpora.json`."""

    model_config = ConfigDict(frozen=True)
    corpora: tuple[StoredCorpus, ...]
    on_bad_corpus: Literal["fail", "skip"] = "fail"
    """What the recipe wants done about a training corpus that cannot be read."""
    skipped: dict[str, str] = {}
    """Training corpora that could not be fetched, and why."""

    @staticmethod
    def of(download: Artifact) -> "CorpusIndex":
        """Read the index of an artifact.

        Raises:
            DataError: it is not there, or is none.
        """
        path = download.path / INDEX
        try:
            return CorpusIndex.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise DataError(f"{path}: not an index of corpora ({error}): run `download` again with --force") from None

    def of_role(self, role: Role) -> list[StoredCorpus]:
        """The corpora of a role, in the order of the recipe."""
        return [corpus for corpus in self.corpora if corpus.role == role]


def licence_files(download: Artifact, corpus: StoredCorpus) -> list[str]:
    """Names of the members of a corpus' zip archives that hold its licence, such as the LICENSE of OPUS."""
    found: dict[str, None] = {}
    for path in dict.fromkeys(download.path / file.file for file in corpus.files):
        if path.suffix == ".zip" and path.is_file():
            with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
                found |= dict.fromkeys(filter(_LICENCE_FILE.fullmatch, archive.namelist()))
    return list(found)


def corpora_of(corpus: CorpusConfig, role: Role) -> tuple[ParallelCorpus, ...]:
    """The corpora that the recipe names for a role, in its order."""
    return {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}[role]


def label_of(corpus: ParallelCorpus, side: Side = "both") -> str:
    """Names a corpus, or one side of it, in messages."""
    return f"corpus {corpus.name}" + ("" if side == "both" else f", {side} side")


def short_key(address: str, languages: LanguagesConfig) -> str:
    """What a short address is called in the lock file: it leads to other files for other languages."""
    return f"{address} {languages.source}-{languages.target}"


def identity(config: PipelineConfig) -> Identity:
    """What decides the text: the toy's parameters, and each file's sha256 or, where that is not known yet, its address.

    The mirror, the lock file's path, and the paths of files are not part of it. Nor are licences and citations: a
    corrected one would train a model anew. `StoredCorpus.as_of` gives them as the recipe is now.

    Raises:
        DataError: a file on this machine does not exist, or an address is wrong.
    """
    corpus = config.corpus
    values: Identity = {
        "toy": corpus.toy.model_dump(mode="json") if corpus.toy else None,
        "on_bad_corpus": corpus.on_bad_corpus,
    }
    lock, mirror = Lockfile(corpus.lock), Mirror(corpus.mirror)
    for role in ROLES:
        values[role] = []
        for files in corpora_of(corpus, role):
            try:
                values[role].append(_identity_of(files, config, lock, mirror))
            except DataError:
                if role != "train" or corpus.on_bad_corpus == "fail":
                    raise
                values[role].append({"name": files.name, "missing": [files.address, files.source, files.target]})
    return values


def _identity_of(files: ParallelCorpus, config: PipelineConfig, lock: Lockfile, mirror: Mirror) -> dict[str, Any]:
    parts = {name: getattr(files, name) for name in ("source_column", "target_column", "member")}
    values: dict[str, Any] = {"name": files.name} | {name: part for name, part in parts.items() if part}
    try:
        found = resolve_here(files, config.languages)
    except DataError as error:
        raise DataError(f"{label_of(files)}: {error}") from None
    if found is None:
        key = short_key(files.address, config.languages)
        contents = [files.sha256] if files.sha256 else [lock.sha256(file) or file for file in lock.files_of(key)]
        return values | {"address": key, "files": contents}
    for file in found.files:
        try:
            values.setdefault(file.side, []).append(_content_of(file, lock, mirror))
        except DataError as error:
            raise DataError(f"{label_of(files, file.side)}: {error}") from None
    return values


def _content_of(file: WantedFile, lock: Lockfile, mirror: Mirror) -> str:
    """The sha256 of the file's bytes as far as it is known before a download, else its address."""
    if scheme_of(file.address):
        return file.sha256 or lock.sha256(file.address) or file.address
    path = mirror.find_here(file)
    return file.sha256 or sha256_of(path)
