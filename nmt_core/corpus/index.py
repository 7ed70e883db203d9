"""Define the index of a download artifact, `corpora.json`: the corpora, their files and their licences."""

import re
import zipfile
from contextlib import suppress
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import SIDES, CorpusConfig, LanguagesConfig, MonolingualCorpus, ParallelCorpus, Side
from nmt_core.config.section import later
from nmt_core.errors import DataError
from nmt_core.formats import FileSide
from nmt_core.store.artifacts import Artifact
from nmt_core.store.manifests import InnerPath

Role = Literal["train", "dev", "test", "monolingual"]
ROLES: tuple[Role, ...] = ("train", "dev", "test")
"""Roles of parallel text."""
MONOLINGUAL: Role = "monolingual"

INDEX = "corpora.json"
_LICENCE_FILE = re.compile(r"(?:.*/)?(?:LICEN[CS]E|COPYING)(?:\.(?:txt|md))?", re.IGNORECASE)
_MADE_HERE = "nmt_core.corpus.toy"  # takes the place of an address
_SHOWN = 3  # addresses shown of a corpus with many files


class StoredFile(BaseModel):
    """One file of a download artifact, or the part of a file that holds one side."""

    model_config = ConfigDict(frozen=True)
    file: InnerPath
    """Path within the artifact."""
    sha256: str
    bytes: int
    address: str
    """Address that the file was fetched from."""
    side: FileSide
    """Side that the file holds."""
    member: str = ""
    """Pattern of the members to read if the file is an archive. Empty means all that fit."""


class StoredCorpus(BaseModel):
    """One corpus of a download artifact: parallel text, or monolingual text in the role `monolingual`."""

    model_config = ConfigDict(frozen=True)
    role: Role
    name: str
    licence: str
    citation: str
    url: str
    """Page about the corpus. Empty means that none is known."""
    known_licence: str | None = None
    """Licence known for the address, independent of the recipe. None in files written by older versions."""
    known_citation: str | None = None
    files: tuple[StoredFile, ...]
    """Files of the corpus. If each side has its own files, source and target files match in their order."""
    source_column: str = ""
    target_column: str = ""
    encoding: str = ""
    documents: str = ""
    pairs: tuple[str, ...] = later(())
    """Pairs of languages that the text serves, the direction of the files first. Empty means the recipe's only pair."""

    def languages_in(self, languages: LanguagesConfig) -> LanguagesConfig:
        """Return the source and the target language of the files, given the languages of the recipe."""
        return languages.of(self.pairs[0]) if self.pairs else languages

    @property
    def side(self) -> Side:
        """Side of monolingual text."""
        return "source" if self.files[0].side == "source" else "target"

    @property
    def language(self) -> str:
        """Language of monolingual text with many pairs of languages. Empty means that its side tells the language."""
        return self.pairs[0].split("-")[SIDES.index(self.side)] if self.pairs else ""

    @property
    def label(self) -> str:
        """Name and addresses of the corpus, for messages. Users do not know the copies in the artifact."""
        return f"corpus {self.name} ({', '.join(self._addresses)})"

    @property
    def page(self) -> str:
        """Page about the corpus, or else the addresses of its files. Empty if this package makes the corpus itself."""
        addresses = [address for address in self._addresses if address != _MADE_HERE]
        more = len(addresses) - _SHOWN
        return self.url or ", ".join(addresses[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")

    @property
    def _addresses(self) -> list[str]:
        return list(dict.fromkeys(file.address for file in self.files))

    def as_of(self, config: CorpusConfig) -> "StoredCorpus":
        """Return a copy with the licence and citation of the current recipe, or else the fetched ones.

        They do not decide the text, so the stored values may come from a recipe that has been corrected since.
        """
        named: list[ParallelCorpus | MonolingualCorpus] = [*config.train, *config.monolingual]
        now = next((corpus for corpus in named if corpus.name == self.name), None)
        licence = self.licence if self.known_licence is None else self.known_licence
        citation = self.citation if self.known_citation is None else self.known_citation
        return self.model_copy(
            update={
                "licence": (now.licence if now else "") or licence or config.licence,
                "citation": (now.citation if now else "") or citation,
            }
        )


class CorpusIndex(BaseModel):
    """Content of a download artifact in recipe order: the file `corpora.json`."""

    model_config = ConfigDict(frozen=True)
    corpora: tuple[StoredCorpus, ...]
    on_bad_corpus: Literal["fail", "skip"] = "fail"
    """Reaction to a training corpus that cannot be read."""
    skipped: dict[str, str] = {}
    """Reasons why training corpora could not be fetched, by the name of the corpus."""

    @staticmethod
    def of(download: Artifact) -> "CorpusIndex":
        """Read the index of an artifact.

        Raises:
            DataError: the index is missing or invalid.
        """
        path = download.path / INDEX
        try:
            return CorpusIndex.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise DataError(f"{path}: not an index of corpora ({error}): run `download` again with --force") from None

    def of_role(self, role: Role) -> list[StoredCorpus]:
        """Return the corpora of a role, in recipe order."""
        return [corpus for corpus in self.corpora if corpus.role == role]


def licence_files(download: Artifact, corpus: StoredCorpus) -> list[str]:
    """Return the names of members of a corpus's zip archives that hold its licence, such as the LICENSE of OPUS."""
    names: dict[str, None] = {}
    for path in dict.fromkeys(download.path / file.file for file in corpus.files):
        if path.suffix == ".zip" and path.is_file():
            with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
                names |= dict.fromkeys(filter(_LICENCE_FILE.fullmatch, archive.namelist()))
    return list(names)


def short_key(address: str, languages: LanguagesConfig) -> str:
    """Return the key of a short address in the lock file. It includes the languages, which lead to different files."""
    return f"{address} {languages.source}-{languages.target}"
