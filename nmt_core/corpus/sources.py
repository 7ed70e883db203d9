"""Resolve the corpora of a recipe to files, and compute from these the identity of `download`.

A file is identified by its content. The fingerprint of `download` holds the sha256 of a file if the recipe pins it, the
lock file remembers it, or the file is on this machine. The same text from an address or from a mirror is then the same
artifact. Nothing here uses the network, because `nmt plan` needs the identity too.
"""

from typing import Any

from nmt_core.config import CorpusConfig, LanguagesConfig, MonolingualCorpus, ParallelCorpus, PipelineConfig
from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution, resolve_alone, resolve_here, scheme_of
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.mirror import Mirror
from nmt_core.corpus.index import MONOLINGUAL, ROLES, Role, short_key
from nmt_core.errors import DataError
from nmt_core.formats import FileSide
from nmt_core.store.artifacts import Identity
from nmt_core.store.digests import sha256_of

Corpus = ParallelCorpus | MonolingualCorpus

_READING = ("encoding", "documents", "member")
"""Options of a corpus, besides its columns, that decide what is read of its files."""


def corpora_of(corpus: CorpusConfig, role: Role) -> tuple[Corpus, ...]:
    """Return the corpora that the recipe names for a role, in recipe order."""
    if role == MONOLINGUAL:
        return corpus.monolingual
    return {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}[role]


def roles_of(corpus: CorpusConfig) -> tuple[Role, ...]:
    """Return the roles of a recipe's text. Monolingual text is a role only if there is any."""
    return (*ROLES, MONOLINGUAL) if corpus.monolingual else ROLES


def resolve(corpus: Corpus, languages: LanguagesConfig) -> Resolution | None:
    """Return the files of a corpus, or None if a lookup beyond the address and this machine is needed.

    Args:
        corpus: corpus of the recipe.
        languages: languages of the recipe.

    Raises:
        DataError: the address is wrong, or a folder or pattern holds nothing that fits.
    """
    if isinstance(corpus, MonolingualCorpus):
        return resolve_alone(corpus, corpus.side_in(languages))
    return resolve_here(corpus, corpus.languages_in(languages))


def columns_of(corpus: Corpus, languages: LanguagesConfig) -> tuple[str, str]:
    """Return the source and the target column that the recipe names."""
    if isinstance(corpus, ParallelCorpus):
        return corpus.source_column, corpus.target_column
    return (corpus.column, "") if corpus.side_in(languages) == "source" else ("", corpus.column)


def pairs_of(corpus: Corpus, languages: LanguagesConfig) -> tuple[str, ...]:
    """Return the pairs of a corpus, the direction of its files first. Empty means the recipe's only pair."""
    if isinstance(corpus, ParallelCorpus):
        return corpus.pairs
    return (corpus.languages_in(languages).pair,) if languages.pairs else ()


def label_of(corpus: Corpus, side: FileSide = "both") -> str:
    """Return a name for a corpus, or for one side of it, for messages."""
    return f"corpus {corpus.name}" + ("" if side == "both" else f", {side} side")


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the text: the toy's parameters, and the sha256 or else the address of each file.

    The mirror, the lock file's path and the paths of files are not included. Licences and citations are not included
    either, because correcting one would retrain the model. `StoredCorpus.as_of` reads them from the current recipe.

    Raises:
        DataError: a file on this machine does not exist, or an address is wrong.
    """
    corpus = config.corpus
    values: Identity = {
        "toy": corpus.toy.model_dump(mode="json") if corpus.toy else None,
        "on_bad_corpus": corpus.on_bad_corpus,
    }
    if corpus.toy and config.languages.pairs:
        values["pairs"] = list(config.languages.pairs)
    lock, mirror = Lockfile(corpus.lock), Mirror(corpus.mirror)
    for role in roles_of(corpus):
        values[role] = []
        for files in corpora_of(corpus, role):
            try:
                values[role].append(_identity_of(files, config, lock, mirror))
            except DataError:
                if role != "train" or corpus.on_bad_corpus == "fail":
                    raise
                halves = [files.source, files.target] if isinstance(files, ParallelCorpus) else []
                values[role].append({"name": files.name, "missing": [files.address, *halves]})
    return values


def _identity_of(files: Corpus, config: PipelineConfig, lock: Lockfile, mirror: Mirror) -> dict[str, Any]:
    languages = config.languages
    parts = dict(zip(("source_column", "target_column"), columns_of(files, languages), strict=True))
    parts |= {name: getattr(files, name) for name in _READING if hasattr(files, name)}
    if isinstance(files, MonolingualCorpus):
        parts["side"] = files.side_in(languages)
    values: dict[str, Any] = {"name": files.name} | {name: part for name, part in parts.items() if part}
    if pairs := pairs_of(files, languages):
        values["pairs"] = list(pairs)
    try:
        resolution = resolve(files, languages)
    except DataError as error:
        raise DataError(f"{label_of(files)}: {error}") from None
    if resolution is None:
        key = short_key(files.address, files.languages_in(languages))
        contents = [files.sha256] if files.sha256 else [lock.sha256(file) or file for file in lock.files_of(key)]
        return values | {"address": key, "files": contents}
    for file in resolution.files:
        try:
            values.setdefault(file.side, []).append(_content_of(file, lock, mirror))
        except DataError as error:
            raise DataError(f"{label_of(files, file.side)}: {error}") from None
    return values


def _content_of(file: RequestedFile, lock: Lockfile, mirror: Mirror) -> str:
    """Return the sha256 of the file if it is known before a download, or else its address."""
    if scheme_of(file.address):
        return file.sha256 or lock.sha256(file.address) or file.address
    path = mirror.find_here(file)
    return file.sha256 or sha256_of(path)
