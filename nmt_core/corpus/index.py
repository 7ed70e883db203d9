"""The index of a download artifact, `corpora.json`: the corpora, their files and their licences."""

import re
import zipfile
from contextlib import suppress
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import CorpusConfig, LanguagesConfig
from nmt_core.errors import DataError
from nmt_core.formats import FileSide
from nmt_core.store.artifacts import Artifact
from nmt_core.store.manifests import InnerPath

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
    side: FileSide
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


def short_key(address: str, languages: LanguagesConfig) -> str:
    """What a short address is called in the lock file: it leads to other files for other languages."""
    return f"{address} {languages.source}-{languages.target}"
