"""Group the files that a user names into corpora, and tell dev and test sets from training text by their names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from nmt_core import formats
from nmt_core.config.language_codes import is_code, parse_tag
from nmt_core.errors import ConfigError, DataError
from nmt_core.formats import signatures

Role = Literal["train", "dev", "test"]
Pair = tuple[str, str]
"""Source and target language, by their shortest ISO 639 codes. Empty means that a language is not known."""

_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("test", re.compile(r"(?:news)?tests?(?:set)?\d*|devtest|(?:news|tst)test\d*|tst\d*")),
    ("dev", re.compile(r"(?:news)?dev(?:elopment|set)?\d*|valid(?:ation)?\d*|val|tune|tuning")),
)
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._]+")
_LISTED = 8


@dataclass(frozen=True)
class LocalCorpus:
    """A corpus of this machine: one file with both sides, or a file for each side."""

    name: str
    role: Role
    both: Path | None = None
    """File with both sides. None means that `source` and `target` are set."""
    source: Path | None = None
    target: Path | None = None
    languages: Pair = ("", "")
    """Languages of the sides by the names of the files."""
    columns: Pair = ("", "")
    """Columns of a table, by name or by number from 1. Empty means that the reader finds them."""
    encoding: str = ""

    @property
    def files(self) -> list[formats.TextFile]:
        """Files, as readers take them."""
        sides: list[tuple[Path | None, formats.FileSide]]
        sides = [(self.both, "both"), (self.source, "source"), (self.target, "target")]
        return [formats.TextFile(path, side) for path, side in sides if path]

    @property
    def shown(self) -> str:
        """Paths, for messages."""
        return " and ".join(str(file.path) for file in self.files)

    def entry(self) -> dict[str, Any]:
        """Return the entry of a recipe's `corpus`."""
        places = {"address": self.both, "source": self.source, "target": self.target}
        values = {"name": self.name} | {key: str(path) for key, path in places.items() if path}
        details = dict(zip(("source_column", "target_column"), self.columns, strict=True))
        return values | {key: text for key, text in (details | {"encoding": self.encoding}).items() if text}


@dataclass
class Grouped:
    """Corpora among the named files."""

    corpora: list[LocalCorpus] = field(default_factory=list)
    unused: list[Path] = field(default_factory=list)
    """Files of a folder that are no text with a translation."""


def role_of(name: str) -> Role:
    """Return `test` or `dev` for names such as test.en, my-dev.tsv and newstest2014.de, and else `train`."""
    words = [word for word in _BETWEEN_WORDS.split(name.casefold()) if word]
    for role, pattern in _ROLES:
        if any(pattern.fullmatch(word) for word in words):
            return role
    return "train"


def corpus_name(text: str) -> str:
    """Return a name for a corpus or a recipe, made of the characters that a name may have."""
    return _NOT_IN_A_NAME.sub("-", text).strip("-.") or "text"


def language_of_name(path: Path) -> str:
    """Return the language that a file name ends with, such as `de` for `news.de.gz` and `news.deu_Latn.txt`.

    Empty means that it names none.
    """
    return _language_part(_parts(path))[1]


def _parts(path: Path) -> list[str]:
    """Return the parts of a name between full stops, without its packing."""
    return signatures.PACKED_SUFFIX.sub("", path.name).split(".")


def _language_part(parts: Sequence[str]) -> tuple[int, str]:
    """Return the place of the part that names the language, one of the last two, and the language. Empty: none does."""
    for place in range(len(parts) - 1, max(len(parts) - 3, 0), -1):
        tag = parse_tag(parts[place])
        if tag and is_code(tag.language):
            return place, tag.language
    return len(parts), ""


def grouped(places: Sequence[str], wanted: Pair | None) -> Grouped:
    """Return the corpora among files and folders.

    Args:
        places: paths, in the order in which the user names them. Of two halves, the first is the source.
        wanted: languages, if the user names them.

    Raises:
        NmtError: a path does not exist, a folder holds no text, or files do not match up.
    """
    paths = [Path(place).expanduser() for place in places]
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder: correct the path, or name a corpus of OPUS as opus:en-de")
        if not path.is_dir() and not path.is_file():
            raise DataError(f"{path}: is a pipe or a device, which can be read only once: name a file")
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        found = _of_files(paths, wanted)
        if not any(corpus.role == "train" for corpus in found.corpora):  # named by the user to be trained on
            found.corpora = [replace(corpus, role="train") for corpus in found.corpora]
        return found
    if len(paths) > 1:
        raise ConfigError(f"{folders[0]}: a folder beside other text: name one folder, or only files")
    return _of_folder(folders[0], wanted)


