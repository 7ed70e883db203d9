"""Collect other systems' translations of a test set. A translation that was made once is not made or paid for again.

Translations of programs, services and models are kept in a file for each system, named by the hash of its description:
everything that decides its translations, without the key. A line of the file is one source text with its translation,
and is written as soon as the translation has come. So a system that fails after half of a test set has cost half, and
the next attempt asks only for the rest.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt_core.config import LanguagesConfig, System
from nmt_core.errors import counted
from nmt_core.judges.files import contents_of_system
from nmt_core.judges.http_client import ServiceClient
from nmt_core.judges.lines import ProgramError, require_code, run_program
from nmt_core.store.artifacts import fingerprint_of
from nmt_core.translator import Translator

_LINE_ENDS = re.compile(r"[\r\n]+")
_AT_ONCE = 500
"""Sentences that a model of this package translates before they are kept."""

Translated = Iterator[tuple[Sequence[str], Sequence[str]]]
"""Sentences with their translations, some at a time."""


class SystemTranslator:
    """Translator by another system.

    Args:
        system: the system.
        languages: languages of the recipe.
        cache: folder in which translations are kept. None keeps nothing.
        threads: number of CPU threads for a model of this package.
        allow_code: False if recipes may not name programs and services (NMT_ALLOW_CODE).
    """

    def __init__(
        self, system: System, languages: LanguagesConfig, cache: Path | None, *, threads: int, allow_code: bool
    ) -> None:
        self._system = system
        self._languages = languages
        self._file = cache / f"{fingerprint_of(_description(system, languages))}.jsonl" if cache else None
        self._threads = threads
        self._allow_code = allow_code

    def translate(self, test_set: str, sources: Sequence[str]) -> list[str]:
        """Return a translation of each sentence of a test set.

        Raises:
            ProgramError: there are none, or not as many as sentences.
            ConfigError: the model cannot run here.
            ModelError: the bundle cannot be read.
        """
        system = self._system
        if system.file:
            return _lines_of(Path(system.file.replace("{test_set}", test_set)), len(sources))
        if system.command or system.address:
            require_code(f"`{system.command or system.address}`", allow_code=self._allow_code)
        known = _read(self._file)
        missing = [text for text in dict.fromkeys(sources) if text not in known]
        if missing:
            for some, translations in self._new(missing):
                pairs = dict(zip(some, translations, strict=True))
                _append(self._file, pairs)
                known |= pairs
        return [known[text] for text in sources]

    def _new(self, sources: list[str]) -> Translated:
        if self._system.address:
            return ServiceClient(self._system, self._languages).translate(sources)
        if self._system.command:
            return iter([(sources, _by_program(self._system, sources))])
        return self._by_bundle(sources)

    def _by_bundle(self, sources: list[str]) -> Translated:
        translator = Translator.load(Path(self._system.bundle), threads=self._threads, scores=False)
        for start in range(0, len(sources), _AT_ONCE):
            some = sources[start : start + _AT_ONCE]
            yield some, [one.text for one in translator.translate(some)]


def _description(system: System, languages: LanguagesConfig) -> dict[str, Any]:
    """Return everything that decides the translations of a system. Limits, retries and its name decide nothing."""
    values = {"command": system.command, "address": system.address, "version": system.version}
    if system.address:
        values |= {"form": system.form, "model": system.model, "prompt": system.prompt}
    files = contents_of_system(system)
    tags = {side: languages.tag(side) for side in ("source", "target")}
    return {"system": values, "files": list(files.values()) if system.bundle else files, "languages": tags}


def _lines_of(file: Path, number: int) -> list[str]:
    """Return the lines of a file of translations.

    Raises:
        ProgramError: the file cannot be read, or has another number of lines.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramError(f"{file}: cannot be read ({error}): correct `file`, or write it as UTF-8") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) != number:
        raise ProgramError(
            f"{file}: has {counted(len(lines), 'line')} for {counted(number, 'sentence')}: it must have one "
            "translation a line, in the order of the test set"
        )
    return lines


def _by_program(system: System, sources: Sequence[str]) -> list[str]:
    given = "".join(f"{_LINE_ENDS.sub(' ', text)}\n" for text in sources).encode()
    lines, words = run_program(system.command, given, system.max_seconds, "a line of the test set")
    if len(lines) != len(sources):
        raise ProgramError(
            f"`{system.command}`: wrote {counted(len(lines), 'line')} for {counted(len(sources), 'sentence')}{words}: "
            "it must write one translation for each line that it reads, and nothing else"
        )
    return lines


def _read(file: Path | None) -> dict[str, str]:
    """Return the translations that are kept. A last line that a killed process left unfinished does not count."""
    if not file or not file.is_file():
        return {}
    known = {}
    for line in file.read_text(encoding="utf-8").split("\n"):
        try:
            row = json.loads(line)
            known[row["source"]] = row["translation"]
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _append(file: Path | None, pairs: Mapping[str, str]) -> None:
    if not file:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"source": source, "translation": text}) for source, text in pairs.items())
    with file.open("a", encoding="utf-8") as out:
        out.write("".join(f"\n{row}" for row in rows) + "\n")  # the line before may be unfinished
