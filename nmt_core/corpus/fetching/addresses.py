"""Classify the addresses of a recipe, and find the files that they mean.

    opus:Tatoeba/v2023-04-12          a corpus of OPUS, in the languages of the recipe
    mtdata:Statmt-europarl-9-deu-eng  a corpus of the mtdata index, by its id
    sacrebleu:wmt14/en-de             a test set of sacreBLEU
    hf:org/name@revision/pattern      the Parquet files of a dataset on the Hugging Face Hub
    https://... s3://... gs://...     a file, or with a * in it, several in an object store
    a path, file:///..., a folder     files of this machine; a pattern with * in it

The first four are *short* addresses: a lookup is needed to find the files (`resolvers/`).
"""

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nmt_core.config import SIDES, LanguagesConfig, MonolingualCorpus, ParallelCorpus, Side
from nmt_core.errors import DataError
from nmt_core.formats import FileSide, signatures
from nmt_core.formats.languages import fit, same_language

SHORT = ("opus", "mtdata", "sacrebleu", "hf")
WEB = ("https", "http")
STORES = ("s3", "gs", "gcs", "memory")
"""Object stores, accessed through fsspec. `memory` is fsspec's in-memory store, for trials."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]+):")  # at least two letters: C:\ is a drive
_WILD = re.compile(r"[*?\[]")
_BOTH_SIDED = re.compile(
    rf"\.(tsv|tab|csv|jsonl|ndjson|tmx|xliff|xlf|po|mo|parquet|xlsx|zip|tar|{'|'.join(signatures.PACKED_TARS)})$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class RequestedFile:
    """A file to fetch, or the part of a file that holds one side."""

    address: str
    side: FileSide
    member: str = ""
    """Pattern of the members to read if the file is an archive. Empty means all that fit."""
    sha256: str = ""
    """Expected sha256. Empty means any."""
    md5: str = ""
    """Expected MD5 hash, for files that are published only with this hash. Empty means any."""
    otherwise: str = ""
    """Address to try if there is no file at the first one."""
    alone: bool = False
    """True if only this side is read, so that the file may have any format."""


@dataclass(frozen=True)
class Resolution:
    """Files of one corpus, with the licence and citation given by its owners."""

    files: tuple[RequestedFile, ...]
    licence: str = ""
    citation: str = ""
    url: str = ""
    source_column: str = ""
    target_column: str = ""


def scheme_of(address: str) -> str:
    """Return the scheme in lower case (`https`, `opus`...), or an empty string for a path or a file: address.

    Raises:
        DataError: the scheme is unknown.
    """
    match = _SCHEME.match(address)
    if not match or Path(address).exists():
        return ""
    scheme, known = match[1].lower(), (*SHORT, *WEB, *STORES[:2], "file")
    if scheme == "file":
        return ""
    if scheme in (*SHORT, *WEB, *STORES):
        return scheme
    close = difflib.get_close_matches(scheme, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}:? " if close else ""
    raise DataError(
        f"{address}: {scheme}: is not a known kind of address: {hint}give a path, or one of {', '.join(known)}"
    )


def local_path(address: str) -> Path:
    """Return the local path that a path or a file: address names."""
    if address.lower().startswith("file:"):
        return Path(unquote(urlsplit(address).path))
    return Path(address).expanduser()


def name_in(address: str) -> str:
    """Return the last part of a path or an address."""
    return Path(unquote(urlsplit(address).path)).name if scheme_of(address) else local_path(address).name


def is_pattern(address: str) -> bool:
    """Return True if an address may mean several files. A web address always means one."""
    return scheme_of(address) not in WEB and bool(_WILD.search(address)) and not local_path(address).exists()


def resolve_here(corpus: ParallelCorpus, languages: LanguagesConfig) -> Resolution | None:
    """Return the files of a corpus, or None if a lookup beyond the address and this machine is needed.

    Raises:
        DataError: the address is wrong, or a folder or pattern holds nothing that fits.
    """
    if corpus.source:
        hashes = {"source": corpus.source_sha256, "target": corpus.target_sha256}
        files = [RequestedFile(getattr(corpus, side), side, sha256=hashes[side]) for side in SIDES]
        for file in files:
            _refuse_many(file.address)
        return Resolution(tuple(files))
    scheme = scheme_of(corpus.address)
    if scheme in SHORT or (scheme and is_pattern(corpus.address)):
        return None
    path = local_path(corpus.address)
    if scheme or not (path.is_dir() or is_pattern(corpus.address)):
        return Resolution((RequestedFile(corpus.address, "both", sha256=corpus.sha256),))
    if corpus.sha256:
        raise DataError(f"{corpus.address}: means several files, which one sha256 cannot describe: remove sha256")
    if path.is_dir():
        names = sorted(str(file) for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        return Resolution(tuple(in_pairs(names, languages, corpus.address, only_data=True)))
    names = sorted(str(file) for file in _glob(path) if file.is_file())
    return Resolution(tuple(in_pairs(names, languages, corpus.address, only_data=False)))


def resolve_alone(corpus: MonolingualCorpus, side: Side) -> Resolution | None:
    """Return the files of monolingual text, or None if a lookup beyond the address and this machine is needed.

    Args:
        corpus: monolingual text.
        side: side that the text is in.

    Raises:
        DataError: the address is wrong, or a folder or pattern holds no file.
    """
    scheme = scheme_of(corpus.address)
    if scheme in SHORT or (scheme and is_pattern(corpus.address)):
        return None
    path = local_path(corpus.address)
    if scheme or not (path.is_dir() or is_pattern(corpus.address)):
        return Resolution((RequestedFile(corpus.address, side, sha256=corpus.sha256, alone=True),))
    if corpus.sha256:
        raise DataError(f"{corpus.address}: means several files, which one sha256 cannot describe: remove sha256")
    candidates = path.iterdir() if path.is_dir() else _glob(path)
    names = sorted(str(file) for file in candidates if file.is_file() and not file.name.startswith("."))
    if not names:
        raise DataError(f"{corpus.address}: holds no file: correct the address")
    return Resolution(tuple(RequestedFile(name, side, alone=True) for name in names))


def only(side: Side, resolution: Resolution) -> Resolution:
    """Return the files of parallel text that hold a side, to be read alone."""
    files = tuple(replace(file, side=side, alone=True) for file in resolution.files if file.side in (side, "both"))
    return replace(resolution, files=files)


def in_pairs(names: list[str], languages: LanguagesConfig, address: str, *, only_data: bool) -> list[RequestedFile]:
    """Return the files with their sides: `x.en` and `x.de` are the sides of a pair, and any other file holds both.

    With `only_data`, a file is left out if it is not half of a pair and has no suffix of a table or an archive. A
    folder may contain a README.

    Raises:
        DataError: a half lacks its partner, or no file is left.
    """
    halves: dict[str, dict[Side, str]] = {}
    whole = []
    for name in names:
        stem, part = _side_by_suffix(name, languages)
        if part != "both":
            side: Side = part
            known = halves.setdefault(stem, {}).get(side)
            ranks = [_fit_of_suffix(one, languages.tag(side)) for one in (known or name, name)]
            if known and ranks[0] > ranks[1]:  # `x.no` beside `x.nb`
                continue
            if known and ranks[0] == ranks[1]:
                raise DataError(f"{address}: {halves[stem][side]} and {name} hold the same side: remove one")
            halves[stem][side] = name
        elif not only_data or _BOTH_SIDED.search(signatures.PACKED_SUFFIX.sub("", name)):
            whole.append(name)
    for sides in halves.values():
        if len(sides) == 1:
            ((side, name),) = sides.items()
            other = languages.target if side == "source" else languages.source
            raise DataError(f"{address}: {name} has no partner that ends in .{other}: add it, or remove the file")
    if not halves and not whole:
        raise DataError(
            f"{address}: holds no text: looked for files that end in .{languages.source} and .{languages.target}, or "
            "hold both sides (.tsv, .jsonl, .tmx, .parquet, .zip...)"
        )
    files = [RequestedFile(sides[side], side) for _, sides in sorted(halves.items()) for side in SIDES]
    return files + [RequestedFile(name, "both") for name in whole]


def _fit_of_suffix(name: str, language: str) -> int:
    return fit(signatures.PACKED_SUFFIX.sub("", name).rpartition(".")[2], language)


def _side_by_suffix(name: str, languages: LanguagesConfig) -> tuple[str, FileSide]:
    """Split a name into stem and side: `news.de.gz` is the target side of `news` from English to German."""
    stem, dot, suffix = signatures.PACKED_SUFFIX.sub("", name).rpartition(".")
    if dot and "/" not in suffix:
        for side, language in zip(SIDES, map(languages.tag, SIDES), strict=True):
            if same_language(suffix, language):
                return stem, side
    return name, "both"


def _glob(pattern: Path) -> list[Path]:
    """Return the files that match a pattern, which may be absolute."""
    root = Path(pattern.anchor) if pattern.anchor else Path()
    return list(root.glob(str(pattern.relative_to(pattern.anchor) if pattern.anchor else pattern)))


def _refuse_many(address: str) -> None:
    scheme = scheme_of(address)
    if scheme in SHORT or is_pattern(address):
        raise DataError(f"{address}: holds both sides: give it as `address`, not as `source` or `target`")