def _of_files(paths: Sequence[Path], wanted: Pair | None) -> Grouped:
    found = _matched(paths, wanted)
    halves = [path for path in found.unused if path.is_file()]
    if len(halves) == 2 and not found.corpora:
        source, target = halves
        languages = (language_of_name(source), language_of_name(target))
        name = corpus_name(_stem(source))
        return Grouped([LocalCorpus(name, "train", source=source, target=target, languages=wanted or languages)])
    if found.unused:
        raise _no_partner(found.unused[0])
    return found


def _no_partner(path: Path) -> DataError:
    """Return the error for a file that holds one side, with the reader's own words if it is no text at all."""
    try:
        formats.looks_like(path, "source")
    except DataError as error:
        return error
    close = [other for other in sorted(path.parent.iterdir()) if other != path and _stem(other) == _stem(path)]
    remedy = f"`nmt init {path} {close[0]}`" if len(close) == 1 else "`nmt init text.en text.de`"
    return DataError(
        f"{path}: holds one side of a corpus, and the other side is not named: name both files, as in {remedy}, or one "
        "table with both sides (.tsv, .csv, .jsonl)"
    )


def _of_folder(folder: Path, wanted: Pair | None) -> Grouped:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = _matched(files, wanted, in_order=False)
    if not any(corpus.role == "train" for corpus in found.corpora):
        there = ", ".join(path.name for path in files[:_LISTED]) or "no files"
        what = "only dev and test sets" if found.corpora else "no text with a translation"
        raise DataError(
            f"{folder}: holds {what} ({there}): put in a table (.tsv, .csv, .jsonl, .tmx, .parquet...), or two files "
            "with the same name that end in their languages, as in text.en and text.de"
        )
    return found


def _matched(paths: Sequence[Path], wanted: Pair | None, *, in_order: bool = True) -> Grouped:
    """Match halves by their names, and take files with both sides as they are."""
    halves: dict[str, dict[str, Path]] = {}
    for path in paths:
        if language := language_of_name(path):
            halves.setdefault(str(path.parent / _stem(path)), {})[language] = path
    pair = _common_pair(halves, paths, wanted, in_order)
    found, used = Grouped(), set[Path]()
    names: set[str] = set()
    for sides in halves.values():
        if pair and set(pair) <= sides.keys():
            source, target = (sides[language] for language in pair)
            name = _unique(corpus_name(_stem(source)), names)
            found.corpora.append(
                LocalCorpus(name, role_of(_stem(source)), source=source, target=target, languages=pair)
            )
            used |= set(sides.values())
    for path in paths:
        if path in used:
            continue
        if _holds_both(path):
            name = _unique(corpus_name(path.name.partition(".")[0]), names)
            found.corpora.append(LocalCorpus(name, role_of(path.name), both=path))
        else:
            found.unused.append(path)
    return found


def _common_pair(
    halves: dict[str, dict[str, Path]], paths: Sequence[Path], wanted: Pair | None, in_order: bool
) -> Pair | None:
    """Return the languages of the halves: the ones that the user names, or the only two that there are."""
    if wanted:
        return wanted
    pairs = {pair for sides in halves.values() for pair in combinations(sorted(sides), 2)}
    if not pairs:
        return None
    if len(pairs) > 1:
        languages = ", ".join(sorted({language for pair in pairs for language in pair}))
        raise ConfigError(
            f"{paths[0].parent}: holds text in {languages}: choose two of them, the source first, as in --languages "
            f"{'-'.join(sorted(pairs)[0])}"
        )
    (pair,) = pairs
    if in_order:
        first, second = sorted(pair, key=[language_of_name(path) for path in paths].index)
        return first, second
    return directed(pair)


def directed(pair: Pair) -> Pair:
    """Return two languages in the usual direction: from English, and else in alphabetical order."""
    first, second = sorted(pair)
    return (second, first) if second == "en" else (first, second)


def _stem(path: Path) -> str:
    """Return a name without its language, its suffix of text and its packing: `news` for news.de.txt.gz."""
    parts = _parts(path)
    place, _ = _language_part(parts)
    kept = parts[1:place] + parts[place + 1 :]
    if kept and kept[-1] in {"txt", "text", "tok", "lines", "sgm"}:
        kept.pop()
    return ".".join([parts[0], *kept])


def _holds_both(path: Path) -> bool:
    try:
        formats.looks_like(path, "both")
    except DataError:
        return False
    return True


def _unique(name: str, names: set[str]) -> str:
    number, unique = 1, name
    while unique in names:
        number += 1
        unique = f"{name}-{number}"
    names.add(unique)
    return unique
